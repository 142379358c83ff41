/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of attn_row_avx2.c: heads against a piece of a cell. 16 registers hold the sums of
 * three heads by 32 columns or of six by 16, two numbers of each step, one factor and a mask. What
 * counts is instructions and loads to a product, as a core's other thread takes its share of both:
 * the more heads have what was widened once, the fewer they are. So four heads and more go by one
 * line of each step and then by the other; and those that are left go over the piece again, which
 * is in the first cache by then. Between pieces sums wait in memory.
 */
#include "kernels/x86/attn_run_avx2.h"
#include "kernels/x86/tile_6x2_avx2.h"

enum { HEADS_QUAD = 3, HEADS_MAX = 6, STEPS = 2 /* at a time */ };

_Static_assert(ROW_FLOATS * sizeof(float) == 2112, "as ROW_STRIDE has it");

#define ROW_STRIDE "2112"
#define SUMS(r)    [s##r##0] "+&x"(acc[r].v[v]), [s##r##1] "+&x"(acc[r].v[v + 1])

#define STEP(n)                                                                                    \
    do {                                                                                           \
        if (type == K_BF16)                                                                        \
            __asm__ volatile(EVEN TIMES_##n("0") ODD TIMES_##n("4") : SUMS_##n, REST : "memory");  \
        else                                                                                       \
            __asm__ volatile(BOTH TIMES_##n("0") : SUMS_##n, REST : "memory");                     \
    } while (0)

/* A step, one input or in bf16 two, against two vectors. */
INLINE void step(struct quad *acc, int v, const float *rows, const float *b, const int mr,
                 const enum k_type type)
{
    const __m256 high = _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000u));
    __m256 x, b0, b1;
    if (mr == 1)
        STEP(1);
    else if (mr == 2)
        STEP(2);
    else if (mr == 3)
        STEP(3);
    else if (mr == 4)
        STEP(4);
    else if (mr == 5)
        STEP(5);
    else
        STEP(6);
}

/* Asks for a line. Not the builtin, which the compiler moves: of lines that are asked for many at
 * once most are dropped, and the more steps there were at a time, the slower memory was. */
INLINE void ask(const char *line)
{
    __asm__ volatile("prefetcht0 (%0)" ::"r"(line));
}

/* Inputs of a step. */
INLINE int step_of(const enum k_type type)
{
    return type == K_BF16 ? 2 : 1;
}

/* mr heads by nv vectors of w columns. */
INLINE void run(__m256 *sum, const __m256 *from, const float *rows, const float *b,
                const char *ahead, int n, const int mr, const int nv, const int w,
                const enum k_type type)
{
    struct quad acc[HEADS_MAX];
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            acc[r].v[v] = from[r * QUAD_VECS + v];
    while (n > 0) {
        const int some = n < STEPS ? 1 : STEPS;
        n -= some;
#pragma GCC unroll 2
        for (int i = 0; i < STEPS; i++) {
#pragma GCC unroll 2
            for (int v = 0; v < nv; v += 2) {
                ask(ahead + v * 32);
                step(acc, v, rows, b + v * 8, mr, type);
            }
            rows += step_of(type);
            b += w;
            ahead += w * (int)sizeof *b;
            if (some == 1)
                break;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            sum[r * QUAD_VECS + v] = acc[r].v[v];
}

/* Functions of their own: beside other code the sums would not all be in registers. */
#define RUN(mr, nv, w, type)                                                                       \
    __attribute__((noinline)) static void run_##type##_##mr##_##nv##_##w(                          \
        __m256 *sum, const __m256 *from, const float *rows, const float *b, const char *ahead,     \
        int n)                                                                                     \
    {                                                                                              \
        run(sum, from, rows, b, ahead, n, mr, nv, w, type);                                        \
    }
#define RUNS(type)                                                                                 \
    RUN(1, 4, 32, type)                                                                            \
    RUN(2, 4, 32, type)                                                                            \
    RUN(3, 4, 32, type)                                                                            \
    RUN(4, 2, 32, type)                                                                            \
    RUN(5, 2, 32, type)                                                                            \
    RUN(6, 2, 32, type)                                                                            \
    RUN(1, 2, 16, type)                                                                            \
    RUN(2, 2, 16, type)                                                                            \
    RUN(3, 2, 16, type)                                                                            \
    RUN(4, 2, 16, type)                                                                            \
    RUN(5, 2, 16, type)                                                                            \
    RUN(6, 2, 16, type)
RUNS(K_F32)
RUNS(K_BF16)

#define RUN_TABLE(type)                                                                            \
    [type] = {{run_##type##_1_2_16, run_##type##_2_2_16, run_##type##_3_2_16, run_##type##_4_2_16, \
               run_##type##_5_2_16, run_##type##_6_2_16},                                          \
              {run_##type##_1_4_32, run_##type##_2_4_32, run_##type##_3_4_32, run_##type##_4_2_32, \
               run_##type##_5_2_32, run_##type##_6_2_32}}
static attn_run_fn *const run_of[2][2][HEADS_MAX] = {RUN_TABLE(K_F32), RUN_TABLE(K_BF16)};

struct attn_plan attn_plan_avx2(enum k_type type, int n_row, int w)
{
    static const signed char first[ATTN_MR + 1] = {0, 1, 2, 3, 4, 5, 6, 5, 4, 5, 5, 6, 6};
    const bool is_wide = w == K_NR;
    struct attn_plan plan = {0};
    for (int row = 0, n = first[n_row]; row < n_row; row += n, n = n_row - row) {
        attn_run_fn *fn = run_of[type][is_wide][n - 1];
        plan.group[plan.n++] = (struct attn_group){fn, row, 0};
        if (is_wide && n > HEADS_QUAD)
            plan.group[plan.n++] = (struct attn_group){fn, row, 2};
    }
    return plan;
}
