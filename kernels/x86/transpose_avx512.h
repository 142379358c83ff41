/* SPDX-License-Identifier: Apache-2.0
 *
 * Turning tiles of numbers over in registers: what packing and the input gradient are made of.
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

#endif
