/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate between two products, without a way through memory: what swiglu_avx512 and
 * rows_pack_avx512 do one after the other, for 32 columns of a block of rows.
 */
#include "kernels/x86/act.h"
#include "kernels/x86/block_avx512.h"
#include "kernels/x86/transpose_avx512.h"

/* 16 pairs of a row. */
TILE_INLINE __m512i gated_pairs(const struct gating *g, int64_t r)
{
    const float *gate = g->gate + r * g->ld, *up = g->up + r * g->ld;
    __m512 lo = swiglu_of(_mm512_load_ps(gate), _mm512_load_ps(up));
    __m512 hi = swiglu_of(_mm512_load_ps(gate + 16), _mm512_load_ps(up + 16));
    return (__m512i)_mm512_cvtne2ps_pbh(hi, lo);
}

void gate_avx512(const struct gating *g)
{
    __m512i v[16];
    if (g->h == 1) {
        _mm512_storeu_si512(g->to, gated_pairs(g, 0));
        return;
    }
    for (int r = 0; r < 16; r++)
        v[r] = r < g->h ? gated_pairs(g, r) : _mm512_setzero_si512();
    transpose16(v);
    for (int i = 0; i < 16; i++)
        _mm512_mask_storeu_epi32(g->to + i * g->h * 4, tile_mask(g->h), v[i]);
}
