/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of 512 bits, and what AVX2 does to each half of one. An instruction is a call: inlined, a
 * block of products would compile for minutes.
 *
 * Thread: any; no state. Included by tests/x86_emu/immintrin.h.
 */
#ifndef TESTS_X86_EMU_HALVES_H
#define TESTS_X86_EMU_HALVES_H

#if !defined(__AVX2__) /* so that the header compiles alone */
#pragma GCC target("avx2,fma,f16c")
#endif
#pragma GCC diagnostic ignored "-Wpsabi" /* callers and called are compiled alike */

#define _IMMINTRIN_H_INCLUDED /* the parts below ask for it */
#include <xmmintrin.h>

#include <emmintrin.h>
#include <pmmintrin.h>
#include <tmmintrin.h>

#include <smmintrin.h>

#include <avxintrin.h>

#include <avx2intrin.h>
#include <f16cintrin.h>
#include <fmaintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float __m512 __attribute__((__vector_size__(64), __may_alias__));
typedef double __m512d __attribute__((__vector_size__(64), __may_alias__));
typedef long long __m512i __attribute__((__vector_size__(64), __may_alias__));
typedef short __m512bh __attribute__((__vector_size__(64)));
typedef short __m256bh __attribute__((__vector_size__(32)));
typedef uint8_t __mmask8;
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;
typedef uint64_t __mmask64;

typedef uint8_t emu_u8 __attribute__((__vector_size__(64)));
typedef uint16_t emu_u16 __attribute__((__vector_size__(64)));
typedef uint32_t emu_u32 __attribute__((__vector_size__(64)));
typedef uint64_t emu_u64 __attribute__((__vector_size__(64)));
typedef uint16_t emu_h16 __attribute__((__vector_size__(32)));

#define EMU            static __attribute__((noinline, unused))
#define EMU_PART       static inline __attribute__((always_inline))
#define EMU_BF16_ROUND 0x7fffu

/* ---- halves -------------------------------------------------------------------------------- */

EMU_PART __m256i emu_half(__m512i a, int i)
{
    return i ? (__m256i){a[4], a[5], a[6], a[7]} : (__m256i){a[0], a[1], a[2], a[3]};
}

EMU_PART __m512i emu_join(__m256i lo, __m256i hi)
{
    return (__m512i){lo[0], lo[1], lo[2], lo[3], hi[0], hi[1], hi[2], hi[3]};
}

EMU_PART __m256 emu_half_ps(__m512 a, int i)
{
    return (__m256)emu_half((__m512i)a, i);
}

EMU_PART __m512 emu_join_ps(__m256 lo, __m256 hi)
{
    return (__m512)emu_join((__m256i)lo, (__m256i)hi);
}

EMU_PART __m256d emu_half_pd(__m512d a, int i)
{
    return (__m256d)emu_half((__m512i)a, i);
}

/* What AVX2 does to each 256 bits. */
#define EMU_PS1(name, of)                                                                          \
    EMU __m512 name(__m512 a)                                                                      \
    {                                                                                              \
        return emu_join_ps(of(emu_half_ps(a, 0)), of(emu_half_ps(a, 1)));                          \
    }
#define EMU_PS2(name, of)                                                                          \
    EMU __m512 name(__m512 a, __m512 b)                                                            \
    {                                                                                              \
        return emu_join_ps(of(emu_half_ps(a, 0), emu_half_ps(b, 0)),                               \
                           of(emu_half_ps(a, 1), emu_half_ps(b, 1)));                              \
    }
#define EMU_PS3(name, of)                                                                          \
    EMU __m512 name(__m512 a, __m512 b, __m512 c)                                                  \
    {                                                                                              \
        return emu_join_ps(of(emu_half_ps(a, 0), emu_half_ps(b, 0), emu_half_ps(c, 0)),            \
                           of(emu_half_ps(a, 1), emu_half_ps(b, 1), emu_half_ps(c, 1)));           \
    }
#define EMU_I2(name, of)                                                                           \
    EMU __m512i name(__m512i a, __m512i b)                                                         \
    {                                                                                              \
        return emu_join(of(emu_half(a, 0), emu_half(b, 0)), of(emu_half(a, 1), emu_half(b, 1)));   \
    }
#define EMU_SHIFT(name, of)                                                                        \
    EMU __m512i name(__m512i a, unsigned n)                                                        \
    {                                                                                              \
        return emu_join(of(emu_half(a, 0), (int)n), of(emu_half(a, 1), (int)n));                   \
    }

EMU_PS2(_mm512_add_ps, _mm256_add_ps)
EMU_PS2(_mm512_sub_ps, _mm256_sub_ps)
EMU_PS2(_mm512_mul_ps, _mm256_mul_ps)
EMU_PS2(_mm512_div_ps, _mm256_div_ps)
EMU_PS2(_mm512_max_ps, _mm256_max_ps)
EMU_PS2(_mm512_min_ps, _mm256_min_ps)
EMU_PS2(_mm512_and_ps, _mm256_and_ps)
EMU_PS2(_mm512_or_ps, _mm256_or_ps)
EMU_PS3(_mm512_fmadd_ps, _mm256_fmadd_ps)
EMU_PS3(_mm512_fnmadd_ps, _mm256_fnmadd_ps)
EMU_PS3(_mm512_fmsub_ps, _mm256_fmsub_ps)
EMU_PS1(_mm512_sqrt_ps, _mm256_sqrt_ps)
EMU_I2(_mm512_add_epi16, _mm256_add_epi16)
EMU_I2(_mm512_add_epi32, _mm256_add_epi32)
EMU_I2(_mm512_sub_epi32, _mm256_sub_epi32)
EMU_I2(_mm512_srlv_epi32, _mm256_srlv_epi32)
EMU_I2(_mm512_unpacklo_epi16, _mm256_unpacklo_epi16)
EMU_I2(_mm512_unpackhi_epi16, _mm256_unpackhi_epi16)
EMU_I2(_mm512_sllv_epi32, _mm256_sllv_epi32)
EMU_I2(_mm512_mullo_epi32, _mm256_mullo_epi32)
EMU_I2(_mm512_and_si512, _mm256_and_si256)
EMU_I2(_mm512_or_si512, _mm256_or_si256)
EMU_I2(_mm512_xor_si512, _mm256_xor_si256)
EMU_I2(_mm512_mul_epu32, _mm256_mul_epu32)
EMU_I2(_mm512_unpacklo_epi8, _mm256_unpacklo_epi8)
EMU_I2(_mm512_unpackhi_epi8, _mm256_unpackhi_epi8)
EMU_I2(_mm512_unpacklo_epi32, _mm256_unpacklo_epi32)
EMU_I2(_mm512_unpackhi_epi32, _mm256_unpackhi_epi32)
EMU_I2(_mm512_unpacklo_epi64, _mm256_unpacklo_epi64)
EMU_I2(_mm512_unpackhi_epi64, _mm256_unpackhi_epi64)
EMU_SHIFT(_mm512_slli_epi32, _mm256_slli_epi32)
EMU_SHIFT(_mm512_srli_epi32, _mm256_srli_epi32)
EMU_SHIFT(_mm512_slli_epi64, _mm256_slli_epi64)
EMU_SHIFT(_mm512_srli_epi64, _mm256_srli_epi64)

EMU __m512i _mm512_abs_epi32(__m512i a)
{
    return emu_join(_mm256_abs_epi32(emu_half(a, 0)), _mm256_abs_epi32(emu_half(a, 1)));
}

EMU __m512d _mm512_add_pd(__m512d a, __m512d b)
{
    return a + b;
}

EMU __m512d _mm512_fmadd_pd(__m512d a, __m512d b, __m512d c)
{
    return (__m512d)emu_join(
        (__m256i)_mm256_fmadd_pd(emu_half_pd(a, 0), emu_half_pd(b, 0), emu_half_pd(c, 0)),
        (__m256i)_mm256_fmadd_pd(emu_half_pd(a, 1), emu_half_pd(b, 1), emu_half_pd(c, 1)));
}

/* Their last argument is a constant of the instruction. */
#define emu_halves_ps(of, a, with)                                                                 \
    emu_join_ps(of(emu_half_ps(a, 0), with), of(emu_half_ps(a, 1), with))
#define _mm512_permute_ps(a, with)   emu_halves_ps(_mm256_permute_ps, a, with)
#define _mm512_roundscale_ps(a, how) emu_halves_ps(_mm256_round_ps, a, how)
#define _mm512_cmp_ps_mask(a, b, how)                                                              \
    ((__mmask16)(emu_sign_mask(_mm256_cmp_ps(emu_half_ps(a, 0), emu_half_ps(b, 0), how)) |         \
                 emu_sign_mask(_mm256_cmp_ps(emu_half_ps(a, 1), emu_half_ps(b, 1), how)) << 8))
#define _mm512_cvtps_ph(a, how)                                                                    \
    emu_join128(_mm256_cvtps_ph(emu_half_ps(a, 0), how), _mm256_cvtps_ph(emu_half_ps(a, 1), how))

EMU_PART unsigned emu_sign_mask(__m256 a)
{
    return (unsigned)_mm256_movemask_ps(a);
}

EMU_PART __m256i emu_join128(__m128i lo, __m128i hi)
{
    return (__m256i){lo[0], lo[1], hi[0], hi[1]};
}

#endif
