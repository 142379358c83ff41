/* SPDX-License-Identifier: Apache-2.0
 *
 * Turning tiles of numbers over in registers: what packing and gradients are made of.
 *
 * Thread: any; included by *_avx512.c only.
 */
#ifndef KERNELS_X86_TRANSPOSE_AVX512_H
#define KERNELS_X86_TRANSPOSE_AVX512_H

#include "kernels/x86/tile_avx512.h"

/* v[i] lane j becomes v[j] lane i, of 32 bits each. */
TILE_INLINE void transpose16(__m512i v[16])
{
    __m512i t[16];
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) { /* 4 x 4 within each 128-bit lane */
        __m512i a = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        __m512i b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
        __m512i c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]);
        __m512i d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
        t[i] = _mm512_unpacklo_epi64(a, c);
        t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d);
        t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) { /* 4 x 4 lanes: row j of each group of four */
        __m512i a = _mm512_shuffle_i32x4(t[j], t[j + 4], 0x88);
        __m512i b = _mm512_shuffle_i32x4(t[j], t[j + 4], 0xdd);
        __m512i c = _mm512_shuffle_i32x4(t[j + 8], t[j + 12], 0x88);
        __m512i d = _mm512_shuffle_i32x4(t[j + 8], t[j + 12], 0xdd);
        v[j] = _mm512_shuffle_i32x4(a, c, 0x88);
        v[j + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
        v[j + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
        v[j + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

/* Two rows of 16 numbers, rounded, as 16 pairs. */
TILE_INLINE __m512i words_in_turn(__m512 first, __m512 second)
{
    static const uint16_t order[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                       21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                       11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), both);
}

/* Eight steps of 16 outputs of a bf16 panel, in[i] word o * 2 + j, become eight pairs of outputs of
 * 16 inputs: out[p] word i * 2 + j is input i of output 2 p + j. Each stage exchanges one bit of
 * the output's number for one of the step's; the last also puts the words in order. */
TILE_INLINE void transpose_pairs(const __m512i in[8], __m512i out[8])
{
    /* word (step bits 2 1 0, input of the pair, output's lowest bit) comes from (step bit 2: which
     * register; step bit 1, output's highest bit, step bit 0, output's lowest bit, input) */
    static const uint16_t order[32] = {0,  2,  1,  3,  4,  6,  5,  7,  16, 18, 17,
                                       19, 20, 22, 21, 23, 32, 34, 33, 35, 36, 38,
                                       37, 39, 48, 50, 49, 51, 52, 54, 53, 55};
    const __m512i low = _mm512_loadu_si512(order);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(8));
    __m512i a[8], b[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm512_unpacklo_epi64(in[i], in[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi64(in[i], in[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        int at = i / 2 * 4 + i % 2;
        b[at] = _mm512_shuffle_i32x4(a[at], a[at + 2], 0x88);
        b[at + 2] = _mm512_shuffle_i32x4(a[at], a[at + 2], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        out[i] = _mm512_permutex2var_epi16(b[i], low, b[i + 4]);
        out[i + 4] = _mm512_permutex2var_epi16(b[i], high, b[i + 4]);
    }
}

#endif
