/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters on a product, as a step of serving has them: all rows with one, and each row with its
 * own, of which B comes as panels.
 */
#include <stdio.h>

#include "kernels/linear.h"
#include "tests/kernels/bench.h"

struct size {
    int64_t n, k, rank;
};

static const struct size sizes[] = {{576, 576, 16},  {1536, 576, 16}, {4864, 896, 16},
                                    {896, 4864, 16}, {4096, 4096, 8}, {4096, 4096, 64}};
static const int64_t row_counts[] = {1, 4, 16, 64, 512};

enum { ROWS_OWN_MAX = 64 };

static void one_shape(struct bench *b, const struct size *s, int64_t m, bool is_own)
{
    int64_t n_group = is_own ? m : 1;
    char shape[40];
    snprintf(shape, sizeof shape, "%lldx%lld r%lld %s", (long long)s->n, (long long)s->k,
             (long long)s->rank, is_own ? "own" : "one");
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

void bench_lora(struct bench *b)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && bench_wants(b, K_lora); i++) {
        for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++) {
            int64_t m = row_counts[r];
            if (!bench_wants_rows(b, m))
                continue;
            one_shape(b, &sizes[i], m, false);
            if (m > 1 && m <= ROWS_OWN_MAX)
                one_shape(b, &sizes[i], m, true);
        }
    }
}
