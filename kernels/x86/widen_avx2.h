/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored numbers as f32, exactly: bf16 by a shift or a mask, f16 by its instruction, codes by a
 * look-up.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_X86_WIDEN_AVX2_H
#define KERNELS_X86_WIDEN_AVX2_H

#if !defined(__AVX2__) /* so that the header compiles alone */
#pragma GCC target("avx2,fma,f16c")
#endif

#include <immintrin.h>
#include <string.h>

#include "kernels/linear.h"

#define OPEN_INLINE static inline __attribute__((always_inline))

OPEN_INLINE __m256 open_upper(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
}

OPEN_INLINE __m256 open_lower(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

/* Eight codes, byte e of pairs in turn from byte `first` of each half on. -128 of int8c stands as
 * -0. */
OPEN_INLINE __m256 open_codes(enum k_type type, __m256i codes, int first, int e)
{
    const char none = (char)0x80;
    char at = (char)(first + e);
    __m128i half = _mm_setr_epi8(none, none, none, at, none, none, none, (char)(at + 2), none, none,
                                 none, (char)(at + 4), none, none, none, (char)(at + 6));
    __m256i size = _mm256_and_si256(codes, _mm256_set1_epi8(0x7f));
    __m256i plain = _mm256_sign_epi8(size, codes);
    if (type == K_INT8C) {
        const __m256i least = _mm256_set1_epi8(none);
        plain = _mm256_or_si256(plain, _mm256_and_si256(_mm256_cmpeq_epi8(codes, least), least));
    }
    __m256i top = _mm256_shuffle_epi8(plain, _mm256_broadcastsi128_si256(half));
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 24));
}

/* The same of e4m3: as f16 it is 2^8 less, subnormal numbers too. */
OPEN_INLINE __m256 open_fp8(__m256i codes, int first, int e)
{
    const char none = (char)0x80;
    char at = (char)(first + e);
    __m128i half = _mm_setr_epi8(none, at, none, (char)(at + 2), none, (char)(at + 4), none,
                                 (char)(at + 6), none, none, none, none, none, none, none, none);
    __m256i apart = _mm256_shuffle_epi8(codes, _mm256_broadcastsi128_si256(half));
    __m128i top = _mm256_castsi256_si128(_mm256_permute4x64_epi64(apart, 0x08));
    __m128i size = _mm_srli_epi16(_mm_and_si128(top, _mm_set1_epi16(0x7f00)), 1);
    __m128i sign = _mm_and_si128(top, _mm_set1_epi16((short)0x8000));
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(size, sign)), _mm256_set1_ps(256.0f));
}

OPEN_INLINE __m256i open_table(const uint8_t entry[16])
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)entry));
}

/* Eight codes of int4 or mxfp4 as pairs of bf16: by their bytes out of a table of sixteen. The
 * quarters of a step change places, so that interleaving within 128 bits leaves outputs side by
 * side. */
OPEN_INLINE __m256i open_nibbles(enum k_type type, __m256i step, int v)
{
    static const uint8_t low[2][16] = {{0x00, 0xe0, 0xc0, 0xa0, 0x80, 0x40, 0x00, 0x80, 0x00, 0x80,
                                        0x00, 0x40, 0x80, 0xa0, 0xc0, 0xe0},
                                       {0x00, 0x80, 0x00, 0x40, 0x80, 0xc0, 0x00, 0x40, 0x00, 0x80,
                                        0x00, 0x40, 0x80, 0xc0, 0x00, 0x40}};
    static const uint8_t high[2][16] = {{0xc1, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xc0, 0xbf, 0x00, 0x3f,
                                         0x40, 0x40, 0x40, 0x40, 0x40, 0x40},
                                        {0x00, 0x3f, 0x40, 0x40, 0x40, 0x40, 0x41, 0x41, 0x00, 0xbf,
                                         0xc0, 0xc0, 0xc0, 0xc0, 0xc1, 0xc1}};
    const __m256i lower = open_table(low[type == K_MXFP4]);
    const __m256i upper = open_table(high[type == K_MXFP4]);
    __m256i code = _mm256_permute4x64_epi64(step, 0xd8);
    if (v / 2)
        code = _mm256_srli_epi16(code, 4);
    code = _mm256_and_si256(code, _mm256_set1_epi8(0x0f));
    __m256i lo = _mm256_shuffle_epi8(lower, code), hi = _mm256_shuffle_epi8(upper, code);
    return v % 2 ? _mm256_unpackhi_epi8(lo, hi) : _mm256_unpacklo_epi8(lo, hi);
}

/* Eight codes of nf4, out of two tables of eight by their fourth bit. */
OPEN_INLINE __m256 open_nf4_vector(const char *step, int v)
{
    static const float table[16] = CODED_NF4_TABLE;
    const __m128i *at = (const __m128i *)(const void *)(step + v % 2 * 8);
    __m256i code = _mm256_cvtepu8_epi32(_mm_loadl_epi64(at));
    if (v / 2)
        code = _mm256_srli_epi32(code, 4);
    __m256 less = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), code);
    __m256 more = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), code);
    return _mm256_blendv_ps(less, more, _mm256_castsi256_ps(_mm256_slli_epi32(code, 28)));
}

/* Outputs [8 v, 8 v + 8) of a step, input e of its pair (linear_int8_at says where codes are). */
OPEN_INLINE __m256 open_vector(enum k_type type, const char *step, int v, int e)
{
    const __m256i *at = (const __m256i *)(const void *)step;
    if (type == K_F32)
        return _mm256_loadu_ps((const float *)(const void *)(at + v));
    if (type == K_F16)
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)step + v));
    if (type == K_BF16)
        return e ? open_upper(_mm256_loadu_si256(at + v)) : open_lower(_mm256_loadu_si256(at + v));
    if (type == K_NF4)
        return open_nf4_vector(step, v);
    if (coded_is_four(type)) {
        __m256i pairs = open_nibbles(type, _mm256_loadu_si256(at), v);
        return e ? open_upper(pairs) : open_lower(pairs);
    }
    if (type == K_FP8)
        return open_fp8(_mm256_loadu_si256(at + v % 2), v / 2 * 8, e);
    return open_codes(type, _mm256_loadu_si256(at + v % 2), v / 2 * 8, e);
}

/* Those of a group's scales. */
OPEN_INLINE __m256 open_scale(enum k_type type, const void *scales, int v)
{
    if (format_scale_is_f16(type))
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)scales + v));
    return _mm256_loadu_ps((const float *)scales + v * 8);
}

/* ---- nested scales (kernels/nested.h) -------------------------------------------------------- */

/* What eight outputs of a block share over a group. */
struct open_nested {
    __m256 scale, min;
};

/* Eight bytes as dwords. */
OPEN_INLINE __m256i open_bytes(const char *at)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at));
}

/* Integers that outputs [8 v, 8 v + 8) have over the group of input i; min: 0 without mins. */
OPEN_INLINE __m256i open_nested_scale(enum k_type type, const char *block, int v, int64_t i)
{
    const char *at = block + nested_scale_at(type, i) + v * 8;
    if (nested_is_dense(type))
        return _mm256_and_si256(open_bytes(at), _mm256_set1_epi32(63));
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at));
}

OPEN_INLINE __m256i open_nested_min(enum k_type type, const char *block, int v, int64_t i)
{
    __m256i low = open_bytes(block + nested_min_at(type, i) + v * 8);
    if (!nested_is_dense(type))
        return low;
    __m256i high = open_bytes(block + nested_scale_at(type, i) + v * 8);
    low = _mm256_and_si256(_mm256_srli_epi32(low, nested_min_bits(type, i)), _mm256_set1_epi32(15));
    return _mm256_or_si256(low, _mm256_slli_epi32(_mm256_srli_epi32(high, 6), 4));
}

/* They, times the f16 at `at` of the block. */
OPEN_INLINE __m256 open_nested_times(const char *block, int64_t at, int v, __m256i by)
{
    const __m128i *half = (const __m128i *)(const void *)(block + at) + v;
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtepi32_ps(by));
}

OPEN_INLINE struct open_nested open_nested(enum k_type type, const char *block, int v, int64_t i)
{
    __m256 scale =
        open_nested_times(block, nested_d_at(type, i), v, open_nested_scale(type, block, v, i));
    if (!nested_has_mins(type))
        return (struct open_nested){scale, _mm256_setzero_ps()};
    return (struct open_nested){scale, open_nested_times(block, nested_dmin_at(type, i), v,
                                                         open_nested_min(type, block, v, i))};
}

/* The bits of their codes above the lower four, from bit 4 on. */
OPEN_INLINE __m256i open_nested_high(enum k_type type, const char *block, int v, int64_t i)
{
    const char *at = block + nested_high_at(type, i);
    __m256i all;
    if (type == K_INT5K) { /* of four bytes bit 2 v, and then the next one */
        int four;
        memcpy(&four, at, sizeof four);
        all = _mm256_srlv_epi32(_mm256_set1_epi32(four),
                                _mm256_setr_epi32(0, 8, 16, 24, 1, 9, 17, 25));
    } else {
        all = open_bytes(at);
    }
    all = v < 2 ? _mm256_slli_epi32(all, 4 - 2 * v) : _mm256_srli_epi32(all, 2 * v - 4);
    return _mm256_and_si256(all, _mm256_set1_epi32(type == K_INT5K ? 0x10 : 0x30));
}

/* Their codes, as they count. */
OPEN_INLINE __m256i open_nested_codes(enum k_type type, const char *block, int v, int64_t i)
{
    const char *at = block + nested_low_at(type, i);
    if (type == K_INT8K)
        return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(at + v * 8)));
    __m256i low = open_bytes(at + v % 2 * 8);
    low = v / 2 ? _mm256_srli_epi32(low, 4) : _mm256_and_si256(low, _mm256_set1_epi32(15));
    if (!nested_upper(type))
        return low;
    low = _mm256_or_si256(low, open_nested_high(type, block, v, i));
    return type == K_INT6K ? _mm256_sub_epi32(low, _mm256_set1_epi32(32)) : low;
}

/* Their weights of input i. */
OPEN_INLINE __m256 open_nested_vector(enum k_type type, const char *block, int v, int64_t i,
                                      const struct open_nested *s)
{
    __m256 code = _mm256_cvtepi32_ps(open_nested_codes(type, block, v, i));
    return nested_has_mins(type) ? _mm256_fmsub_ps(s->scale, code, s->min)
                                 : _mm256_mul_ps(s->scale, code);
}

/* Row r of a step, for a weight of the type. */
OPEN_INLINE __m256 open_input(enum k_type type, const char *rows, int r, int e)
{
    int bits;
    memcpy(&bits, rows + r * 4, sizeof bits);
    __m256i all = _mm256_set1_epi32(bits);
    if (format_rows(type) == K_F32)
        return _mm256_castsi256_ps(all);
    return e ? open_upper(all) : open_lower(all);
}

#endif
