/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/x86/vec.h for AVX2 and FMA: 8 numbers, masks as vectors of sign bits. Include vec.h, not
 * this.
 */
#ifndef KERNELS_X86_VEC_AVX2_H
#define KERNELS_X86_VEC_AVX2_H

#if !defined(__AVX2__) /* so that the header compiles alone */
#pragma GCC target("avx2,fma,f16c")
#endif

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { VF = 8 };

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;

static inline vi vi_iota(void) /* 0, 1, 2, ... */
{
    return _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
}

static inline vm vm_first(int n) /* the first n lanes, n in [0, 8] */
{
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), vi_iota()));
}

static inline vf vf_load(const float *p, int n)
{
    if (n == VF)
        return _mm256_loadu_ps(p);
    return _mm256_maskload_ps(p, _mm256_castps_si256(vm_first(n)));
}

static inline void vf_store(float *p, vf a, int n)
{
    if (n == VF)
        _mm256_storeu_ps(p, a);
    else
        _mm256_maskstore_ps(p, _mm256_castps_si256(vm_first(n)), a);
}

static inline vf vf_set(float x)
{
    return _mm256_set1_ps(x);
}

static inline vi vi_set(int32_t x)
{
    return _mm256_set1_epi32(x);
}

static inline vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

static inline vf vf_sqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}

static inline vf vf_fma(vf a, vf b, vf c) /* a b + c */
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vf vf_fnma(vf a, vf b, vf c) /* c - a b */
{
    return _mm256_fnmadd_ps(a, b, c);
}

static inline vf vf_max(vf a, vf b) /* b where either is NaN */
{
    return _mm256_max_ps(a, b);
}

static inline vf vf_min(vf a, vf b) /* b where either is NaN */
{
    return _mm256_min_ps(a, b);
}

static inline vf vf_round(vf a) /* to nearest even */
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vf vf_and(vf a, vf b)
{
    return _mm256_and_ps(a, b);
}

static inline vf vf_or(vf a, vf b)
{
    return _mm256_or_ps(a, b);
}

static inline vf vf_from_bits(vi a)
{
    return _mm256_castsi256_ps(a);
}

static inline vi vf_bits(vf a)
{
    return _mm256_castps_si256(a);
}

static inline vm vf_gt(vf a, vf b) /* false for NaN, as all comparisons */
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

static inline vm vf_ge(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_GE_OQ);
}

static inline vm vf_ordered(vf a) /* not NaN */
{
    return _mm256_cmp_ps(a, a, _CMP_ORD_Q);
}

static inline vf vf_select(vm m, vf a, vf b) /* a where m, else b */
{
    return _mm256_blendv_ps(b, a, m);
}

static inline uint32_t vm_bits(vm m)
{
    return (uint32_t)_mm256_movemask_ps(m);
}

/* a 2^n for whole n in [-252, 252]: two factors, as one would leave the range of exponents. */
static inline vf vf_scale2(vf a, vf n)
{
    __m256i e = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(e, 1);
    __m256i rest = _mm256_sub_epi32(e, half), bias = _mm256_set1_epi32(127);
    vf f1 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vf f2 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(a, f1), f2);
}

static inline float vf_sum(vf a)
{
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

static inline float vf_max_lane(vf a)
{
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

#endif
