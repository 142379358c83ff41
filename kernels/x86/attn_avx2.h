/* SPDX-License-Identifier: Apache-2.0
 *
 * What the AVX2 files of attention share: for them alone. Left operands are f32 of K_HEAD_MAX and a
 * cache line more, whatever the type of the cells; those of bf16 cells were rounded.
 *
 * Thread: any.
 */
#ifndef KERNELS_X86_ATTN_AVX2_H
#define KERNELS_X86_ATTN_AVX2_H

#include <immintrin.h>

#include "kernels/x86/attn.h"

#define INLINE static inline __attribute__((always_inline))

enum { ROW_FLOATS = K_HEAD_MAX + 16 };

/* Ones in the lanes i .. i + 7 that are below n. */
INLINE __m256i lanes(int n, int i)
{
    const __m256i iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - i), iota);
}

INLINE __m256 load_ps(const float *x, int i, int n)
{
    return n - i >= 8 ? _mm256_loadu_ps(x + i) : _mm256_maskload_ps(x + i, lanes(n, i));
}

INLINE void store_ps(float *x, int i, int n, __m256 v)
{
    if (n - i >= 8)
        _mm256_storeu_ps(x + i, v);
    else
        _mm256_maskstore_ps(x + i, lanes(n, i), v);
}

/* The two bf16 of each dword as f32. */
INLINE __m256 even_ps(__m256 pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
}

INLINE __m256 odd_ps(__m256 pairs)
{
    return _mm256_and_ps(pairs, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000u)));
}

/* f32 that are bf16 numbers, two by two into dwords. */
INLINE __m256 pair_ps(__m256 even, __m256 odd)
{
    __m256i low = _mm256_srli_epi32(_mm256_castps_si256(even), 16);
    return _mm256_or_ps(_mm256_castsi256_ps(low), odd_ps(odd));
}

/* To the nearest bf16, even on a tie; NaN stays NaN. */
INLINE __m256 round_bf16_ps(__m256 x)
{
    __m256i u = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    u = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    return odd_ps(_mm256_blendv_ps(_mm256_castsi256_ps(u), x, nan));
}

/* attn_cells_avx2.c: see struct attn_ops */
bool attn_copy_values_avx2(enum k_type type, void *dst, const void *src, int d,
                           struct k_span slots);
void attn_rows_of_k_avx2(enum k_type type, void *rows, const void *cell, int d);
void attn_rows_of_v_avx2(enum k_type type, void *rows, const void *cell, int d);
void attn_k_of_rows_avx2(enum k_type type, void *cell, const void *rows, int d);
void attn_v_of_rows_avx2(enum k_type type, void *cell, const void *rows, int d,
                         struct k_span valid);

#endif
