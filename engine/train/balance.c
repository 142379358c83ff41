/* SPDX-License-Identifier: Apache-2.0
 *
 * See balance.h. The gradient of coef share E / T^2 sum f P, T rows of all mixtures, begins at what
 * op experts is told to multiply by.
 */
#include "engine/train/balance.h"

#include "engine/base/mem.h"

static size_t n_start(const struct balance *b)
{
    return (size_t)(b->asked.n_layer * (b->n_expert + 1));
}

static size_t n_sum(const struct balance *b)
{
    return (size_t)(b->asked.n_layer * b->n_expert);
}

int balance_init(struct balance *b, const struct model *m, struct stream *s, struct err *e)
{
    static const char what[] = "the load of experts";
    *b = (struct balance){
        .n_expert = m->cfg.n_expert, .coef = m->cfg.balance, .device = stream_device(s)};
    for (int64_t l = 0; l < m->cfg.n_layer && b->coef > 0; l++)
        b->asked.n_layer += m->cfg.has_experts[l];
    if (b->asked.n_layer == 0)
        return 0;
    b->start = try_alloc(n_start(b), sizeof *b->start, what, e);
    b->sum = b->start ? try_alloc(n_sum(b), sizeof *b->sum, what, e) : NULL;
    if (b->sum)
        b->asked.start = device_alloc(b->device, n_start(b) * sizeof *b->start, what, e);
    if (b->asked.start)
        b->asked.sum = device_alloc(b->device, n_sum(b) * sizeof *b->sum, what, e);
    return b->asked.sum ? 0 : -1;
}

void balance_release(struct balance *b)
{
    if (b->asked.start)
        device_mem_free(b->device, b->asked.start);
    if (b->asked.sum)
        device_mem_free(b->device, b->asked.sum);
    mem_free(b->start);
    mem_free(b->sum);
}

const struct batch_balance *balance_begin(struct balance *b, int64_t n_tok, int64_t n_all)
{
    double rows = (double)(n_tok * b->asked.n_layer);
    b->n_tok = n_tok;
    b->share = (double)n_tok / (double)n_all;
    b->asked.by =
        rows > 0 ? (float)(b->coef * b->share * (double)b->n_expert / (rows * rows)) : 0.0f;
    return &b->asked;
}

void balance_fetch(struct balance *b, struct stream *s)
{
    if (b->asked.n_layer == 0)
        return;
    stream_copy(s, b->start, b->asked.start, n_start(b) * sizeof *b->start, COPY_FROM_DEVICE);
    stream_copy(s, b->sum, b->asked.sum, n_sum(b) * sizeof *b->sum, COPY_FROM_DEVICE);
}

double balance_loss(const struct balance *b)
{
    double rows = (double)(b->n_tok * b->asked.n_layer), loss = 0;
    for (int64_t i = 0; i < b->n_expert && b->asked.n_layer > 0; i++) {
        double pairs = 0, given = 0;
        for (int64_t l = 0; l < b->asked.n_layer; l++) {
            const int32_t *start = b->start + l * (b->n_expert + 1);
            pairs += start[i + 1] - start[i];
            given += (double)b->sum[l * b->n_expert + i];
        }
        loss += pairs / rows * (given / rows);
    }
    return b->coef * b->share * (double)b->n_expert * loss;
}
