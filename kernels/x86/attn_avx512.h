/* SPDX-License-Identifier: Apache-2.0
 *
 * What the AVX-512 files of attention share: for them alone.
 *
 * Thread: any.
 */
#ifndef KERNELS_X86_ATTN_AVX512_H
#define KERNELS_X86_ATTN_AVX512_H

#include <immintrin.h>

#include "kernels/x86/attn.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    ROW_BF16 = K_HEAD_MAX * 2 + 64, /* bytes from a left operand to the next; K_ATTN_CHUNK fits */
    ROW_F32 = K_HEAD_MAX * 4 + 64
};

/* Lanes of number `vec` of a run of n. */
INLINE __mmask16 lanes(int n, int vec)
{
    int left = n - vec * 16;
    return left >= 16 ? 0xffff : left <= 0 ? 0 : (__mmask16)((1 << left) - 1);
}

/* Stores what of a vector is before the end of a run of n, number i first. A store under a mask is
 * slower than a whole one even when the mask is full. */
INLINE void store_ps(float *x, int i, int n, __m512 v)
{
    if (n - i >= 16)
        _mm512_storeu_ps(x + i, v);
    else
        _mm512_mask_storeu_ps(x + i, lanes(n - i, 0), v);
}

/* 2^x for x <= 128: exact at 0, 0 below -150, NaN for NaN. */
INLINE __m512 exp2_ps(__m512 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(-200), x);
    __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 f = _mm512_sub_ps(x, n), p = _mm512_set1_ps(0x1.5bba14p-10f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.3cea88p-7f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c6b752p-5f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebf9bcp-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e42ap-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1));
    return _mm512_scalef_ps(p, n);
}

/* tanh(x) = 1 - 2 / (e^2x + 1) */
INLINE __m512 tanh_ps(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1);
    x = _mm512_min_ps(_mm512_set1_ps(20), x); /* NaN stays */
    __m512 e = exp2_ps(_mm512_mul_ps(x, _mm512_set1_ps(2 * attn_log2e)));
    return _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2), _mm512_add_ps(e, one)));
}

void attn_row_avx512(enum k_type type, const struct attn_row *p);

/* attn_cells_avx512.c: see struct attn_ops */
bool attn_copy_values_avx512(enum k_type type, void *dst, const void *src, int d,
                             struct k_span slots);
void attn_rows_of_k_avx512(enum k_type type, void *rows, const void *cell, int d);
void attn_rows_of_v_avx512(enum k_type type, void *rows, const void *cell, int d);
void attn_k_of_rows_avx512(enum k_type type, void *cell, const void *rows, int d);
void attn_v_of_rows_avx512(enum k_type type, void *cell, const void *rows, int d,
                           struct k_span valid);

#endif
