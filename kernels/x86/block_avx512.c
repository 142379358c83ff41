/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes constants of the numbers of rows and panels: for each kind one switch, each case a straight
 * loop of tile_avx512.h.
 */
#include "kernels/x86/block_avx512.h"
#include "kernels/x86/tile_avx512.h"

enum kind { KIND_F32, KIND_BF16, KIND_INT8 };

static inline struct tile_out out_of_panel(const struct tile_out *first, int p)
{
    struct tile_out out = *first;
    out.y += p * K_NR;
    out.cols -= p * K_NR;
    if (out.bias)
        out.bias += p * K_NR;
    return out;
}

TILE_INLINE void plain(enum k_type type, int h, int np, const struct block *b)
{
    __m512 sum[TILE_SUMS_MAX];
    if (b->from)
        tile_load(h * np * 2, sum, b->from);
    else
        tile_zero(h * np * 2, sum);
    if (np == 1 && !b->to)
        tile_own(h, &b->out);
    int64_t n = b->ahead_n > 0 ? b->ahead_n : 1;
    struct tile_ahead ahead = b->ahead;
    int64_t at = 0;
    for (int64_t i = 1; i <= n; i++, ahead.at += b->ahead_stride, ahead.also += b->ahead_stride) {
        int64_t end = i < n ? b->steps * i / n : b->steps;
        tile_run(type, h, np, sum, b->rows + at * h * 4, b->panel + at * TILE_STEP_BYTES, b->stride,
                 end - at, ahead);
        at = end;
    }
    if (b->to) {
        tile_store(h * np * 2, sum, b->to);
        return;
    }
#pragma GCC unroll 8
    for (int p = 0; p < np; p++) {
        struct tile_out out = out_of_panel(&b->out, p);
        tile_out(h, sum + p * h * 2, &out);
    }
}

TILE_INLINE void scaled(int h, int np, const struct block_int8 *q)
{
    struct tile_int8_table table = tile_int8_table();
    __m512 sum[TILE_SUMS_MAX];
    tile_zero(h * np * 2, sum);
    tile_store(h * np * 2, sum, q->total);
    for (int64_t at = 0; at < q->b.steps; at += TILE_GROUP_STEPS) {
        int64_t steps = linear_min(q->b.steps - at, TILE_GROUP_STEPS), g = at / TILE_GROUP_STEPS;
        struct tile_ahead ahead = tile_ahead_behind(&q->b.ahead, at);
        tile_zero(h * np * 2, sum);
        tile_run_int8(h, np, sum, q->b.rows + at * h * 4, q->b.panel + at * TILE_INT8_STEP_BYTES,
                      q->b.stride, steps, &table, ahead);
#pragma GCC unroll 8
        for (int p = 0; p < np; p++)
            tile_fold(h, sum + p * h * 2, q->scale + p * q->scale_stride + g * K_NR,
                      q->total + p * h * K_NR);
    }
    tile_load(h * np * 2, sum, q->total);
#pragma GCC unroll 8
    for (int p = 0; p < np; p++) {
        struct tile_out out = out_of_panel(&q->b.out, p);
        tile_out(h, sum + p * h * 2, &out);
    }
}

TILE_INLINE void fixed(enum kind kind, int h, int np, const void *b)
{
    if (kind == KIND_INT8)
        scaled(h, np, b);
    else
        plain(kind == KIND_F32 ? K_F32 : K_BF16, h, np, b);
}

/* A function for each: in one they would be compiled in the square of their number. */
/* clang-format off */
#define EACH(X, kind)                                                                              \
    X(kind, 1, 1) X(kind, 1, 2) X(kind, 1, 3) X(kind, 1, 4)                                        \
    X(kind, 2, 1) X(kind, 2, 2) X(kind, 3, 1) X(kind, 3, 2)                                        \
    X(kind, 4, 1) X(kind, 5, 1) X(kind, 6, 1) X(kind, 7, 1) X(kind, 8, 1)                          \
    X(kind, 9, 1) X(kind, 10, 1) X(kind, 11, 1) X(kind, 12, 1)
/* clang-format on */

#define FUNCTION(kind, h, np)                                                                      \
    __attribute__((noinline)) static void kind##_##h##_##np(const void *b)                         \
    {                                                                                              \
        fixed(KIND_##kind, h, np, b);                                                              \
    }
EACH(FUNCTION, F32)
EACH(FUNCTION, BF16)
EACH(FUNCTION, INT8)

#define CASE(kind, h, np)                                                                          \
    case h * 8 + np:                                                                               \
        return kind##_##h##_##np(b);

void block_f32_avx512(const struct block *b)
{
    switch (b->h * 8 + b->np) {
        EACH(CASE, F32)
    }
}

void block_bf16_avx512(const struct block *b)
{
    switch (b->h * 8 + b->np) {
        EACH(CASE, BF16)
    }
}

void block_int8_avx512(const struct block_int8 *b)
{
    switch (b->b.h * 8 + b->b.np) {
        EACH(CASE, INT8)
    }
}
