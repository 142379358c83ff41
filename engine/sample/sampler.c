/* SPDX-License-Identifier: Apache-2.0
 *
 * One row at a time, by the kernels that cut a distribution.
 */
#include "engine/sample/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"

struct sampler {
    const struct kernel_table *kernels; /* borrowed */
    int64_t n_vocab;
    float *row, *prob; /* owned: [n_vocab] */
    int32_t *id;       /* owned: [n_vocab] */
    void *scratch;     /* owned: K_SCRATCH_BYTES */
};

struct sampler *sampler_new(int64_t n_vocab, const struct kernel_table *kernels, struct err *e)
{
    struct sampler *s = xcalloc(1, sizeof *s);
    *s = (struct sampler){.kernels = kernels, .n_vocab = n_vocab};
    s->row = try_alloc((size_t)n_vocab, sizeof *s->row, "a row of logits", e);
    s->prob = s->row ? try_alloc((size_t)n_vocab, sizeof *s->prob, "a row of logits", e) : NULL;
    s->id = s->prob ? try_alloc((size_t)n_vocab, sizeof *s->id, "a row of ids", e) : NULL;
    s->scratch = s->id ? try_alloc(K_SCRATCH_BYTES, 1, "scratch", e) : NULL;
    if (s->scratch)
        return s;
    sampler_free(s);
    return NULL;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    mem_free(s->row);
    mem_free(s->prob);
    mem_free(s->id);
    mem_free(s->scratch);
    free(s);
}

int sample_check(const struct sample_params *p, struct err *e)
{
    if (!(p->temperature >= 0 && p->temperature <= 100))
        return err_set(e, ERR_BAD_INPUT, "temperature: %g is not between 0 and 100",
                       p->temperature);
    if (!(p->top_p > 0 && p->top_p <= 1))
        return err_set(e, ERR_BAD_INPUT, "top_p: %g is not above 0 and at most 1", p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1))
        return err_set(e, ERR_BAD_INPUT, "min_p: %g is not between 0 and 1", p->min_p);
    if (p->top_k < 0)
        return err_set(e, ERR_BAD_INPUT, "top_k: %lld is below 0", (long long)p->top_k);
    return 0;
}

static int32_t greedy(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    return (int32_t)best;
}

/* The first entry at which the running sum passes u; the last that can be drawn where rounding
 * leaves the sum short. */
static int64_t draw(const float *prob, int64_t n, double u)
{
    double sum = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(prob[i] > 0))
            continue;
        sum += (double)prob[i];
        last = i;
        if (u < sum)
            break;
    }
    return last;
}

/* No cut: the whole distribution, in the vocabulary's order. */
static int32_t draw_of_all(struct sampler *s, double u)
{
    struct k_softmax a = {.x = s->row, .y = s->prob, .m = 1, .d = s->n_vocab};
    kernel_run(s->kernels, K_softmax, &a, s->scratch);
    return (int32_t)draw(s->prob, s->n_vocab, u);
}

static int32_t draw_of_cut(struct sampler *s, const struct sample_params *p, double u)
{
    int32_t top_k = p->top_k < s->n_vocab ? (int32_t)p->top_k : 0, n_left = 0;
    float top_p = (float)p->top_p, min_p = (float)p->min_p;
    struct k_top_select a = {.logits = s->row,
                             .ld = s->n_vocab,
                             .m = 1,
                             .n = s->n_vocab,
                             .top_k = &top_k,
                             .top_p = &top_p,
                             .min_p = &min_p,
                             .id = s->id,
                             .prob = s->prob,
                             .n_left = &n_left,
                             .n_max = s->n_vocab};
    kernel_run(s->kernels, K_top_select, &a, s->scratch);
    return s->id[draw(s->prob, n_left, u)];
}

int32_t sampler_next(struct sampler *s, const struct sample_params *p, const float *logits,
                     uint64_t index)
{
    double u;
    if (p->temperature <= 0)
        return greedy(logits, s->n_vocab);
    for (int64_t i = 0; i < s->n_vocab; i++)
        s->row[i] = (float)((double)logits[i] / p->temperature);
    u = rng_unit(p->seed, 0, index);
    if (p->top_k == 0 && p->top_p >= 1 && p->min_p <= 0)
        return draw_of_all(s, u);
    return draw_of_cut(s, p, u);
}
