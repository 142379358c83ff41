/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/x86/vec.h for AVX-512: 16 numbers, masks in mask registers. Include vec.h, not this.
 */
#ifndef KERNELS_X86_VEC_AVX512_H
#define KERNELS_X86_VEC_AVX512_H

#if !defined(__AVX512F__) /* so that the header compiles alone */
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,fma")
#endif

#include <immintrin.h>
#include <stdint.h>

enum { VF = 16 };

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

static inline vm vm_first(int n) /* the first n lanes, n in [0, 16] */
{
    return (vm)((1u << n) - 1u);
}

static inline vf vf_load(const float *p, int n)
{
    return n == VF ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(vm_first(n), p);
}

static inline void vf_store(float *p, vf a, int n)
{
    if (n == VF)
        _mm512_storeu_ps(p, a);
    else
        _mm512_mask_storeu_ps(p, vm_first(n), a);
}

static inline vf vf_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline vi vi_set(int32_t x)
{
    return _mm512_set1_epi32(x);
}

static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

static inline vf vf_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}

static inline vf vf_fma(vf a, vf b, vf c) /* a b + c */
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vf vf_fnma(vf a, vf b, vf c) /* c - a b */
{
    return _mm512_fnmadd_ps(a, b, c);
}

static inline vf vf_max(vf a, vf b) /* b where either is NaN */
{
    return _mm512_max_ps(a, b);
}

static inline vf vf_min(vf a, vf b) /* b where either is NaN */
{
    return _mm512_min_ps(a, b);
}

static inline vf vf_round(vf a) /* to nearest even */
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vf vf_and(vf a, vf b)
{
    return _mm512_and_ps(a, b);
}

static inline vf vf_or(vf a, vf b)
{
    return _mm512_or_ps(a, b);
}

static inline vf vf_from_bits(vi a)
{
    return _mm512_castsi512_ps(a);
}

static inline vi vf_bits(vf a)
{
    return _mm512_castps_si512(a);
}

static inline vm vf_gt(vf a, vf b) /* false for NaN, as all comparisons */
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

static inline vm vf_ge(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}

static inline vm vf_ordered(vf a) /* not NaN */
{
    return _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q);
}

static inline vf vf_select(vm m, vf a, vf b) /* a where m, else b */
{
    return _mm512_mask_blend_ps(m, b, a);
}

static inline vi vi_iota(void) /* 0, 1, 2, ... */
{
    return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

static inline uint32_t vm_bits(vm m)
{
    return m;
}

/* a 2^n for whole n of any size; what is too small or too large rounds once. */
static inline vf vf_scale2(vf a, vf n)
{
    return _mm512_scalef_ps(a, n);
}

static inline float vf_sum(vf a)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

static inline float vf_max_lane(vf a)
{
    return _mm512_reduce_max_ps(a);
}

#endif
