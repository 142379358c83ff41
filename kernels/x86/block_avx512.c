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

TILE_INLINE void any(enum kind kind, const struct block *b)
{
    switch (b->h * 8 + b->np) {
    case 1 * 8 + 1:
        return fixed(kind, 1, 1, b);
    case 1 * 8 + 2:
        return fixed(kind, 1, 2, b);
    case 1 * 8 + 3:
        return fixed(kind, 1, 3, b);
    case 1 * 8 + 4:
        return fixed(kind, 1, 4, b);
    case 2 * 8 + 1:
        return fixed(kind, 2, 1, b);
    case 2 * 8 + 2:
        return fixed(kind, 2, 2, b);
    case 3 * 8 + 1:
        return fixed(kind, 3, 1, b);
    case 3 * 8 + 2:
        return fixed(kind, 3, 2, b);
    case 4 * 8 + 1:
        return fixed(kind, 4, 1, b);
    case 5 * 8 + 1:
        return fixed(kind, 5, 1, b);
    case 6 * 8 + 1:
        return fixed(kind, 6, 1, b);
    case 7 * 8 + 1:
        return fixed(kind, 7, 1, b);
    case 8 * 8 + 1:
        return fixed(kind, 8, 1, b);
    case 9 * 8 + 1:
        return fixed(kind, 9, 1, b);
    case 10 * 8 + 1:
        return fixed(kind, 10, 1, b);
    case 11 * 8 + 1:
        return fixed(kind, 11, 1, b);
    case 12 * 8 + 1:
        return fixed(kind, 12, 1, b);
    }
}

void block_f32_avx512(const struct block *b)
{
    any(KIND_F32, b);
}

void block_bf16_avx512(const struct block *b)
{
    any(KIND_BF16, b);
}

void block_int8_avx512(const struct block_int8 *b)
{
    any(KIND_INT8, &b->b);
}
