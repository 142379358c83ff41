/* SPDX-License-Identifier: Apache-2.0
 *
 * Turning tiles of numbers over in registers of eight, and rounding them: what packing and the
 * operands of gradients are made of.
 *
 * Thread: any; included by *_avx2.c only.
 */
#ifndef KERNELS_X86_TRANSPOSE_AVX2_H
#define KERNELS_X86_TRANSPOSE_AVX2_H

#if !defined(__AVX2__) /* so that the header compiles alone */
#pragma GCC target("avx2,fma,f16c")
#endif

#include <immintrin.h>
#include <stdint.h>

#define TURN_INLINE static inline __attribute__((always_inline))

/* v[i] lane j becomes v[j] lane i, of 32 bits each. */
TURN_INLINE void transpose8(__m256i v[8])
{
    __m256i t[8];
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        __m256i a = _mm256_unpacklo_epi32(v[i], v[i + 1]);
        __m256i b = _mm256_unpackhi_epi32(v[i], v[i + 1]);
        __m256i c = _mm256_unpacklo_epi32(v[i + 2], v[i + 3]);
        __m256i d = _mm256_unpackhi_epi32(v[i + 2], v[i + 3]);
        t[i] = _mm256_unpacklo_epi64(a, c);
        t[i + 1] = _mm256_unpackhi_epi64(a, c);
        t[i + 2] = _mm256_unpacklo_epi64(b, d);
        t[i + 3] = _mm256_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        v[j] = _mm256_permute2x128_si256(t[j], t[j + 4], 0x20);
        v[j + 4] = _mm256_permute2x128_si256(t[j], t[j + 4], 0x31);
    }
}

/* Four vectors of eight become eight of four. */
TURN_INLINE void transpose4x8(const __m256i v[4], __m128i to[8])
{
    __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
    __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    __m256i t[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                    _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        to[j] = _mm256_castsi256_si128(t[j]);
        to[j + 4] = _mm256_extracti128_si256(t[j], 1);
    }
}

/* Eight numbers rounded to bf16 as kernels/float16.h does it, in the upper halves of words; what is
 * below is of no use. */
TURN_INLINE __m256i bf16_above(__m256 x)
{
    __m256i u = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    return _mm256_blendv_epi8(up, quiet, _mm256_castps_si256(nan));
}

/* Two rows of eight numbers as eight pairs. */
TURN_INLINE __m256i bf16_pairs(__m256 first, __m256 second)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(bf16_above(first), 16), bf16_above(second), 0xaa);
}

/* Sixteen numbers of a row as eight pairs, of which those in the middle have changed places by
 * twos: 0 1 4 5 2 3 6 7, which whoever turns them over puts right for nothing. */
TURN_INLINE __m256i bf16_row(__m256 lo, __m256 hi)
{
    return _mm256_packus_epi32(_mm256_srli_epi32(bf16_above(lo), 16),
                               _mm256_srli_epi32(bf16_above(hi), 16));
}

/* Where bf16_row puts pair i. */
TURN_INLINE int bf16_row_at(int i)
{
    return i / 2 % 2 * 4 + i / 4 * 2 + i % 2;
}

#endif
