/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of mixtures of experts at the shapes of real models, rows going to experts at random.
 */
#include <stdio.h>

#include "kernels/linear.h"
#include "tests/kernels/bench.h"

struct mixture {
    int64_t n, k, n_expert, top;
};

/* Qwen3-30B-A3B's, OLMoE's, and sixteen wide ones; of the last 256 rows are 64 for each. */
static const struct mixture mixtures[] = {
    {768, 2048, 128, 8}, {1024, 2048, 64, 8}, {2816, 1024, 16, 2}, {2048, 2048, 16, 4}};
static const int64_t row_counts[] = {1, 8, 64, 256, 512};
enum { N_MIXTURE = 4, N_ROWS = 5, N_TYPE = 4 };

static struct k_stack stack_new(struct bench *b, const struct mixture *x, enum k_type type)
{
    size_t each = k_weight_bytes(type, x->n, x->k);
    char *all = bench_alloc(b, each * (size_t)x->n_expert);
    const float *src = bench_floats(b, x->n * x->k);
    struct k_stack s = {.data_bytes = (int64_t)each, .n_expert = x->n_expert};
    s.scale_bytes = format_group(type) ? (int64_t)each : 0;
    for (int64_t e = 0; e < x->n_expert; e++) {
        struct k_weight_pack a = {.src = src, .src_type = K_F32, .ld_src = x->k, .n_src = x->n};
        k_weight_bind(&a.w, type, x->n, x->k, all + (size_t)e * each);
        bench_prepare(b, K_weight_pack, &a);
        s.w = e == 0 ? a.w : s.w;
    }
    return s;
}

static struct k_route route_new(struct bench *b, const struct mixture *x, int64_t m)
{
    size_t pairs = (size_t)(m * x->top) * sizeof(int32_t);
    struct k_route a = {.x = bench_floats(b, m * x->n_expert),
                        .ld_x = x->n_expert,
                        .m = m,
                        .n = x->n_expert,
                        .top = x->top,
                        .scale = 1,
                        .normalises = true};
    a.map = (struct k_route_map){.expert = bench_alloc(b, pairs),
                                 .weight = bench_alloc(b, pairs),
                                 .place = bench_alloc(b, pairs),
                                 .from = bench_alloc(b, pairs),
                                 .start = bench_alloc(b, ((size_t)x->n_expert + 1) * 4)};
    bench_prepare(b, K_route, &a);
    bench_prepare(b, K_route_sort, &a);
    return a;
}

static void product(struct bench *b, const struct mixture *x, enum k_type type, int64_t m)
{
    char shape[48];
    int64_t routed = m * x->top;
    struct k_stack s = stack_new(b, x, type);
    struct k_route route = route_new(b, x, m);
    s.start = route.map.start;
    struct k_experts_pack pack = {.x = bench_floats(b, m * x->k),
                                  .ld_x = x->k,
                                  .m = routed,
                                  .k = x->k,
                                  .from = route.map.from,
                                  .top = x->top,
                                  .start = s.start,
                                  .n_expert = x->n_expert,
                                  .type = k_format(type)->rows,
                                  .rows = bench_alloc(b, k_rows_bytes(type, routed, x->k))};
    bench_prepare(b, K_experts_pack, &pack);
    struct k_experts a = {.rows = pack.rows,
                          .stack = s,
                          .y = bench_floats(b, routed * x->n),
                          .ld_y = x->n,
                          .m = routed};
    snprintf(shape, sizeof shape, "%s %lldx%lld, %lld of %lld", k_format(type)->name,
             (long long)x->n, (long long)x->k, (long long)x->top, (long long)x->n_expert);
    bench_run(b, &(struct bench_case){K_experts, shape, m, &a,
                                      format_rows(type) == K_F32 ? LIMIT_F32 : LIMIT_BF16, 0});
    bench_release(b);
}

void bench_experts(struct bench *b)
{
    static const enum k_type type[N_TYPE] = {K_F32, K_BF16, K_INT8, K_INT4};
    for (int i = 0; i < N_MIXTURE * N_TYPE * N_ROWS && bench_wants(b, K_experts); i++)
        if (bench_wants_rows(b, row_counts[i % N_ROWS]))
            product(b, &mixtures[i / N_ROWS / N_TYPE], type[i / N_ROWS % N_TYPE],
                    row_counts[i % N_ROWS]);
}
