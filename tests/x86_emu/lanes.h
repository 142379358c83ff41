/* SPDX-License-Identifier: Apache-2.0
 *
 * What is done lane by lane: masks, places, other types, sums of a vector, bf16.
 *
 * Thread: any; no state. Included by tests/x86_emu/immintrin.h.
 */
#ifndef TESTS_X86_EMU_LANES_H
#define TESTS_X86_EMU_LANES_H

#include "tests/x86_emu/memory.h"

/* ---- masks --------------------------------------------------------------------------------- */

/* All bits of the lanes that are in. */
EMU_PART __m512i emu_lanes(__mmask16 m)
{
    const __m512i bit = _mm512_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096,
                                          8192, 16384, 32768);
    return (__m512i)(((emu_u32)_mm512_set1_epi32(m) & (emu_u32)bit) != 0);
}

EMU __m512i _mm512_mask_blend_epi32(__mmask16 m, __m512i a, __m512i b)
{
    __m512i in = emu_lanes(m);
    return (b & in) | (a & ~in);
}

EMU __m512 _mm512_mask_blend_ps(__mmask16 m, __m512 a, __m512 b)
{
    return (__m512)_mm512_mask_blend_epi32(m, (__m512i)a, (__m512i)b);
}

EMU __m512 _mm512_mask_mov_ps(__m512 from, __mmask16 m, __m512 a)
{
    return _mm512_mask_blend_ps(m, from, a);
}

EMU __m512 _mm512_maskz_mov_ps(__mmask16 m, __m512 a)
{
    return _mm512_mask_blend_ps(m, _mm512_setzero_ps(), a);
}

EMU __m512 _mm512_maskz_mul_ps(__mmask16 m, __m512 a, __m512 b)
{
    return _mm512_maskz_mov_ps(m, a * b);
}

EMU __m512 _mm512_maskz_div_ps(__mmask16 m, __m512 a, __m512 b)
{
    return _mm512_maskz_mov_ps(m, a / b);
}

EMU __m512 _mm512_mask_sub_ps(__m512 from, __mmask16 m, __m512 a, __m512 b)
{
    return _mm512_mask_blend_ps(m, from, a - b);
}

EMU __m512i _mm512_mask_or_epi32(__m512i from, __mmask16 m, __m512i a, __m512i b)
{
    return _mm512_mask_blend_epi32(m, from, a | b);
}

EMU __mmask16 _mm512_cmpeq_epi32_mask(__m512i a, __m512i b)
{
    __mmask16 m = 0;
    for (int i = 0; i < 16; i++)
        m |= (__mmask16)((((emu_u32)a)[i] == ((emu_u32)b)[i]) << i);
    return m;
}

EMU __mmask16 _mm512_cmplt_epu32_mask(__m512i a, __m512i b)
{
    __mmask16 m = 0;
    for (int i = 0; i < 16; i++)
        m |= (__mmask16)((((emu_u32)a)[i] < ((emu_u32)b)[i]) << i);
    return m;
}

EMU __mmask32 _mm512_cmpeq_epi16_mask(__m512i a, __m512i b)
{
    __mmask32 m = 0;
    for (int i = 0; i < 32; i++)
        m |= (__mmask32)(((emu_u16)a)[i] == ((emu_u16)b)[i]) << i;
    return m;
}

EMU __mmask16 _mm512_cmplt_epi32_mask(__m512i a, __m512i b)
{
    __mmask16 m = 0;
    for (int i = 0; i < 16; i++)
        m |= (__mmask16)((int32_t)((emu_u32)a)[i] < (int32_t)((emu_u32)b)[i]) << i;
    return m;
}

EMU __m512 _mm512_mask_mul_ps(__m512 a, __mmask16 m, __m512 b, __m512 c)
{
    __m512 all = a;
    for (int i = 0; i < 16; i++)
        all[i] = m >> i & 1 ? b[i] * c[i] : a[i];
    return all;
}

EMU __m512i _mm512_set1_epi8(char v)
{
    return (__m512i)((emu_u8){0} + (uint8_t)v);
}

EMU __mmask64 _mm512_movepi8_mask(__m512i a)
{
    __mmask64 m = 0;
    for (int i = 0; i < 64; i++)
        m |= (__mmask64)(((emu_u8)a)[i] >> 7) << i;
    return m;
}

EMU __mmask64 _mm512_cmpeq_epi8_mask(__m512i a, __m512i b)
{
    return _mm512_movepi8_mask((__m512i)((emu_u8)a == (emu_u8)b));
}

EMU __m512i _mm512_mask_mov_epi8(__m512i a, __mmask64 m, __m512i b)
{
    emu_u8 all = (emu_u8)a;
    for (int i = 0; i < 64; i++)
        all[i] = m >> i & 1 ? ((emu_u8)b)[i] : all[i];
    return (__m512i)all;
}

EMU __m512i _mm512_mask_sub_epi8(__m512i a, __mmask64 m, __m512i b, __m512i c)
{
    return _mm512_mask_mov_epi8(a, m, (__m512i)((emu_u8)b - (emu_u8)c));
}

/* ---- places -------------------------------------------------------------------------------- */

EMU __m512i _mm512_permutexvar_epi16(__m512i at, __m512i a)
{
    return (__m512i)__builtin_shuffle((emu_u16)a, (emu_u16)at);
}

EMU __m512i _mm512_permutexvar_epi8(__m512i at, __m512i a)
{
    return (__m512i)__builtin_shuffle((emu_u8)a, (emu_u8)at);
}

/* In each of its fourths by itself. */
EMU __m512i _mm512_shuffle_epi8(__m512i a, __m512i at)
{
    emu_u8 all, to = (emu_u8)at;
    for (int i = 0; i < 64; i++)
        all[i] = to[i] & 0x80 ? 0 : ((emu_u8)a)[(i & ~15) + (to[i] & 15)];
    return (__m512i)all;
}

EMU __m512i _mm512_set4_epi32(int d, int c, int b, int a)
{
    const int word[4] = {a, b, c, d};
    emu_u32 all;
    for (int i = 0; i < 16; i++)
        all[i] = (uint32_t)word[i % 4];
    return (__m512i)all;
}

EMU __m512 _mm512_permutexvar_ps(__m512i at, __m512 a)
{
    return (__m512)__builtin_shuffle((emu_u32)a, (emu_u32)at);
}

EMU __m512i _mm512_permutex2var_epi8(__m512i a, __m512i at, __m512i b)
{
    return (__m512i)__builtin_shuffle((emu_u8)a, (emu_u8)b, (emu_u8)at);
}

EMU __m512i _mm512_permutex2var_epi16(__m512i a, __m512i at, __m512i b)
{
    return (__m512i)__builtin_shuffle((emu_u16)a, (emu_u16)b, (emu_u16)at);
}

EMU __m512i _mm512_permutex2var_epi64(__m512i a, __m512i at, __m512i b)
{
    return (__m512i)__builtin_shuffle((emu_u64)a, (emu_u64)b, (emu_u64)at);
}

EMU __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, int how)
{
    int i = (how & 3) * 2, j = (how >> 2 & 3) * 2, k = (how >> 4 & 3) * 2, l = (how >> 6 & 3) * 2;
    return (__m512i){a[i], a[i + 1], a[j], a[j + 1], b[k], b[k + 1], b[l], b[l + 1]};
}

EMU __m256i _mm512_extracti64x4_epi64(__m512i a, int i)
{
    return emu_half(a, i);
}

EMU __m256 _mm512_extractf32x8_ps(__m512 a, int i)
{
    return emu_half_ps(a, i);
}

EMU __m512i _mm512_inserti64x4(__m512i a, __m256i b, int i)
{
    return i ? emu_join(emu_half(a, 0), b) : emu_join(b, emu_half(a, 1));
}

/* The `how`th truth of three bits, a's the highest. */
EMU __m512i _mm512_ternarylogic_epi32(__m512i a, __m512i b, __m512i c, int how)
{
    __m512i all = {0};
    for (int k = 0; k < 8; k++) {
        if (how >> k & 1)
            all |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    }
    return all;
}

/* ---- types --------------------------------------------------------------------------------- */

#define _mm512_castps_si512(a)    ((__m512i)(a))
#define _mm512_castsi512_ps(a)    ((__m512)(a))
#define _mm512_castps512_ps256(a) emu_half_ps(a, 0)
#define _mm512_castsi512_si256(a) emu_half(a, 0)
#define _mm512_castsi256_si512(a) emu_join(a, a)

EMU __m512 _mm512_abs_ps(__m512 a)
{
    return (__m512)((__m512i)a & _mm512_set1_epi32(0x7fffffff));
}

EMU __m512i _mm512_cvtepu16_epi32(__m256i a)
{
    return (__m512i) __builtin_convertvector((emu_h16)a, emu_u32);
}

EMU __m512i _mm512_srli_epi16(__m512i a, int n)
{
    return (__m512i)((emu_u16)a >> n);
}

EMU __m512i _mm512_cvtepu8_epi16(__m256i a)
{
    uint8_t from[32];
    _mm256_storeu_si256((__m256i *)(void *)from, a);
    emu_u16 to = {0};
    for (int i = 0; i < 32; i++)
        to[i] = from[i];
    return (__m512i)to;
}

EMU __m512i _mm512_cvtepu8_epi32(__m128i a)
{
    return emu_join(_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8)));
}

EMU __m512i _mm512_cvtepi8_epi32(__m128i a)
{
    return emu_join(_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8)));
}

EMU __m256i _mm512_cvtepi32_epi16(__m512i a)
{
    return (__m256i) __builtin_convertvector((emu_u32)a, emu_h16);
}

EMU __m128i _mm512_cvtepi32_epi8(__m512i a)
{
    uint8_t to[16];
    for (int i = 0; i < 16; i++)
        to[i] = (uint8_t)((emu_u32)a)[i];
    return _mm_loadu_si128((const __m128i *)(const void *)to);
}

EMU __m512 _mm512_cvtepi32_ps(__m512i a)
{
    return emu_join_ps(_mm256_cvtepi32_ps(emu_half(a, 0)), _mm256_cvtepi32_ps(emu_half(a, 1)));
}

EMU __m512i _mm512_cvtps_epi32(__m512 a)
{
    return emu_join(_mm256_cvtps_epi32(emu_half_ps(a, 0)), _mm256_cvtps_epi32(emu_half_ps(a, 1)));
}

EMU __m512d _mm512_cvtps_pd(__m256 a)
{
    return (__m512d){a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]};
}

EMU __m512 _mm512_cvtph_ps(__m256i a)
{
    return emu_join_ps(_mm256_cvtph_ps((__m128i){a[0], a[1]}),
                       _mm256_cvtph_ps((__m128i){a[2], a[3]}));
}

/* ---- sums of lanes, in the compiler's order ------------------------------------------------- */

EMU float _mm512_reduce_add_ps(__m512 a)
{
    __m256 b = emu_half_ps(a, 0) + emu_half_ps(a, 1);
    __m128 c = {b[0] + b[4], b[1] + b[5], b[2] + b[6], b[3] + b[7]};
    return (c[0] + c[2]) + (c[1] + c[3]);
}

EMU float _mm512_reduce_max_ps(__m512 a)
{
    float most = a[0];
    for (int i = 1; i < 16; i++)
        most = a[i] > most ? a[i] : most;
    return most;
}

EMU double _mm512_reduce_add_pd(__m512d a)
{
    __m256d b = emu_half_pd(a, 0) + emu_half_pd(a, 1);
    return (b[0] + b[2]) + (b[1] + b[3]);
}

EMU long long _mm512_reduce_add_epi64(__m512i a)
{
    long long all = 0;
    for (int i = 0; i < 8; i++)
        all = (long long)((unsigned long long)all + (unsigned long long)a[i]);
    return all;
}

/* a 2^floor(b) */
EMU __m512 _mm512_scalef_ps(__m512 a, __m512 b)
{
    for (int i = 0; i < 16; i++) {
        float n = floorf(b[i]);
        n = n > 400 ? 400 : n < -400 ? -400 : n;
        a[i] = n == n ? scalbnf(a[i], (int)n) : n;
    }
    return a;
}

/* ---- bf16 ---------------------------------------------------------------------------------- */

/* Denormals are zero to instructions on bf16. */
EMU_PART __m512 emu_flushed(__m512 a)
{
    emu_u32 bits = (emu_u32)a;
    emu_u32 normal = (emu_u32)((bits & 0x7f800000u) != 0);
    return (__m512)(bits & (normal | 0x80000000u));
}

EMU __m256bh _mm512_cvtneps_pbh(__m512 a)
{
    emu_u32 bits = (emu_u32)emu_flushed(a), nan = (emu_u32)((bits & 0x7fffffffu) > 0x7f800000u);
    emu_u32 near = (bits + EMU_BF16_ROUND + (bits >> 16 & 1)) >> 16;
    emu_u32 all = (near & ~nan) | ((bits >> 16 | 0x40) & nan);
    return (__m256bh) __builtin_convertvector(all, emu_h16);
}

EMU __m512bh _mm512_cvtne2ps_pbh(__m512 hi, __m512 lo)
{
    return (__m512bh)emu_join((__m256i)_mm512_cvtneps_pbh(lo), (__m256i)_mm512_cvtneps_pbh(hi));
}

/* Bytes without a sign times bytes with one. */
EMU __m512i _mm512_dpbusd_epi32(__m512i sum, __m512i a, __m512i b)
{
    emu_u32 all = (emu_u32)sum;
    for (int i = 0; i < 64; i++)
        all[i / 4] += (uint32_t)((int)((emu_u8)a)[i] * (int8_t)((emu_u8)b)[i]);
    return (__m512i)all;
}

EMU __m512 _mm512_dpbf16_ps(__m512 sum, __m512bh a, __m512bh b)
{
    emu_u32 x = (emu_u32)a, y = (emu_u32)b;
    __m512 odd = _mm512_fmadd_ps(emu_flushed((__m512)(x & 0xffff0000u)),
                                 emu_flushed((__m512)(y & 0xffff0000u)), emu_flushed(sum));
    __m512 all = _mm512_fmadd_ps(emu_flushed((__m512)(x << 16)), emu_flushed((__m512)(y << 16)),
                                 emu_flushed(odd));
    return emu_flushed(all);
}

#endif
