/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels on rows and elements at the hidden and feed-forward sizes of real models. One row is a
 * step of decoding one stream, 32 of many, 512 a prompt.
 */
#include "tests/kernels/bench.h"

#include <math.h>
#include <stdio.h>

static const int64_t hidden[] = {576, 896, 2048, 4096};
static const int64_t inner[] = {1536, 4864, 8192, 14336};
static const int64_t rows[] = {1, 32, 512};

/* What the cases of one kernel share: buffers for the largest. */
struct rows_bench {
    struct bench *b;
    enum kernel_id id;
    float *buf[5];
    int32_t *index; /* [512], below 512 */
    uint64_t *key;  /* [512] */
    int64_t m, d;
};

typedef void rows_case_fn(struct rows_bench *r);

static void run(struct rows_bench *r, const void *args)
{
    char shape[32];
    snprintf(shape, sizeof shape, "%d", (int)r->d);
    bench_run(r->b, &(struct bench_case){r->id, shape, r->m, args, LIMIT_F32, 0});
}

static void over(struct bench *b, enum kernel_id id, const int64_t *sizes, rows_case_fn *fn)
{
    if (!bench_wants(b, id))
        return;
    struct rows_bench r = {.b = b, .id = id};
    int64_t most = 512 * sizes[3];
    for (int i = 0; i < 5; i++)
        r.buf[i] = bench_floats(b, most);
    r.index = bench_alloc(b, 512 * sizeof *r.index);
    r.key = bench_alloc(b, 512 * sizeof *r.key);
    for (int i = 0; i < 512; i++) {
        r.index[i] = i * 37 % 512;
        r.key[i] = (uint64_t)i;
    }
    for (int i = 0; i < 12; i++) {
        r.d = sizes[i / 3];
        r.m = rows[i % 3];
        fn(&r);
    }
    bench_release(b);
}

static void binary_case(struct rows_bench *r)
{
    run(r, &(struct k_binary){r->buf[0], r->buf[1], r->buf[2], r->d, r->d, r->d, r->m, r->d});
}

static void norm_case(struct rows_bench *r)
{
    bool is_layer = r->id == K_layernorm;
    struct k_norm a = {.x = r->buf[0],
                       .residual = r->buf[1],
                       .sum = r->buf[2],
                       .y = r->buf[3],
                       .weight = r->buf[4],
                       .bias = is_layer ? r->buf[4] : NULL,
                       .ld_x = r->d,
                       .ld_y = r->d,
                       .m = r->m,
                       .d = r->d,
                       .eps = 1e-5f};
    run(r, &a);
}

static void norm_bwd_case(struct rows_bench *r)
{
    struct k_norm_bwd a = {.x = r->buf[0],
                           .dy = r->buf[1],
                           .dx = r->buf[2],
                           .dweight = r->buf[2],
                           .weight = r->buf[3],
                           .stat = r->buf[4],
                           .ld_x = r->d,
                           .ld_dy = r->d,
                           .ld_dx = r->d,
                           .m = r->m,
                           .d = r->d};
    run(r, &a);
}

static void swiglu_case(struct rows_bench *r)
{
    run(r, &(struct k_swiglu){r->buf[0], r->buf[1], r->buf[2], r->d, r->d, r->d, r->m, r->d});
}

static void swiglu_bwd_case(struct rows_bench *r)
{
    struct k_swiglu_bwd a = {.gate = r->buf[0],
                             .up = r->buf[1],
                             .dy = r->buf[2],
                             .dgate = r->buf[3],
                             .dup = r->buf[4],
                             .ld_gate = r->d,
                             .ld_up = r->d,
                             .ld_dy = r->d,
                             .ld_dgate = r->d,
                             .ld_dup = r->d,
                             .m = r->m,
                             .d = r->d};
    run(r, &a);
}

static void gelu_case(struct rows_bench *r)
{
    run(r, &(struct k_gelu){r->buf[0], r->buf[1], r->buf[2], r->d, r->d, r->d, r->m, r->d, false});
}

static void softcap_case(struct rows_bench *r)
{
    struct k_softcap a = {r->buf[0], r->buf[1], r->buf[2], r->d, r->d, r->d, r->m, r->d, 30};
    run(r, &a);
}

static void softmax_case(struct rows_bench *r)
{
    run(r, &(struct k_softmax){r->buf[0], r->buf[1], r->d, r->d, r->m, r->d});
}

static void dropout_case(struct rows_bench *r)
{
    struct k_dropout a = {.x = r->buf[0],
                          .y = r->buf[1],
                          .row_key = r->key,
                          .ld_x = r->d,
                          .ld_y = r->d,
                          .m = r->m,
                          .d = r->d,
                          .p = 0.1f};
    run(r, &a);
}

static void noise_case(struct rows_bench *r)
{
    struct k_noise a = {.x = r->buf[0],
                        .y = r->buf[1],
                        .row_key = r->key,
                        .seq_of = r->index,
                        .seq_len = r->index,
                        .ld_x = r->d,
                        .ld_y = r->d,
                        .m = r->m,
                        .d = r->d,
                        .alpha = 5};
    run(r, &a);
}

static void index_case(struct rows_bench *r)
{
    run(r, &(struct k_gather){r->buf[0], r->index, r->buf[1], r->d, r->d, r->m, r->d});
}

/* A prompt of three taps. */
static void conv_case(struct rows_bench *r)
{
    static int32_t pos[512], zero[512], cell[512 / K_CELL];
    const int32_t start[2] = {0, (int32_t)r->m};
    for (int32_t i = 0; i < 512; i++) {
        pos[i] = i;
        cell[i / K_CELL] = i / K_CELL;
    }
    run(r, &(struct k_conv){.batch = {.n_seq = 1,
                                      .n_tok = r->m,
                                      .q_start = start,
                                      .kv_len = start + 1,
                                      .seq_of = zero,
                                      .pos = pos,
                                      .cell = cell,
                                      .cell_stride = 512 / K_CELL},
                            .cache = {.type = K_BF16, .k = r->buf[3]},
                            .x = r->buf[0],
                            .weight = r->buf[1],
                            .y = r->buf[2],
                            .ld_x = r->d,
                            .ld_y = r->d,
                            .d = r->d,
                            .n_tap = 3});
}

static void col_sum_case(struct rows_bench *r)
{
    run(r, &(struct k_col_sum){r->buf[0], r->d, r->m, r->d, r->buf[1]});
}

static void l2norm_case(struct rows_bench *r)
{
    struct k_l2norm a = {r->buf[0], r->buf[1], r->buf[2], r->d, r->d, r->d, r->m, r->d, 1e-12f};
    run(r, &a);
}

static void cast_case(struct rows_bench *r)
{
    run(r, &(struct k_cast){r->buf[0], r->buf[1], K_F32, K_BF16, r->m * r->d});
}

static void embed_case(struct rows_bench *r)
{
    struct k_embed a = {.token = r->index, .y = r->buf[0], .ld_y = r->d, .m = r->m};
    k_weight_bind(&a.table, K_BF16, 512, r->d, r->buf[1]);
    run(r, &a);
}

void bench_rows(struct bench *b)
{
    static const struct {
        enum kernel_id id;
        const int64_t *sizes;
        rows_case_fn *fn;
    } all[] = {
        {K_embed, hidden, embed_case},
        {K_rmsnorm, hidden, norm_case},
        {K_rmsnorm_bwd, hidden, norm_bwd_case},
        {K_rmsnorm_dw, hidden, norm_bwd_case},
        {K_layernorm, hidden, norm_case},
        {K_layernorm_bwd, hidden, norm_bwd_case},
        {K_layernorm_dw, hidden, norm_bwd_case},
        {K_swiglu, inner, swiglu_case},
        {K_swiglu_bwd, inner, swiglu_bwd_case},
        {K_glu, inner, swiglu_case},
        {K_glu_bwd, inner, swiglu_bwd_case},
        {K_gelu, inner, gelu_case},
        {K_gelu_bwd, inner, gelu_case},
        {K_softcap, inner, softcap_case},
        {K_softcap_bwd, inner, softcap_case},
        {K_add, hidden, binary_case},
        {K_mul, hidden, binary_case},
        {K_cast, hidden, cast_case},
        {K_dropout, hidden, dropout_case},
        {K_noise, hidden, noise_case},
        {K_gather, hidden, index_case},
        {K_scatter_add, hidden, index_case},
        {K_col_sum, hidden, col_sum_case},
        {K_conv, hidden, conv_case},
        {K_conv_keep, hidden, conv_case},
        {K_softmax, hidden, softmax_case},
        {K_log_softmax, hidden, softmax_case},
        {K_l2norm, hidden, l2norm_case},
        {K_l2norm_bwd, hidden, l2norm_case},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        over(b, all[i].id, all[i].sizes, all[i].fn);
}
