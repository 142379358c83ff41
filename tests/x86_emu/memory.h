/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants, loads and stores of vectors of 512 bits.
 *
 * Thread: any; no state. Included by tests/x86_emu/immintrin.h.
 */
#ifndef TESTS_X86_EMU_MEMORY_H
#define TESTS_X86_EMU_MEMORY_H

#include "tests/x86_emu/halves.h"

EMU __m512 _mm512_setzero_ps(void)
{
    return (__m512){0};
}

EMU __m512d _mm512_setzero_pd(void)
{
    return (__m512d){0};
}

EMU __m512i _mm512_setzero_si512(void)
{
    return (__m512i){0};
}

EMU __m512 _mm512_set1_ps(float x)
{
    return (__m512){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

EMU __m512i _mm512_set1_epi32(int x)
{
    return emu_join(_mm256_set1_epi32(x), _mm256_set1_epi32(x));
}

EMU __m512i _mm512_set1_epi16(short x)
{
    return emu_join(_mm256_set1_epi16(x), _mm256_set1_epi16(x));
}

#define _mm512_setr_epi32(...) ((__m512i)(emu_u32){__VA_ARGS__})
#define _mm512_set_epi32(p, o, n, m, l, k, j, i, h, g, f, e, d, c, b, a)                           \
    _mm512_setr_epi32(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
#define _mm512_setr_epi64(...) ((__m512i){__VA_ARGS__})

EMU __m512i _mm512_loadu_si512(const void *p)
{
    __m512i a;
    memcpy(&a, p, sizeof a);
    return a;
}

EMU __m512i _mm512_load_si512(const void *p)
{
    return *(const __m512i *)p;
}

EMU __m512 _mm512_loadu_ps(const void *p)
{
    return (__m512)_mm512_loadu_si512(p);
}

EMU __m512 _mm512_load_ps(const void *p)
{
    return (__m512)_mm512_load_si512(p);
}

EMU void _mm512_storeu_si512(void *p, __m512i a)
{
    memcpy(p, &a, sizeof a);
}

EMU void _mm512_store_si512(void *p, __m512i a)
{
    *(__m512i *)p = a;
}

EMU void _mm512_storeu_ps(void *p, __m512 a)
{
    memcpy(p, &a, sizeof a);
}

EMU void _mm512_store_ps(void *p, __m512 a)
{
    *(__m512 *)p = a;
}

EMU void _mm512_stream_si512(void *p, __m512i a)
{
    _mm512_store_si512(p, a);
}

/* What a mask leaves out is not touched. */
EMU __m512i _mm512_maskz_loadu_epi32(__mmask16 m, const void *p)
{
    emu_u32 a = {0};
    for (int i = 0; i < 16; i++) {
        if (m >> i & 1)
            memcpy((uint32_t *)&a + i, (const uint32_t *)p + i, 4);
    }
    return (__m512i)a;
}

EMU __m512 _mm512_maskz_loadu_ps(__mmask16 m, const void *p)
{
    return (__m512)_mm512_maskz_loadu_epi32(m, p);
}

EMU __m512i _mm512_maskz_loadu_epi16(__mmask32 m, const void *p)
{
    emu_u16 a = {0};
    for (int i = 0; i < 32; i++) {
        if (m >> i & 1)
            memcpy((uint16_t *)&a + i, (const uint16_t *)p + i, 2);
    }
    return (__m512i)a;
}

EMU __m256i _mm256_maskz_loadu_epi16(__mmask16 m, const void *p)
{
    return emu_half(_mm512_maskz_loadu_epi16(m, p), 0);
}

EMU void _mm512_mask_storeu_epi32(void *p, __mmask16 m, __m512i a)
{
    for (int i = 0; i < 16; i++) {
        if (m >> i & 1)
            memcpy((uint32_t *)p + i, (const uint32_t *)&a + i, 4);
    }
}

EMU void _mm512_mask_storeu_ps(void *p, __mmask16 m, __m512 a)
{
    _mm512_mask_storeu_epi32(p, m, (__m512i)a);
}

EMU void _mm256_mask_storeu_ps(void *p, __mmask8 m, __m256 a)
{
    _mm512_mask_storeu_ps(p, m, emu_join_ps(a, a));
}

EMU void _mm256_mask_storeu_epi16(void *p, __mmask16 m, __m256i a)
{
    for (int i = 0; i < 16; i++) {
        if (m >> i & 1)
            memcpy((uint16_t *)p + i, (const uint16_t *)&a + i, 2);
    }
}

#endif
