/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of lora that are not packed products: sums over the long side of an adapter, straight
 * from the row-major operands, and turning b over.
 */
#include "kernels/x86/block_avx512.h"
#include "kernels/x86/tile_avx512.h"
#include "kernels/x86/transpose_avx512.h"

enum { DOT_RANKS = 8, DOT_ROWS = 3, AXPY_ROWS = 12, ROW_PANELS = 4 };

/* The sums of eight vectors, each by the same tree. */
TILE_INLINE __m256 sums_of(const __m512 v[DOT_RANKS])
{
    __m256 h[DOT_RANKS];
#pragma GCC unroll 8
    for (int i = 0; i < DOT_RANKS; i++)
        h[i] = _mm256_add_ps(_mm512_castps512_ps256(v[i]), _mm512_extractf32x8_ps(v[i], 1));
    __m256 lo = _mm256_hadd_ps(_mm256_hadd_ps(h[0], h[1]), _mm256_hadd_ps(h[2], h[3]));
    __m256 hi = _mm256_hadd_ps(_mm256_hadd_ps(h[4], h[5]), _mm256_hadd_ps(h[6], h[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(lo, hi, 0x20),
                         _mm256_permute2f128_ps(lo, hi, 0x31));
}

TILE_INLINE __m512 widened(__m256i x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

/* a[at..] of as many as m says. */
TILE_INLINE __m512 a_at(bool is_bf16, const struct k_lora_group *g, int64_t at, __mmask16 m)
{
    return is_bf16 ? widened(_mm256_maskz_loadu_epi16(m, g->a_bf16 + at))
                   : _mm512_maskz_loadu_ps(m, g->a + at);
}

/* t[row, r..r + ranks) of `rows` rows, ranks at most DOT_RANKS. */
TILE_INLINE void dot(bool is_bf16, int rows, int ranks, const struct k_lora *a,
                     const struct k_lora_group *g, int64_t row, int64_t r, int64_t n_rank)
{
    __m512 sum[DOT_ROWS][DOT_RANKS];
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
        tile_zero(DOT_RANKS, sum[i]);
    for (int64_t i = 0; i < a->k; i += 16) {
        __mmask16 m = tile_mask(a->k - i);
        __m512 x[DOT_ROWS];
#pragma GCC unroll 3
        for (int j = 0; j < rows; j++)
            x[j] = _mm512_maskz_loadu_ps(m, a->x + (row + j) * a->ld_x + i);
#pragma GCC unroll 8
        for (int q = 0; q < ranks; q++) {
            __m512 w = a_at(is_bf16, g, (r + q) * a->k + i, m);
#pragma GCC unroll 3
            for (int j = 0; j < rows; j++)
                sum[j][q] = _mm512_fmadd_ps(x[j], w, sum[j][q]);
        }
    }
#pragma GCC unroll 3
    for (int j = 0; j < rows; j++)
        _mm256_mask_storeu_ps(a->t + (row + j) * a->rank_max + r, (__mmask8)tile_mask(n_rank),
                              sums_of(sum[j]));
}

TILE_INLINE void dot_ranks(bool is_bf16, int rows, const struct k_lora *a,
                           const struct k_lora_group *g, int64_t row)
{
    int64_t r = 0;
    for (; r + DOT_RANKS <= g->rank; r += DOT_RANKS)
        dot(is_bf16, rows, DOT_RANKS, a, g, row, r, DOT_RANKS);
    for (; r < g->rank; r++)
        dot(is_bf16, rows, 1, a, g, row, r, 1);
}

TILE_INLINE void inner(bool is_bf16, const struct k_lora *a, const struct lora_rows *rows)
{
    int64_t row = rows->row_lo;
    for (; row + DOT_ROWS <= rows->row_hi; row += DOT_ROWS)
        dot_ranks(is_bf16, DOT_ROWS, a, rows->group, row);
    if (row + 2 == rows->row_hi)
        dot_ranks(is_bf16, 2, a, rows->group, row);
    else if (row < rows->row_hi)
        dot_ranks(is_bf16, 1, a, rows->group, row);
}

void lora_inner_avx512(const struct k_lora *a, const struct lora_rows *rows)
{
    if (rows->group->a_bf16)
        inner(true, a, rows);
    else
        inner(false, a, rows);
}

/* dt of `rows` rows, 16 ranks from r on: a chain over the outputs each. */
TILE_INLINE void axpy(int rows, const struct k_lora_bwd *a, const struct k_lora_group *g,
                      int64_t row, int64_t r)
{
    __m512 sum[AXPY_ROWS];
    __mmask16 m = tile_mask(g->rank - r);
    const float *dy = a->dy + row * a->ld_dy;
    tile_zero(rows, sum);
    for (int64_t o = 0; o < a->fwd.n; o++) {
        __m512 b = _mm512_maskz_loadu_ps(m, g->b + o * g->rank + r);
#pragma GCC unroll 12
        for (int j = 0; j < rows; j++)
            sum[j] = _mm512_fmadd_ps(_mm512_set1_ps(dy[j * a->ld_dy + o]), b, sum[j]);
    }
#pragma GCC unroll 12
    for (int j = 0; j < rows; j++)
        _mm512_mask_storeu_ps(a->dt + (row + j) * a->fwd.rank_max + r, m,
                              _mm512_mul_ps(_mm512_set1_ps(g->scale), sum[j]));
}

void lora_inner_bwd_avx512(const struct k_lora_bwd *a, const struct lora_rows *rows)
{
    for (int64_t r = 0; r < rows->group->rank; r += 16) {
        int64_t row = rows->row_lo;
        for (; row + AXPY_ROWS <= rows->row_hi; row += AXPY_ROWS)
            axpy(AXPY_ROWS, a, rows->group, row, r);
        for (; row + 4 <= rows->row_hi; row += 4)
            axpy(4, a, rows->group, row, r);
        for (; row < rows->row_hi; row++)
            axpy(1, a, rows->group, row, r);
    }
}

void lora_across_avx512(const float *w, int64_t rows, int64_t rank, float *to)
{
    for (int64_t r = 0; r < rank; r += 16) {
        __mmask16 m = tile_mask(rank - r);
        __m512i v[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            v[i] =
                i < rows ? _mm512_maskz_loadu_epi32(m, w + i * rank + r) : _mm512_setzero_si512();
        transpose16(v);
        for (int i = 0; i < linear_min(rank - r, 16); i++)
            _mm512_store_si512(to + (r + i) * K_NR, v[i]);
    }
}

/* np panels from `panels` on. */
TILE_INLINE void row_panels(int np, const k_bf16 *panels, const float *t, int64_t rank, float *y,
                            int64_t cols)
{
    __m512 sum[2 * ROW_PANELS];
    tile_zero(2 * np, sum);
    for (int64_t r = 0; r < rank; r++) {
        __m512 x = _mm512_set1_ps(t[r]);
#pragma GCC unroll 4
        for (int p = 0; p < np; p++) {
            const __m256i *w = (const __m256i *)(const void *)(panels + (p * rank + r) * K_NR);
            sum[2 * p] = _mm512_fmadd_ps(x, widened(_mm256_loadu_si256(w)), sum[2 * p]);
            sum[2 * p + 1] = _mm512_fmadd_ps(x, widened(_mm256_loadu_si256(w + 1)), sum[2 * p + 1]);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < np; p++)
        tile_out(1, sum + 2 * p,
                 &(struct tile_out){.y = y + p * K_NR, .cols = cols - p * K_NR, .add = true});
}

void lora_row_avx512(const k_bf16 *panels, const float *t, int64_t rank, float *y, int64_t cols)
{
    int64_t col = 0;
    for (; col + (ROW_PANELS - 1) * K_NR < cols; col += ROW_PANELS * K_NR)
        row_panels(ROW_PANELS, panels + col * rank, t, rank, y + col, cols - col);
    for (; col + K_NR < cols; col += 2 * K_NR)
        row_panels(2, panels + col * rank, t, rank, y + col, cols - col);
    if (col < cols)
        row_panels(1, panels + col * rank, t, rank, y + col, cols - col);
}

void lora_widen_avx512(const k_bf16 *x, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i += 16)
        _mm512_storeu_ps(to + i,
                         widened(_mm256_loadu_si256((const __m256i *)(const void *)(x + i))));
}
