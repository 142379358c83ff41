/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of row-major matrices as packed rows and as panels, two rows at a time for bf16. A tile
 * is as wide as a few lines, too short a run for the hardware to foresee the next row: it is asked
 * for.
 */
#include "kernels/linear_grid.h"
#include "kernels/x86/block_avx512.h"
#include "kernels/x86/tile_avx512.h"

TILE_INLINE __m512i words_in_turn(__m512 first, __m512 second)
{
    static const uint16_t order[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                       21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                       11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), both);
}

/* Step s of up to 16 columns: a number each, or a pair of rounded ones from two rows. */
TILE_INLINE __m512i column_step(enum k_type type, const struct columns *x, int64_t s, int64_t col,
                                __mmask16 m)
{
    if (type == K_F32)
        return _mm512_castps_si512(_mm512_maskz_loadu_ps(m, x->at + s * x->ld + col));
    const float *row = x->at + 2 * s * x->ld + col;
    __m512 second = _mm512_setzero_ps();
    if (2 * s + 1 < x->rows)
        second = _mm512_maskz_loadu_ps(m, row + x->ld);
    return words_in_turn(_mm512_maskz_loadu_ps(m, row), second);
}

enum { STEPS_AHEAD = 4 };

/* Asks for 16 columns of the step some way behind s, whose rows are two. */
TILE_INLINE void columns_fetch(enum k_type type, const struct columns *x, int64_t s, int64_t col)
{
    int64_t row = (s + STEPS_AHEAD) * (type == K_F32 ? 1 : 2);
    const float *at = x->at + row * x->ld + col;
    __builtin_prefetch(at);
    if (type != K_F32)
        __builtin_prefetch(at + x->ld);
}

/* Columns as blocks of packed rows. The blocks may lie a multiple of 4 KB apart, where they fight
 * over the same lines of the first cache: each takes some steps in turn, whole lines of it. */
TILE_INLINE void left_of(enum k_type type, const struct columns *x, char *to)
{
    int64_t steps = columns_steps(type, x->rows), blocks = rows_blocks(x->cols);
    struct rows_block block[LINEAR_TILE_N / LINEAR_MR];
    for (int64_t i = 0; i < blocks; i++)
        block[i] = rows_block_at(x->cols, i);
    for (int64_t lo = 0; lo < steps; lo += STEPS_AHEAD) {
        int64_t hi = linear_min(lo + STEPS_AHEAD, steps);
        for (int64_t i = 0; i < blocks; i++) {
            const struct rows_block b = block[i];
            __mmask16 m = tile_mask(b.h);
            for (int64_t s = lo; s < hi; s++) {
                columns_fetch(type, x, s, b.row);
                _mm512_mask_storeu_epi32(to + (b.row * steps + s * b.h) * 4, m,
                                         column_step(type, x, s, b.row, m));
            }
        }
    }
}

/* Columns as panels. */
TILE_INLINE void right_of(enum k_type type, const struct columns *x, char *to)
{
    int64_t steps = columns_steps(type, x->rows);
    for (int64_t s = 0; s < steps; s++) {
        for (int64_t col = 0; col < x->cols; col += K_NR) {
            char *step = to + (col / K_NR * steps + s) * TILE_STEP_BYTES;
            columns_fetch(type, x, s, col);
            columns_fetch(type, x, s, col + 16);
            _mm512_store_si512(step, column_step(type, x, s, col, tile_mask(x->cols - col)));
            _mm512_store_si512(step + 64,
                               column_step(type, x, s, col + 16, tile_mask(x->cols - col - 16)));
        }
    }
}

void columns_left_avx512(enum k_type type, const struct columns *x, char *to)
{
    if (type == K_F32)
        left_of(K_F32, x, to);
    else
        left_of(K_BF16, x, to);
}

void columns_right_avx512(enum k_type type, const struct columns *x, char *to)
{
    if (type == K_F32)
        right_of(K_F32, x, to);
    else
        right_of(K_BF16, x, to);
}
