/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_pack: 16 steps of a block at a time are loaded by rows, rounded, turned over, and stored by
 * steps, h numbers each. The instruction that rounds to bf16 takes denormals for zero, as the dot
 * product that reads them does.
 */
#include "kernels/variants.h"
#include "kernels/x86/transpose_avx512.h"

/* 16 steps of a row: 16 numbers, or 16 pairs rounded; `left` inputs are there. */
TILE_INLINE __m512i row_steps(enum k_type type, const float *x, int64_t left)
{
    __m512 lo = _mm512_maskz_loadu_ps(tile_mask(left), x);
    if (type == K_F32)
        return _mm512_castps_si512(lo);
    __m512 hi = _mm512_maskz_loadu_ps(tile_mask(left - 16), x + 16);
    return (__m512i)_mm512_cvtne2ps_pbh(hi, lo);
}

/* Of h rows; whether all inputs of the steps are there is a constant where this is called. */
TILE_INLINE void load_steps(enum k_type type, bool whole, const float *x, int64_t ld, int64_t h,
                            int64_t left, __m512i v[16])
{
#pragma GCC unroll 16
    for (int r = 0; r < 16; r++)
        v[r] = r < h ? row_steps(type, x + r * ld, whole ? 32 : left) : _mm512_setzero_si512();
}

/* n steps of h numbers each, one behind the other. A store under a mask is slower than a whole one:
 * where more steps follow, what a whole one spills they cover. */
TILE_INLINE void store_steps(const __m512i v[16], int64_t n, int64_t h, bool more, char *out)
{
    if (n == 16 && 2 * h >= 16 && more) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            _mm512_storeu_si512(out + i * h * 4, v[i]);
        return;
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        if (i < n)
            _mm512_mask_storeu_epi32(out + i * h * 4, tile_mask(h), v[i]);
}

TILE_INLINE void pack_block(enum k_type type, const struct k_rows_pack *a,
                            const struct rows_block *b)
{
    int64_t per_step = type == K_F32 ? 1 : LINEAR_STEP;
    int64_t steps = linear_ceil_div(a->k, per_step);
    const float *x = a->x + b->row * a->ld_x;
    char *out = (char *)a->rows + b->row * steps * 4;
    for (int64_t s = 0; s < steps; s += 16) {
        __m512i v[16];
        int64_t at = s * per_step, n = linear_min(steps - s, 16);
        if (b->h == 1) {
            _mm512_mask_storeu_epi32(out + s * 4, tile_mask(n), row_steps(type, x + at, a->k - at));
            continue;
        }
        if (a->k - at >= 32)
            load_steps(type, true, x + at, a->ld_x, b->h, 0, v);
        else
            load_steps(type, false, x + at, a->ld_x, b->h, a->k - at, v);
        transpose16(v);
        store_steps(v, n, b->h, s + n < steps, out + s * b->h * 4);
    }
}

void rows_pack_avx512(const void *args, const struct k_slice *s)
{
    const struct k_rows_pack *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct rows_block b = rows_block_at(a->m, i);
        if (format_rows(a->type) == K_F32)
            pack_block(K_F32, a, &b);
        else
            pack_block(K_BF16, a, &b);
    }
}
