/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums over the long side of an adapter, eight numbers at a time. A tail is loaded masked, so
 * that a sum is the same tree whatever the length.
 */
#include "kernels/x86/block_avx2.h"

#include <immintrin.h>
#include <string.h>

#define TILE_INLINE static inline __attribute__((always_inline))

enum { DOT_RANKS = 4, DOT_ROWS = 2, AXPY_ROWS = 4 };

TILE_INLINE __m256i mask(int64_t left)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)linear_min(left, 8)), lane);
}

TILE_INLINE float sum_of(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

TILE_INLINE __m256 widened(__m128i x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}

/* a[at..] of as many as there are, up to eight. */
TILE_INLINE __m256 a_at(bool is_bf16, const struct k_lora_group *g, int64_t at, int64_t left)
{
    k_bf16 tail[8] = {0};
    const k_bf16 *x = g->a_bf16 + at;
    if (!is_bf16)
        return _mm256_maskload_ps(g->a + at, mask(left));
    if (left < 8)
        x = memcpy(tail, x, (size_t)left * sizeof *x);
    return widened(_mm_loadu_si128((const __m128i *)(const void *)x));
}

/* t[row.., r..] of `rows` rows and `ranks` ranks. */
TILE_INLINE void dot(bool is_bf16, int rows, int ranks, const struct k_lora *a,
                     const struct k_lora_group *g, int64_t row, int64_t r)
{
    __m256 sum[DOT_ROWS * DOT_RANKS];
#pragma GCC unroll 8
    for (int i = 0; i < rows * ranks; i++)
        sum[i] = _mm256_setzero_ps();
    for (int64_t i = 0; i < a->k; i += 8) {
        __m256i m = mask(a->k - i);
        __m256 x[DOT_ROWS];
#pragma GCC unroll 2
        for (int j = 0; j < rows; j++)
            x[j] = _mm256_maskload_ps(a->x + (row + j) * a->ld_x + i, m);
#pragma GCC unroll 4
        for (int q = 0; q < ranks; q++) {
            __m256 w = a_at(is_bf16, g, (r + q) * a->k + i, a->k - i);
#pragma GCC unroll 2
            for (int j = 0; j < rows; j++)
                sum[j * ranks + q] = _mm256_fmadd_ps(x[j], w, sum[j * ranks + q]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows * ranks; i++)
        a->t[(row + i / ranks) * a->rank_max + r + i % ranks] = sum_of(sum[i]);
}

TILE_INLINE void dot_ranks(bool is_bf16, int rows, const struct k_lora *a,
                           const struct k_lora_group *g, int64_t row)
{
    int64_t r = 0;
    for (; r + DOT_RANKS <= g->rank; r += DOT_RANKS)
        dot(is_bf16, rows, DOT_RANKS, a, g, row, r);
    for (; r < g->rank; r++)
        dot(is_bf16, rows, 1, a, g, row, r);
}

TILE_INLINE void inner(bool is_bf16, const struct k_lora *a, const struct lora_rows *rows)
{
    int64_t row = rows->row_lo;
    for (; row + DOT_ROWS <= rows->row_hi; row += DOT_ROWS)
        dot_ranks(is_bf16, DOT_ROWS, a, rows->group, row);
    for (; row < rows->row_hi; row++)
        dot_ranks(is_bf16, 1, a, rows->group, row);
}

void lora_inner_avx2(const struct k_lora *a, const struct lora_rows *rows)
{
    if (rows->group->a_bf16)
        inner(true, a, rows);
    else
        inner(false, a, rows);
}

/* dt of `rows` rows, sixteen ranks from r on: a chain over the outputs each. */
TILE_INLINE void axpy(int rows, const struct k_lora_bwd *a, const struct k_lora_group *g,
                      int64_t row, int64_t r)
{
    __m256 sum[AXPY_ROWS * 2];
    __m256i m0 = mask(g->rank - r), m1 = mask(g->rank - r - 8);
    const float *dy = a->dy + row * a->ld_dy;
#pragma GCC unroll 8
    for (int i = 0; i < rows * 2; i++)
        sum[i] = _mm256_setzero_ps();
    for (int64_t o = 0; o < a->fwd.n; o++) {
        __m256 b0 = _mm256_maskload_ps(g->b + o * g->rank + r, m0);
        __m256 b1 = _mm256_maskload_ps(g->b + o * g->rank + r + 8, m1);
#pragma GCC unroll 4
        for (int j = 0; j < rows; j++) {
            __m256 d = _mm256_set1_ps(dy[j * a->ld_dy + o]);
            sum[j * 2] = _mm256_fmadd_ps(d, b0, sum[j * 2]);
            sum[j * 2 + 1] = _mm256_fmadd_ps(d, b1, sum[j * 2 + 1]);
        }
    }
    __m256 scale = _mm256_set1_ps(g->scale);
#pragma GCC unroll 4
    for (int j = 0; j < rows; j++) {
        float *dt = a->dt + (row + j) * a->fwd.rank_max + r;
        _mm256_maskstore_ps(dt, m0, _mm256_mul_ps(scale, sum[j * 2]));
        _mm256_maskstore_ps(dt + 8, m1, _mm256_mul_ps(scale, sum[j * 2 + 1]));
    }
}

void lora_inner_bwd_avx2(const struct k_lora_bwd *a, const struct lora_rows *rows)
{
    for (int64_t r = 0; r < rows->group->rank; r += 16) {
        int64_t row = rows->row_lo;
        for (; row + AXPY_ROWS <= rows->row_hi; row += AXPY_ROWS)
            axpy(AXPY_ROWS, a, rows->group, row, r);
        for (; row < rows->row_hi; row++)
            axpy(1, a, rows->group, row, r);
    }
}

void lora_widen_avx2(const k_bf16 *x, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i += 8)
        _mm256_storeu_ps(to + i, widened(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
}
