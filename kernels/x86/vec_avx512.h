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

static inline vi vi_select(vm m, vi a, vi b)
{
    return _mm512_mask_blend_epi32(m, b, a);
}

static inline vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

static inline void vi_store(int32_t *p, vi a)
{
    _mm512_storeu_si512(p, a);
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

static inline vi vi_xor(vi a, vi b)
{
    return _mm512_xor_si512(a, b);
}

static inline vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

static inline vi vi_shr(vi a, int n) /* zeros come in */
{
    return _mm512_srli_epi32(a, (unsigned)n);
}

static inline vi vi_shl(vi a, int n)
{
    return _mm512_slli_epi32(a, (unsigned)n);
}

static inline vm vi_less(vi a, vi b) /* unsigned */
{
    return _mm512_cmplt_epu32_mask(a, b);
}

/* The 64-bit product of each lane, unsigned, in halves. */
static inline void vi_mul_wide(vi a, vi b, vi *hi, vi *lo)
{
    vi even = _mm512_mul_epu32(a, b);
    vi odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    *lo = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
    *hi = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}

/* 16-bit numbers, as the low halves of lanes. */
static inline vi vi_load16(const uint16_t *p, int n)
{
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(vm_first(n), p));
}

static inline void vi_store16(uint16_t *p, vi a, int n)
{
    _mm256_mask_storeu_epi16(p, vm_first(n), _mm512_cvtepi32_epi16(a));
}

static inline vf vf_load_f16(const uint16_t *p, int n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vm_first(n), p));
}

static inline void vf_store_f16(uint16_t *p, vf a, int n)
{
    __m256i h = _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(p, vm_first(n), h);
}

/* A vector's squares added to as many sums of f64; the lower half of the lanes first. */
struct vd {
    __m512d lo, hi;
};

static inline struct vd vd_zero(void)
{
    return (struct vd){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

static inline struct vd vd_add_squares(struct vd s, vf a)
{
    __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    __m512d hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    return (struct vd){_mm512_fmadd_pd(lo, lo, s.lo), _mm512_fmadd_pd(hi, hi, s.hi)};
}

static inline double vd_sum(struct vd s)
{
    return _mm512_reduce_add_pd(_mm512_add_pd(s.lo, s.hi));
}

#endif
