/* SPDX-License-Identifier: Apache-2.0
 *
 * Each adapter lies as a loaded one does (engine/model/adapter.c): product after product, A by
 * rows, B as panels.
 */
#include "clients/local/bench_adapters.h"

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "kernels/linear.h"

enum { ALIGN_FLOATS = 16, CHUNK = 1 << 16 };

static size_t aligned(int64_t rows, int64_t cols)
{
    return ((size_t)(rows * cols) + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

static size_t a_size(const struct bench_adapters *a, const struct param *p)
{
    return aligned(a->rank, p->k);
}

static size_t b_size(const struct bench_adapters *a, const struct param *p)
{
    return aligned(linear_panels(p->n) * K_NR, a->rank);
}

static int fill(const struct bench_adapters *a, struct stream *s, struct err *e)
{
    size_t all = a->each * (size_t)a->n;
    float *x = try_alloc(CHUNK, sizeof *x, "random numbers", e);
    int rc = x ? 0 : -1;
    for (size_t i = 0; i < CHUNK && !rc; i++)
        x[i] = (float)(0.02 * (rng_unit(1, 0, i) - 0.5));
    for (size_t at = 0; at < all && !rc; at += CHUNK)
        stream_copy(s, a->block + at, x, (all - at < CHUNK ? all - at : CHUNK) * sizeof *x,
                    COPY_TO_DEVICE);
    if (!rc)
        rc = stream_sync(s, e);
    mem_free(x);
    return rc;
}

int bench_adapters_init(struct bench_adapters *a, const struct model *m, int64_t n, int64_t rank,
                        struct stream *s, struct err *e)
{
    *a = (struct bench_adapters){.model = m, .n = n, .rank = rank};
    for (int32_t i = 0; i < m->n_param; i++)
        if (m->param[i].lora >= 0)
            a->each += a_size(a, &m->param[i]) + b_size(a, &m->param[i]);
    size_t bytes;
    if (__builtin_mul_overflow(a->each * sizeof *a->block, (size_t)n, &bytes))
        return err_set(e, ERR_TOO_LARGE, "%lld adapters are more than there is room for",
                       (long long)n);
    a->block = device_alloc(m->device, bytes, "adapters", e);
    return a->block ? fill(a, s, e) : -1;
}

void bench_adapters_release(struct bench_adapters *a)
{
    if (a->model)
        device_mem_free(a->model->device, a->block);
}

/* One adapter's part of a product's groups. */
static void put(const struct bench_adapters *a, const struct param *p, const float *at,
                const struct k_lora_group *rows, struct batch *b)
{
    struct k_lora_group *g = &b->lora[p->lora * b->lora_stride + b->n[DIM_GROUP]];
    *g = *rows;
    g->rank = a->rank;
    g->a = at;
    g->b_panels = at + a_size(a, p);
    g->scale = 1;
}

void bench_adapters_groups(const struct bench_adapters *a, struct batch *b)
{
    int64_t n_seq = b->n[DIM_SEQ], n = a->n < n_seq ? a->n : n_seq;
    b->n[DIM_GROUP] = 0;
    for (int64_t i = 0; i < n; i++, b->n[DIM_GROUP]++) {
        const float *at = a->block + (size_t)i * a->each;
        struct k_lora_group rows = {.row_lo = b->q_start[n_seq * i / n],
                                    .row_hi = b->q_start[n_seq * (i + 1) / n]};
        for (int32_t k = 0; k < a->model->n_param; k++) {
            const struct param *p = &a->model->param[k];
            if (p->lora < 0)
                continue;
            put(a, p, at, &rows, b);
            at += a_size(a, p) + b_size(a, p);
        }
    }
}
