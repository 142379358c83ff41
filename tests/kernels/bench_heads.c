/* SPDX-License-Identifier: Apache-2.0
 *
 * The head's kernels over vocabularies of real models, the sampler's cut, and the optimizer.
 */
#include "tests/kernels/bench.h"

#include <math.h>
#include <stdio.h>

static void ce_bench(struct bench *b, enum kernel_id id)
{
    static const int64_t rows[] = {1, 32, 512};
    if (!bench_wants(b, id))
        return;
    float *logits = bench_floats(b, 512 * K_CE_CHUNK);
    struct k_ce_state *state = bench_alloc(b, 512 * sizeof *state);
    int32_t *target = bench_alloc(b, 512 * sizeof *target);
    float *dloss = bench_alloc(b, 512 * sizeof *dloss); /* zero: dlogits stay finite over calls */
    for (int i = 0; i < 512; i++)
        state[i] = (struct k_ce_state){0, 1000, 0, -INFINITY, -1};
    for (int i = 0; i < 3; i++) {
        struct k_ce a = {.logits = logits,
                         .ld = K_CE_CHUNK,
                         .m = rows[i],
                         .n = K_CE_CHUNK,
                         .target = target,
                         .state = state,
                         .dloss = dloss};
        bench_run(b, &(struct bench_case){id, "4096", rows[i], &a, LIMIT_F32, 0});
    }
    bench_release(b);
}

/* Logits as a trained model's: a few likely, the bulk far below. */
static void logits_shape(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = 3 * x[i] - 10 + (i % 5000 == 17 ? 14 : 0);
}

static void argmax_bench(struct bench *b)
{
    enum { N = 150000, M = 32 };
    if (!bench_wants(b, K_argmax))
        return;
    struct k_argmax a = {.x = bench_floats(b, (int64_t)N * M),
                         .ld = N,
                         .n = N,
                         .best = bench_alloc(b, M * sizeof(struct k_best))};
    for (a.m = 1; a.m <= M; a.m += M - 1)
        bench_run(b, &(struct bench_case){K_argmax, "150k", a.m, &a, LIMIT_F32, 0});
    bench_release(b);
}

static void select_bench(struct bench *b)
{
    static const struct {
        const char *name;
        int32_t top_k;
        float top_p;
    } cut[] = {{"150k k=50", 50, 1}, {"150k p=0.95", 0, 0.95f}, {"150k k=50 p=.9", 50, 0.9f}};
    enum { N = 150000, M = 32 };
    if (!bench_wants(b, K_top_select))
        return;
    float *x = bench_floats(b, (int64_t)N * M);
    float *top_p = bench_alloc(b, M * sizeof *top_p), *min_p = bench_alloc(b, M * sizeof *min_p);
    int32_t *top_k = bench_alloc(b, M * sizeof *top_k);
    logits_shape(x, (int64_t)N * M);
    struct k_top_select a = {.logits = x,
                             .ld = N,
                             .n = N,
                             .top_k = top_k,
                             .top_p = top_p,
                             .min_p = min_p,
                             .id = bench_alloc(b, (size_t)N * M * sizeof(int32_t)),
                             .prob = bench_alloc(b, (size_t)N * M * sizeof(float)),
                             .n_left = bench_alloc(b, M * sizeof(int32_t)),
                             .n_max = N};
    for (int i = 0; i < 6; i++) {
        a.m = i % 2 ? M : 1;
        for (int row = 0; row < M; row++) {
            top_k[row] = cut[i / 2].top_k;
            top_p[row] = cut[i / 2].top_p;
        }
        bench_run(b, &(struct bench_case){K_top_select, cut[i / 2].name, a.m, &a, LIMIT_F32, 0});
    }
    bench_release(b);
}

static void sample_bench(struct bench *b)
{
    static const struct {
        const char *name;
        struct k_sample_how how;
    } of[] = {{"150k all", {.scale = 1.25f, .top_p = 1}},
              {"150k p=0.95", {.scale = 1.25f, .top_p = 0.95f}},
              {"150k k=50 p=.9", {.scale = 1, .top_k = 50, .top_p = 0.9f}}};
    enum { N = 150000, M = 32 };
    if (!bench_wants(b, K_sample))
        return;
    float *x = bench_floats(b, (int64_t)N * M);
    struct k_sample_how *how = bench_alloc(b, M * sizeof *how);
    logits_shape(x, (int64_t)N * M);
    struct k_sample a = {
        .logits = x, .ld = N, .n = N, .how = how, .id = bench_alloc(b, M * sizeof(int32_t))};
    for (int i = 0; i < 6; i++) {
        a.m = i % 2 ? M : 1;
        for (int row = 0; row < M; row++) {
            how[row] = of[i / 2].how;
            how[row].u = (row + 0.5) / M;
        }
        bench_run(b, &(struct bench_case){K_sample, of[i / 2].name, a.m, &a, LIMIT_F32, 0});
    }
    bench_release(b);
}

static struct k_adamw optim_step(struct bench *b, int64_t n)
{
    return (struct k_adamw){.m = bench_alloc(b, (size_t)n * sizeof(float)),
                            .v = bench_alloc(b, (size_t)n * sizeof(float)),
                            .g = bench_floats(b, n),
                            .n = n,
                            .lr = 1e-6,
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .eps = 1e-8,
                            .g_scale = 1,
                            .corr1 = 1,
                            .corr2 = 1};
}

static void optim_bench(struct bench *b)
{
    enum { N = 16 << 20 };
    if (bench_wants(b, K_adamw)) {
        struct k_adamw a = optim_step(b, N);
        a.p = bench_floats(b, N);
        bench_run(b, &(struct bench_case){K_adamw, "16M", 1, &a, LIMIT_F32, 0});
        bench_release(b);
    }
    if (bench_wants(b, K_adamw_weight)) {
        enum { OUTPUTS = 8192, INPUTS = N / OUTPUTS };
        struct k_adamw_weight a = {.low = bench_alloc(b, N * sizeof(uint16_t)),
                                   .a = optim_step(b, N)};
        k_weight_bind(&a.w, K_BF16, OUTPUTS, INPUTS,
                      bench_alloc(b, k_weight_bytes(K_BF16, OUTPUTS, INPUTS)));
        bench_run(b, &(struct bench_case){K_adamw_weight, "8192x2048", 1, &a, LIMIT_F32, 0});
        bench_release(b);
    }
    if (bench_wants(b, K_sum_sq)) {
        struct k_sum_sq a = {.x = bench_floats(b, N), .n = N};
        a.part = bench_alloc(b, N / K_SUM_CHUNK * sizeof *a.part);
        bench_run(b, &(struct bench_case){K_sum_sq, "16M", 1, &a, LIMIT_F32, 0});
        bench_release(b);
    }
}

void bench_heads(struct bench *b)
{
    ce_bench(b, K_ce_fwd);
    ce_bench(b, K_ce_bwd);
    argmax_bench(b);
    select_bench(b);
    sample_bench(b);
    optim_bench(b);
}
