/* SPDX-License-Identifier: Apache-2.0
 *
 * cols_pack: columns of row-major matrices as packed rows and as panels, two rows at a time for
 * bf16. A few steps of all columns, then the next few, whose lines are asked for meanwhile.
 */
#include "kernels/linear_grid.h"
#include "kernels/variants.h"
#include "kernels/x86/transpose_avx512.h"

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

/* Asks for 16 columns of the step some way behind s, whose rows are two. */
TILE_INLINE void columns_fetch(enum k_type type, const struct columns *x, int64_t s, int64_t col)
{
    int64_t row = (s + 2 * COLUMNS_STEPS) * (type == K_F32 ? 1 : 2);
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
    struct rows_cut cut = rows_cut_of(x->cols);
    for (int64_t lo = x->step_lo; lo < x->step_hi; lo += COLUMNS_STEPS) {
        int64_t hi = linear_min(lo + COLUMNS_STEPS, x->step_hi);
        for (int64_t i = 0; i < blocks; i++) {
            struct rows_block b = rows_cut_at(&cut, i);
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
    for (int64_t lo = x->step_lo; lo < x->step_hi; lo += COLUMNS_STEPS) {
        int64_t hi = linear_min(lo + COLUMNS_STEPS, x->step_hi);
        for (int64_t col = 0; col < x->cols; col += 16) {
            char *half = to + col / K_NR * steps * TILE_STEP_BYTES + col % K_NR * 4;
            __mmask16 m = tile_mask(x->cols - col);
            for (int64_t s = lo; s < hi; s++) {
                columns_fetch(type, x, s, col);
                _mm512_store_si512(half + s * TILE_STEP_BYTES, column_step(type, x, s, col, m));
            }
        }
        if (x->cols % K_NR != 0 && x->cols % K_NR <= 16) /* the half that has no columns */
            for (int64_t s = lo; s < hi; s++)
                _mm512_store_si512(to + (x->cols / K_NR * steps + s) * TILE_STEP_BYTES + 64,
                                   _mm512_setzero_si512());
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

void cols_pack_avx512(const void *args, const struct k_slice *s)
{
    cols_pack_run(args, s, columns_left, columns_right);
}
