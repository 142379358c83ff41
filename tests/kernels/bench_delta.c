/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule at the heads of Qwen3.5-0.8B and Qwen3-Next: sequences of one row that
 * decode, and one prompt.
 */
#include <stdio.h>

#include "kernels/delta.h"
#include "tests/kernels/bench.h"

enum { ROWS_MAX = 512, SEQ_MAX = 32 };

struct delta_bench {
    struct bench *b;
    int32_t n_k, n_v, d;
    int32_t start[SEQ_MAX + 1], slot[SEQ_MAX], none[SEQ_MAX];
    int32_t pos[ROWS_MAX], seq_of[ROWS_MAX];
};

/* n_seq sequences of so many rows. */
static struct k_delta args_new(struct delta_bench *d, int32_t n_seq, int32_t n_row)
{
    int64_t m = (int64_t)n_seq * n_row, n_k = (int64_t)d->n_k * d->d, n_v = (int64_t)d->n_v * d->d;
    for (int32_t s = 0; s <= n_seq; s++)
        d->start[s] = s * n_row;
    for (int32_t s = 0; s < n_seq; s++) {
        d->slot[s] = s;
        d->none[s] = -1;
    }
    for (int32_t t = 0; t < m; t++) {
        d->pos[t] = t % n_row;
        d->seq_of[t] = t / n_row;
    }
    struct k_delta_rates r = {.q = bench_floats(d->b, m * n_k),
                              .k = bench_floats(d->b, m * n_k),
                              .a = bench_floats(d->b, m * d->n_v),
                              .b = bench_floats(d->b, m * d->n_v),
                              .a_log = bench_floats(d->b, d->n_v),
                              .dt_bias = bench_floats(d->b, d->n_v),
                              .rate = bench_alloc(d->b, (size_t)m * 16 * (size_t)d->n_v),
                              .ld_q = n_k,
                              .ld_k = n_k,
                              .ld_a = d->n_v,
                              .ld_b = d->n_v,
                              .m = m,
                              .n_k = d->n_k,
                              .n_v = d->n_v,
                              .d_k = d->d};
    bench_prepare(d->b, K_delta_rates, &r);
    return (struct k_delta){
        .batch =
            {.n_seq = n_seq, .n_tok = m, .q_start = d->start, .seq_of = d->seq_of, .pos = d->pos},
        .state = {bench_floats(d->b, n_seq * n_v * d->d), d->slot, d->slot, d->none, d->none},
        .q = r.q,
        .k = r.k,
        .v = bench_floats(d->b, m * n_v),
        .rate = r.rate,
        .y = bench_alloc(d->b, (size_t)(m * n_v) * sizeof(float)),
        .ld_q = n_k,
        .ld_k = n_k,
        .ld_v = n_v,
        .ld_y = n_v,
        .n_k = d->n_k,
        .n_v = d->n_v,
        .d_k = d->d,
        .d_v = d->d};
}

static void forward(struct delta_bench *d, const char *shape, int32_t n_seq, int32_t n_row)
{
    if (!bench_wants(d->b, K_delta) || !bench_wants_rows(d->b, (int64_t)n_seq * n_row))
        return;
    struct k_delta a = args_new(d, n_seq, n_row);
    bench_run(d->b, &(struct bench_case){K_delta, shape, (int64_t)n_seq * n_row, &a, LIMIT_F32, 0});
    bench_release(d->b);
}

static void backward(struct delta_bench *d, const char *shape)
{
    if (!bench_wants(d->b, K_delta_bwd) || !bench_wants_rows(d->b, ROWS_MAX))
        return;
    int64_t n_v = (int64_t)d->n_v * d->d;
    struct k_delta a = args_new(d, 1, ROWS_MAX);
    struct k_delta_bwd g = {
        .fwd = a,
        .dy = bench_floats(d->b, ROWS_MAX * n_v),
        .dv = bench_floats(d->b, ROWS_MAX * n_v),
        .part = bench_floats(d->b, (int64_t)ROWS_MAX * d->n_v * K_DELTA_PARTS * (2 * d->d + 2)),
        .border = bench_floats(d->b, delta_borders(d->d, ROWS_MAX, 1) * n_v * d->d),
        .ld_dy = n_v,
        .ld_dv = n_v};
    bench_run(d->b, &(struct bench_case){K_delta_bwd, shape, ROWS_MAX, &g, LIMIT_F32, 0});
    bench_release(d->b);
}

void bench_delta(struct bench *b)
{
    static const int32_t heads[][2] = {{16, 16}, {16, 32}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct delta_bench d = {.b = b, .n_k = heads[i][0], .n_v = heads[i][1], .d = 128};
        char shape[32];
        snprintf(shape, sizeof shape, "%d/%dx%d", d.n_v, d.n_k, d.d);
        forward(&d, shape, 1, 1);
        forward(&d, shape, SEQ_MAX, 1);
        forward(&d, shape, 1, ROWS_MAX);
        backward(&d, shape);
    }
}
