/* SPDX-License-Identifier: Apache-2.0
 *
 * What the AVX2 files of attention share: for them alone. Left operands are f32 of K_HEAD_MAX and a
 * cache line more, whatever the type of the cells; those of bf16 cells were rounded.
 *
 * Thread: any.
 */
#ifndef KERNELS_X86_ATTN_AVX2_H
#define KERNELS_X86_ATTN_AVX2_H

#if !defined(__AVX2__) /* so that the header compiles alone */
#pragma GCC target("avx2,fma,f16c")
#endif

#include <immintrin.h>
#include <math.h>

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

/* 2^x for x <= 128: exact at 0, 0 below -127, NaN for NaN. */
INLINE __m256 exp2_ps(__m256 x)
{
    x = _mm256_max_ps(_mm256_set1_ps(-127), x);
    __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 f = _mm256_sub_ps(x, n), p = _mm256_set1_ps(0x1.5bba14p-10f);
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.3cea88p-7f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.c6b752p-5f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.ebf9bcp-3f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0x1.62e42ap-1f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1));
    __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(e, 23)));
}

/* tanh(x) = 1 - 2 / (e^2x + 1) */
INLINE __m256 tanh_ps(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1);
    x = _mm256_min_ps(_mm256_set1_ps(20), x); /* NaN stays */
    __m256 e = exp2_ps(_mm256_mul_ps(x, _mm256_set1_ps(2 * attn_log2e)));
    return _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2), _mm256_add_ps(e, one)));
}

INLINE float sum_lanes(__m256 x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

INLINE float max_lanes(__m256 x)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/* Ones in the lanes i .. i + 7 that are in the span. */
INLINE __m256 seen_lanes(struct k_span seen, int i)
{
    return _mm256_castsi256_ps(_mm256_andnot_si256(lanes((int)seen.lo, i), lanes((int)seen.hi, i)));
}

/* p and ds of 8 pairs; `in` are those that see each other. */
INLINE void attn_grad_vec(const struct attn_grad *g, __m256 s, __m256 dp, __m256 lse, __m256 delta,
                          __m256 in, __m256 *p, __m256 *ds)
{
    __m256 slope = _mm256_set1_ps(1);
    if (g->cap > 0) {
        __m256 t = tanh_ps(_mm256_mul_ps(s, _mm256_set1_ps(g->cap_scale)));
        s = _mm256_mul_ps(t, _mm256_set1_ps(g->cap));
        slope = _mm256_fnmadd_ps(t, t, slope);
    }
    *p = _mm256_and_ps(in, exp2_ps(_mm256_sub_ps(s, lse)));
    dp = _mm256_mul_ps(*p, _mm256_sub_ps(dp, delta));
    *ds = _mm256_and_ps(in, _mm256_mul_ps(dp, slope));
}

/* see struct attn_ops */
void attn_pack_row_avx2(enum k_type type, void *row, const float *x, int d);
void attn_finish_avx2(float *y, const float *o, float inv, int d);
float attn_dot_avx2(const float *x, const float *y, int d);
void attn_keys_avx2(const struct attn_keys *of, void *scratch);
void attn_fold_avx2(int n, float *big_m, float *big_l, const float *m, const float *l, float *keep,
                    float *take);
void attn_row_avx2(const struct attn_row *p);

/* attn_cells_avx2.c: see struct attn_ops */
bool attn_copy_values_avx2(enum k_type type, void *dst, const void *src, int d,
                           struct k_span slots);
void attn_rows_of_k_avx2(enum k_type type, void *rows, const void *cell, int d);
void attn_rows_of_v_avx2(enum k_type type, void *rows, const void *cell, int d);
void attn_k_of_rows_avx2(enum k_type type, void *cell, const void *rows, int d);
void attn_v_of_rows_avx2(enum k_type type, void *cell, const void *rows, int d,
                         struct k_span valid);
void attn_widen_k_avx2(void *cell, const void *codes, int d, const char *ahead);
void attn_widen_v_avx2(void *cell, const void *codes, int d, const char *ahead);

#endif
