/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loop of products of nf4: a weight is looked up and scaled, and is what is multiplied.
 *
 * Thread: any; included by *_avx512.c only.
 */
#ifndef KERNELS_X86_TILE_NF4_AVX512_H
#define KERNELS_X86_TILE_NF4_AVX512_H

#include "kernels/x86/tile_avx512.h"

TILE_INLINE __m512 tile_nf4_table(void)
{
    static const float table[16] = CODED_NF4_TABLE;
    return _mm512_loadu_ps(table);
}

/* A step of 16 bytes of nf4; a look-up takes four bits of a word. */
TILE_INLINE void tile_nf4_step(__m512 table, const char *code, __m512 w[2])
{
    __m512i wide = _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(const void *)code));
    w[0] = _mm512_permutexvar_ps(wide, table);
    w[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(wide, 4), table);
}

/* sum[np][h][2] += rows times panels of nf4, of a group whose scales are scale[np][2] */
TILE_INLINE void tile_run_nf4(int h, int np, __m512 *sum, const char *rows, const char *panel,
                              int64_t stride, int64_t steps, __m512 table, const __m512 *scale,
                              struct tile_prefetch ahead)
{
    for (int64_t i = 0; i < steps; i++) {
        if (np == 1)
            tile_prefetch(&ahead, i);
#pragma GCC unroll 8
        for (int p = 0; p < np; p++) {
            __m512 w[2];
            tile_nf4_step(table, panel + p * stride + i * format_stream(K_NF4, 0).bytes, w);
            w[0] = _mm512_mul_ps(w[0], scale[p * 2]);
            w[1] = _mm512_mul_ps(w[1], scale[p * 2 + 1]);
            tile_step_f32(h, sum + p * h * 2, rows + i * h * 4, w[0], w[1]);
        }
    }
}

#endif
