/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels/x86/vec.h needs of AVX-512 besides f32 arithmetic: whole numbers, 16-bit storage,
 * sums in f64. Include vec.h, not this.
 */
#ifndef KERNELS_X86_VEC_AVX512_INT_H
#define KERNELS_X86_VEC_AVX512_INT_H

#if !defined(__AVX512F__) /* so that the header compiles alone */
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,fma")
#endif

#include "kernels/x86/vec_avx512.h"

static inline vi vi_select(vm m, vi a, vi b)
{
    return _mm512_mask_blend_epi32(m, b, a);
}

static inline vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

static inline vi vi_mul(vi a, vi b) /* the lower halves of the products */
{
    return _mm512_mullo_epi32(a, b);
}

static inline void vi_store(int32_t *p, vi a)
{
    _mm512_storeu_si512(p, a);
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

/* Bytes, a whole vector of lanes. */
static inline vi vi_load8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

static inline void vi_store8(uint8_t *p, vi a) /* of lanes below 256 */
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(a));
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
