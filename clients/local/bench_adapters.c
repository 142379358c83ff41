/* SPDX-License-Identifier: Apache-2.0
 *
 * Each adapter lies as a loaded one does (engine/model/adapter.c): product after product, A by
 * rows, B as panels; of experts it has none, as nobody's has who does not ask for them.
 */
#include "clients/local/bench_adapters.h"

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "kernels/float16.h"
#include "kernels/linear.h"

enum { ALIGN_BYTES = 64, CHUNK = 1 << 16 };

static size_t aligned(const struct bench_adapters *a, int64_t rows, int64_t cols)
{
    size_t bytes = (size_t)(rows * cols) * (a->is_bf16 ? sizeof(k_bf16) : sizeof(float));
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static size_t a_bytes(const struct bench_adapters *a, const struct param *p)
{
    return aligned(a, a->rank, p->k);
}

static size_t b_bytes(const struct bench_adapters *a, const struct param *p)
{
    return aligned(a, linear_panels(p->n) * K_NR, a->rank);
}

/* Small numbers, of which all are bf16: two of them are an f32 nearly the second. */
static int fill(const struct bench_adapters *a, struct stream *s, struct err *e)
{
    size_t all = a->each * (size_t)a->n;
    k_bf16 *x = try_alloc(CHUNK, sizeof *x, "random numbers", e);
    int rc = x ? 0 : -1;
    for (size_t i = 0; i < CHUNK && !rc; i++)
        x[i] = bf16_from_f32((float)(0.02 * (rng_unit(1, 0, i) - 0.5)));
    for (size_t at = 0, n; at < all && !rc; at += n) {
        n = all - at < CHUNK * sizeof *x ? all - at : CHUNK * sizeof *x;
        stream_copy(s, a->block + at, x, n, COPY_TO_DEVICE);
    }
    if (!rc)
        rc = stream_sync(s, e);
    mem_free(x);
    return rc;
}

int bench_adapters_init(struct bench_adapters *a, struct stream *s, struct err *e)
{
    const struct model *m = a->model;
    size_t bytes;
    for (int32_t i = 0; i < m->n_param; i++)
        if (m->param[i].lora >= 0 && !m->param[i].n_half)
            a->each += a_bytes(a, &m->param[i]) + b_bytes(a, &m->param[i]);
    if (__builtin_mul_overflow(a->each, (size_t)a->n, &bytes))
        return err_set(e, ERR_TOO_LARGE, "%lld adapters are more than there is room for",
                       (long long)a->n);
    a->block = device_alloc(m->device, bytes, "adapters", e);
    return a->block ? fill(a, s, e) : -1;
}

void bench_adapters_release(struct bench_adapters *a)
{
    if (a->block)
        device_mem_free(a->model->device, a->block);
}

/* A product's part of the batch's next group. */
static void put(const struct bench_adapters *a, const struct param *p, const char *at,
                const struct k_lora_group *rows, struct batch *b)
{
    struct k_lora_group *g = &b->lora[p->lora * b->lora_stride + b->n[DIM_GROUP]];
    const void *half_a = at, *half_b = at + a_bytes(a, p);
    *g = *rows;
    if (p->n_half)
        return;
    g->rank = a->rank;
    g->scale = 1;
    g->stored = at;
    g->stored_bytes = a_bytes(a, p) + b_bytes(a, p);
    if (a->is_bf16) {
        g->a_bf16 = half_a;
        g->b_panels_bf16 = half_b;
    } else {
        g->a = half_a;
        g->b_panels = half_b;
    }
}

void bench_adapters_groups(const struct bench_adapters *a, struct batch *b)
{
    int64_t n_seq = b->n[DIM_SEQ], n = a->n < n_seq ? a->n : n_seq;
    b->n[DIM_GROUP] = 0;
    for (int64_t i = 0; i < n; i++, b->n[DIM_GROUP]++) {
        const char *at = a->block + (size_t)i * a->each;
        struct k_lora_group rows = {.row_lo = b->q_start[n_seq * i / n],
                                    .row_hi = b->q_start[n_seq * (i + 1) / n]};
        for (int32_t k = 0; k < a->model->n_param; k++) {
            const struct param *p = &a->model->param[k];
            if (p->lora < 0)
                continue;
            put(a, p, at, &rows, b);
            at += p->n_half ? 0 : a_bytes(a, p) + b_bytes(a, p);
        }
    }
}
