/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored numbers as f32, exactly: bf16 by a shift or a mask, codes by a look-up.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_X86_OPEN_AVX2_H
#define KERNELS_X86_OPEN_AVX2_H

#if !defined(__AVX2__) /* so that the header compiles alone */
#pragma GCC target("avx2,fma,f16c")
#endif

#include <immintrin.h>
#include <string.h>

#include "kernels/linear.h"

#define OPEN_INLINE static inline __attribute__((always_inline))

OPEN_INLINE __m256 open_upper(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
}

OPEN_INLINE __m256 open_lower(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

/* Eight codes, byte e of pairs in turn from byte `first` of each half on. */
OPEN_INLINE __m256 open_codes(__m256i codes, int first, int e)
{
    const char none = (char)0x80;
    char at = (char)(first + e);
    __m128i half = _mm_setr_epi8(none, none, none, at, none, none, none, (char)(at + 2), none, none,
                                 none, (char)(at + 4), none, none, none, (char)(at + 6));
    __m256i size = _mm256_and_si256(codes, _mm256_set1_epi8(0x7f));
    __m256i plain = _mm256_sign_epi8(size, codes);
    __m256i top = _mm256_shuffle_epi8(plain, _mm256_broadcastsi128_si256(half));
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 24));
}

/* Outputs [8 v, 8 v + 8) of a step, input e of its pair (linear_int8_at says where codes are). */
OPEN_INLINE __m256 open_vector(enum k_type type, const char *step, int v, int e)
{
    const __m256i *at = (const __m256i *)(const void *)step;
    if (type == K_F32)
        return _mm256_loadu_ps((const float *)(const void *)(at + v));
    if (type == K_BF16)
        return e ? open_upper(_mm256_loadu_si256(at + v)) : open_lower(_mm256_loadu_si256(at + v));
    return open_codes(_mm256_loadu_si256(at + v % 2), v / 2 * 8, e);
}

/* Row r of a step. */
OPEN_INLINE __m256 open_input(enum k_type type, const char *rows, int r, int e)
{
    int bits;
    memcpy(&bits, rows + r * 4, sizeof bits);
    __m256i all = _mm256_set1_epi32(bits);
    if (type == K_F32)
        return _mm256_castsi256_ps(all);
    return e ? open_upper(all) : open_lower(all);
}

#endif
