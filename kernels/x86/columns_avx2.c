/* SPDX-License-Identifier: Apache-2.0
 *
 * cols_pack: columns of row-major matrices as packed rows and as panels, two rows at a time for
 * bf16. A few steps of all columns, then the next few.
 */
#include <string.h>

#include "kernels/linear_grid.h"
#include "kernels/variants.h"
#include "kernels/x86/block.h"
#include "kernels/x86/transpose_avx2.h"
#include "kernels/x86/vec.h"

/* Step s of n of eight columns: a number each, or a pair of rounded ones from two rows. */
TURN_INLINE __m256i column_step(enum k_type type, const struct columns *x, int64_t s, int64_t col,
                                int n)
{
    if (type == K_F32)
        return vf_bits(vf_load(x->at + s * x->ld + col, n));
    const float *row = x->at + 2 * s * x->ld + col;
    vf second = 2 * s + 1 < x->rows ? vf_load(row + x->ld, n) : vf_zero();
    return bf16_pairs(vf_load(row, n), second);
}

TURN_INLINE void store8(char *to, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, v);
}

/* Step s of the h columns from col on. What lies behind them is another unit's, so the second
 * vector of more than eight is the last eight. */
TURN_INLINE void left_step(enum k_type type, const struct columns *x, int64_t s, int64_t col,
                           int64_t h, char *to)
{
    if (h >= 8) {
        store8(to, column_step(type, x, s, col, 8));
        store8(to + (h - 8) * 4, column_step(type, x, s, col + h - 8, 8));
        return;
    }
    __m256i v = column_step(type, x, s, col, (int)h);
    memcpy(to, &v, (size_t)h * 4);
}

/* Columns as blocks of packed rows. The blocks may lie a multiple of 4 KB apart, where they fight
 * over the same lines of the first cache: each takes some steps in turn. */
TURN_INLINE void left_of(enum k_type type, const struct columns *x, char *to)
{
    int64_t steps = columns_steps(type, x->rows), blocks = rows_blocks(x->cols);
    struct rows_cut cut = rows_cut_of(x->cols);
    for (int64_t lo = x->step_lo; lo < x->step_hi; lo += COLUMNS_STEPS) {
        int64_t hi = linear_min(lo + COLUMNS_STEPS, x->step_hi);
        for (int64_t i = 0; i < blocks; i++) {
            struct rows_block b = rows_cut_at(&cut, i);
            for (int64_t s = lo; s < hi; s++)
                left_step(type, x, s, b.row, b.h, to + (b.row * steps + s * b.h) * 4);
        }
    }
}

/* Step s of a panel's columns from col on; there are n. */
TURN_INLINE void right_step(enum k_type type, const struct columns *x, int64_t s, int64_t col,
                            int64_t n, char *to)
{
#pragma GCC unroll 4
    for (int i = 0; i < K_NR; i += 8) {
        int in = n - i < 8 ? (int)(n - i) : 8;
        store8(to + i * 4, in > 0 ? column_step(type, x, s, col + i, in) : _mm256_setzero_si256());
    }
}

/* Columns as panels. */
TURN_INLINE void right_of(enum k_type type, const struct columns *x, char *to)
{
    int64_t steps = columns_steps(type, x->rows);
    for (int64_t lo = x->step_lo; lo < x->step_hi; lo += COLUMNS_STEPS) {
        int64_t hi = linear_min(lo + COLUMNS_STEPS, x->step_hi);
        for (int64_t col = 0; col < x->cols; col += K_NR) {
            char *panel = to + col / K_NR * steps * TILE_STEP_BYTES;
            int64_t n = x->cols - col;
            for (int64_t s = lo; s < hi; s++) {
                if (n >= K_NR)
                    right_step(type, x, s, col, K_NR, panel + s * TILE_STEP_BYTES);
                else
                    right_step(type, x, s, col, n, panel + s * TILE_STEP_BYTES);
            }
        }
    }
}

static void columns_left(enum k_type type, const struct columns *x, char *to)
{
    if (type == K_F32)
        left_of(K_F32, x, to);
    else
        left_of(K_BF16, x, to);
}

static void columns_right(enum k_type type, const struct columns *x, char *to)
{
    if (type == K_F32)
        right_of(K_F32, x, to);
    else
        right_of(K_BF16, x, to);
}

void cols_pack_avx2(const void *args, const struct k_slice *s)
{
    cols_pack_run(args, s, columns_left, columns_right);
}
