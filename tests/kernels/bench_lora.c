/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters on a product, as a step of serving has them: all rows with one, and each row with its
 * own, of which B comes as panels; as f32 and as bf16. And as training has them: many rows with
 * one, and its gradients; and the lengths that DoRA finds before a step.
 */
#include <stdio.h>

#include "kernels/float16.h"
#include "kernels/linear.h"
#include "tests/kernels/bench.h"

struct size {
    int64_t n, k, rank;
};

static const struct size sizes[] = {{576, 576, 16},  {1536, 576, 16}, {4864, 896, 16},
                                    {896, 4864, 16}, {4096, 4096, 8}, {4096, 4096, 64}};
static const int64_t row_counts[] = {1, 4, 16, 64, 512};

enum { ROWS_OWN_MAX = 64, ROWS_TRAINED = 512 };

static const k_bf16 *bf16_of(struct bench *b, const float *x, int64_t n)
{
    k_bf16 *to = bench_alloc(b, (size_t)n * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[i] = bf16_from_f32(x[i]);
    return to;
}

static void one_shape(struct bench *b, const struct size *s, int64_t m, bool is_own, bool is_bf16)
{
    int64_t n_group = is_own ? m : 1;
    char shape[40];
    snprintf(shape, sizeof shape, "%lldx%lld r%lld %s%s", (long long)s->n, (long long)s->k,
             (long long)s->rank, is_own ? "own" : "one", is_bf16 ? " bf16" : "");
    int64_t size_a = s->rank * s->k, size_b = linear_panels(s->n) * K_NR * s->rank;
    const float *half_a = bench_floats(b, n_group * size_a);
    const float *half_b = bench_floats(b, n_group * size_b);
    struct k_lora_group *g = bench_alloc(b, (size_t)n_group * sizeof *g);
    for (int64_t i = 0; i < n_group; i++)
        g[i] = (struct k_lora_group){.row_lo = i,
                                     .row_hi = is_own ? i + 1 : m,
                                     .rank = s->rank,
                                     .a = half_a + i * size_a,
                                     .b_panels = half_b + i * size_b,
                                     .scale = 1e-3f};
    const k_bf16 *narrow_a = is_bf16 ? bf16_of(b, half_a, n_group * size_a) : NULL;
    const k_bf16 *narrow_b = is_bf16 ? bf16_of(b, half_b, n_group * size_b) : NULL;
    for (int64_t i = 0; i < n_group && is_bf16; i++) {
        g[i].a_bf16 = narrow_a + i * size_a;
        g[i].b_panels_bf16 = narrow_b + i * size_b;
    }
    struct k_lora a = {.x = bench_floats(b, m * s->k),
                       .ld_x = s->k,
                       .m = m,
                       .k = s->k,
                       .n = s->n,
                       .group = g,
                       .n_group = n_group,
                       .t = bench_floats(b, m * s->rank),
                       .rank_max = s->rank,
                       .y = bench_floats(b, m * s->n),
                       .ld_y = s->n};
    bench_run(b, &(struct bench_case){K_lora, shape, m, &a, LIMIT_F32, 0});
    bench_release(b);
}

/* Training: the adapter as it is, row-major. */
static void gradients(struct bench *b, const struct size *s, int64_t m)
{
    char shape[40];
    snprintf(shape, sizeof shape, "%lldx%lld r%lld", (long long)s->n, (long long)s->k,
             (long long)s->rank);
    struct k_lora_group g = {.row_hi = m,
                             .rank = s->rank,
                             .a = bench_floats(b, s->rank * s->k),
                             .b = bench_floats(b, s->n * s->rank),
                             .scale = 1e-3f,
                             .da = bench_floats(b, s->rank * s->k),
                             .db = bench_floats(b, s->n * s->rank)};
    struct k_lora_bwd a = {.fwd = {.x = bench_floats(b, m * s->k),
                                   .ld_x = s->k,
                                   .m = m,
                                   .k = s->k,
                                   .n = s->n,
                                   .group = &g,
                                   .n_group = 1,
                                   .t = bench_floats(b, m * s->rank),
                                   .rank_max = s->rank},
                           .dy = bench_floats(b, m * s->n),
                           .ld_dy = s->n,
                           .dt = bench_floats(b, m * s->rank),
                           .dx = bench_floats(b, m * s->k),
                           .ld_dx = s->k,
                           .rounds = true};
    for (int i = 0; i < 2; i++) {
        enum kernel_id id = i ? K_lora_dw : K_lora_bwd;
        if (bench_wants(b, id))
            bench_run(b, &(struct bench_case){id, shape, m, &a, LIMIT_F32, 0});
    }
    bench_release(b);
}

static void lengths(struct bench *b, const struct size *s)
{
    char shape[40];
    snprintf(shape, sizeof shape, "%lldx%lld r%lld", (long long)s->n, (long long)s->k,
             (long long)s->rank);
    struct k_dora_gain a = {.w = bench_floats(b, s->n * s->k),
                            .ld_w = s->k,
                            .n = s->n,
                            .k = s->k,
                            .rank = s->rank,
                            .a = bench_floats(b, s->rank * s->k),
                            .b = bench_floats(b, s->n * s->rank),
                            .scale = 1e-3f,
                            .magnitude = bench_floats(b, s->n),
                            .norm = bench_floats(b, s->n),
                            .gain = bench_floats(b, s->n)};
    bench_run(b, &(struct bench_case){K_dora_gain, shape, s->n, &a, LIMIT_F32, 0});
    bench_release(b);
}

static void products(struct bench *b, const struct size *s)
{
    for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++) {
        int64_t m = row_counts[r];
        if (!bench_wants_rows(b, m))
            continue;
        for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
            one_shape(b, s, m, false, is_bf16);
            if (m > 1 && m <= ROWS_OWN_MAX)
                one_shape(b, s, m, true, is_bf16);
        }
    }
}

void bench_lora(struct bench *b)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (bench_wants(b, K_lora))
            products(b, &sizes[i]);
        if (bench_wants_rows(b, ROWS_TRAINED))
            gradients(b, &sizes[i], ROWS_TRAINED);
        if (bench_wants(b, K_dora_gain))
            lengths(b, &sizes[i]);
    }
}
