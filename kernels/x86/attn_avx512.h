/* SPDX-License-Identifier: Apache-2.0
 *
 * What the AVX-512 files of attention share: for them alone.
 *
 * Thread: any.
 */
#ifndef KERNELS_X86_ATTN_AVX512_H
#define KERNELS_X86_ATTN_AVX512_H

#include <immintrin.h>
#include <math.h>

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

INLINE __mmask16 seen_lanes(struct k_span seen, int i)
{
    return lanes((int)seen.hi - i, 0) & (__mmask16)~lanes((int)seen.lo - i, 0);
}

/* Caps scores that need it, hides keys outside of `seen`, and returns the largest. */
INLINE float row_max(float *s, int n_key, struct k_span seen, float cap, float cap_scale)
{
    const __m512 hidden = _mm512_set1_ps(-INFINITY);
    __m512 most[2] = {hidden, hidden};
    if (cap > 0) {
        __m512 most_cap = _mm512_set1_ps(cap), scale = _mm512_set1_ps(cap_scale);
        for (int i = 0; i < n_key; i += 16) {
            __m512 x = _mm512_mul_ps(_mm512_loadu_ps(s + i), scale);
            _mm512_storeu_ps(s + i, _mm512_mul_ps(tanh_ps(x), most_cap));
        }
    }
    for (int i = 0; i < n_key; i += 16) {
        if (i < seen.lo || i + 16 > seen.hi) {
            __m512 x = _mm512_mask_mov_ps(hidden, seen_lanes(seen, i), _mm512_loadu_ps(s + i));
            _mm512_storeu_ps(s + i, x);
        }
    }
    for (int i = 0; i < n_key; i += 32) {
        most[0] = _mm512_max_ps(_mm512_loadu_ps(s + i), most[0]);
        most[1] = _mm512_max_ps(_mm512_loadu_ps(s + i + 16), most[1]);
    }
    return _mm512_reduce_max_ps(_mm512_max_ps(most[0], most[1]));
}

struct pair { /* 32 columns, or keys */
    __m512 v[2];
};

INLINE void store_pair(void *row, int i, __m512 x0, __m512 x1, const enum k_type type)
{
    if (type == K_BF16) {
        _mm512_storeu_si512((char *)row + i * 2, (__m512i)_mm512_cvtne2ps_pbh(x1, x0));
    } else {
        _mm512_storeu_ps((float *)row + i, x0);
        _mm512_storeu_ps((float *)row + i + 16, x1);
    }
}

/* Scores of 32 keys to probabilities; *sum goes on. */
INLINE void cell_probs(const float *s, __m512 max, char *out, struct pair *sum,
                       const enum k_type type)
{
    __m512 p0 = exp2_ps(_mm512_sub_ps(_mm512_loadu_ps(s), max));
    __m512 p1 = exp2_ps(_mm512_sub_ps(_mm512_loadu_ps(s + 16), max));
    sum->v[0] = _mm512_add_ps(sum->v[0], p0);
    sum->v[1] = _mm512_add_ps(sum->v[1], p1);
    store_pair(out, 0, p0, p1, type);
}

/* Lanes in a fixed order. */
INLINE float pair_sum(const struct pair *sum)
{
    return _mm512_reduce_add_ps(_mm512_add_ps(sum->v[0], sum->v[1]));
}

/* see struct attn_ops */
void attn_fold_avx512(int n, float *big_m, float *big_l, const float *m, const float *l,
                      float *keep, float *take);
void attn_row_avx512(const struct attn_row *p);

/* attn_cells_avx512.c: see struct attn_ops */
bool attn_copy_values_avx512(enum k_type type, void *dst, const void *src, int d,
                             struct k_span slots);
void attn_rows_of_k_avx512(enum k_type type, void *rows, const void *cell, int d);
void attn_rows_of_v_avx512(enum k_type type, void *rows, const void *cell, int d);
void attn_k_of_rows_avx512(enum k_type type, void *cell, const void *rows, int d);
void attn_v_of_rows_avx512(enum k_type type, void *cell, const void *rows, int d,
                           struct k_span valid);
void attn_widen_k_avx512(void *cell, const void *codes, int d, const char *ahead);
void attn_widen_v_avx512(void *cell, const void *codes, int d, const char *ahead);

#endif
