/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels/x86/vec.h needs of AVX2 besides f32 arithmetic: whole numbers, 16-bit storage, sums
 * in f64. Include vec.h, not this.
 */
#ifndef KERNELS_X86_VEC_AVX2_INT_H
#define KERNELS_X86_VEC_AVX2_INT_H

#if !defined(__AVX2__) /* so that the header compiles alone */
#pragma GCC target("avx2,fma,f16c")
#endif

#include "kernels/x86/vec_avx2.h"

static inline vi vi_select(vm m, vi a, vi b)
{
    return _mm256_blendv_epi8(b, a, _mm256_castps_si256(m));
}

static inline vi vi_add(vi a, vi b)
{
    return _mm256_add_epi32(a, b);
}

static inline vi vi_mul(vi a, vi b) /* the lower halves of the products */
{
    return _mm256_mullo_epi32(a, b);
}

static inline void vi_store(int32_t *p, vi a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, a);
}

static inline vi vi_xor(vi a, vi b)
{
    return _mm256_xor_si256(a, b);
}

static inline vi vi_and(vi a, vi b)
{
    return _mm256_and_si256(a, b);
}

static inline vi vi_shr(vi a, int n) /* zeros come in */
{
    return _mm256_srli_epi32(a, n);
}

static inline vi vi_shl(vi a, int n)
{
    return _mm256_slli_epi32(a, n);
}

static inline vm vi_less(vi a, vi b) /* unsigned */
{
    vi top = _mm256_set1_epi32((int32_t)0x80000000u);
    return _mm256_castsi256_ps(
        _mm256_cmpgt_epi32(_mm256_xor_si256(b, top), _mm256_xor_si256(a, top)));
}

/* The 64-bit product of each lane, unsigned, in halves. */
static inline void vi_mul_wide(vi a, vi b, vi *hi, vi *lo)
{
    vi even = _mm256_mul_epu32(a, b);
    vi odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *lo = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    *hi = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

/* Bytes, a whole vector of lanes. */
static inline vi vi_load8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

static inline void vi_store8(uint8_t *p, vi a) /* of lanes below 256 */
{
    __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packus_epi16(half, half));
}

/* 16-bit numbers, as the low halves of lanes. There is no masked access of this width: a tail goes
 * by way of the stack. */
static inline __m128i half_load(const uint16_t *p, int n)
{
    if (n == VF)
        return _mm_loadu_si128((const __m128i *)(const void *)p);
    uint16_t tail[VF] = {0};
    memcpy(tail, p, (size_t)n * sizeof *p);
    return _mm_loadu_si128((const __m128i *)(const void *)tail);
}

static inline void half_store(uint16_t *p, __m128i h, int n)
{
    if (n == VF) {
        _mm_storeu_si128((__m128i *)(void *)p, h);
        return;
    }
    uint16_t tail[VF];
    _mm_storeu_si128((__m128i *)(void *)tail, h);
    memcpy(p, tail, (size_t)n * sizeof *p);
}

static inline vi vi_load16(const uint16_t *p, int n)
{
    return _mm256_cvtepu16_epi32(half_load(p, n));
}

static inline void vi_store16(uint16_t *p, vi a, int n)
{
    vi low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
    vi packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    half_store(p, _mm256_castsi256_si128(packed), n);
}

static inline vf vf_load_f16(const uint16_t *p, int n)
{
    return _mm256_cvtph_ps(half_load(p, n));
}

static inline void vf_store_f16(uint16_t *p, vf a, int n)
{
    half_store(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), n);
}

/* A vector's squares added to as many sums of f64; the lower half of the lanes first. */
struct vd {
    __m256d lo, hi;
};

static inline struct vd vd_zero(void)
{
    return (struct vd){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

static inline struct vd vd_add_squares(struct vd s, vf a)
{
    __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    __m256d hi = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    return (struct vd){_mm256_fmadd_pd(lo, lo, s.lo), _mm256_fmadd_pd(hi, hi, s.hi)};
}

static inline double vd_sum(struct vd s)
{
    __m256d a = _mm256_add_pd(s.lo, s.hi);
    __m128d q = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

#endif
