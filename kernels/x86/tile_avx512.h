/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of every AVX-512 product: h rows against np panels of 32 outputs, h * np * 2 sums
 * held in registers. h and np are constants where these are called, so each call becomes a
 * straight loop.
 *
 * A vdpbf16ps (and an fma) takes several cycles and one starts per cycle: fewer than six sums at
 * once would wait, so one or two rows take several panels. Twelve rows by one panel is 24 sums:
 * 2 loads of weights and 12 broadcasts per 24 products leave the load ports half idle.
 *
 * Thread: any; included by *_avx512.c only.
 */
#ifndef KERNELS_X86_TILE_AVX512_H
#define KERNELS_X86_TILE_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "kernels/x86/block.h"

#ifdef TANDEM_X86_EMU /* once for all h and np: hundreds of loops of calls compile for minutes */
#define TILE_INLINE static __attribute__((noinline, unused))
#else
#define TILE_INLINE static inline __attribute__((always_inline))
#endif

enum { TILE_SUMS_MAX = 24, TILE_AHEAD_BYTES = 4 << 10 };

TILE_INLINE void tile_prefetch(const struct tile_prefetch *ahead, int64_t step)
{
    const char *also = ahead->also + step * ahead->also_pace;
    _mm_prefetch(ahead->at + step * ahead->pace, _MM_HINT_T1);
    _mm_prefetch(also, _MM_HINT_T1);
    _mm_prefetch(also + ahead->also_pace / 2, _MM_HINT_T1);
}

TILE_INLINE void tile_zero(int n, __m512 *sum)
{
#pragma GCC unroll 24
    for (int i = 0; i < n; i++)
        sum[i] = _mm512_setzero_ps();
}

TILE_INLINE void tile_load(int n, __m512 *sum, const float *from)
{
#pragma GCC unroll 24
    for (int i = 0; i < n; i++)
        sum[i] = _mm512_load_ps(from + i * 16);
}

TILE_INLINE void tile_store(int n, const __m512 *sum, float *to)
{
#pragma GCC unroll 24
    for (int i = 0; i < n; i++)
        _mm512_store_ps(to + i * 16, sum[i]);
}

/* sum[h][2] += one step: h pairs of bf16 at `rows` times w */
TILE_INLINE void tile_step_bf16(int h, __m512 *sum, const void *rows, __m512i w0, __m512i w1)
{
#pragma GCC unroll 12
    for (int r = 0; r < h; r++) {
        int pair;
        memcpy(&pair, (const char *)rows + r * 4, sizeof pair);
        __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
        sum[r * 2] = _mm512_dpbf16_ps(sum[r * 2], x, (__m512bh)w0);
        sum[r * 2 + 1] = _mm512_dpbf16_ps(sum[r * 2 + 1], x, (__m512bh)w1);
    }
}

/* sum[h][2] += one step: h floats at `rows` times w */
TILE_INLINE void tile_step_f32(int h, __m512 *sum, const void *rows, __m512 w0, __m512 w1)
{
#pragma GCC unroll 12
    for (int r = 0; r < h; r++) {
        float one;
        memcpy(&one, (const char *)rows + r * 4, sizeof one);
        __m512 x = _mm512_set1_ps(one);
        sum[r * 2] = _mm512_fmadd_ps(x, w0, sum[r * 2]);
        sum[r * 2 + 1] = _mm512_fmadd_ps(x, w1, sum[r * 2 + 1]);
    }
}

/* One half of an f16 step as f32. */
TILE_INLINE __m512 tile_f16(const char *w)
{
    return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)w));
}

/* sum[np][h][2] += rows [steps][h] times panels without groups that lie `stride` bytes apart */
TILE_INLINE void tile_run(enum k_type type, int h, int np, __m512 *sum, const char *rows,
                          const char *panel, int64_t stride, int64_t steps,
                          struct tile_prefetch ahead)
{
    const char *at = ahead.at, *also = ahead.also;
    const int64_t half = ahead.also_pace / 2;
    for (int64_t i = 0; i < steps; i++, rows += h * 4, panel += format_stream(type, 0).bytes) {
        if (np == 1) {
            _mm_prefetch(at, _MM_HINT_T1);
            _mm_prefetch(also, _MM_HINT_T1);
            _mm_prefetch(also + half, _MM_HINT_T1);
            at += ahead.pace;
            also += half * 2;
        }
#pragma GCC unroll 8
        for (int p = 0; p < np; p++) {
            const char *w = panel + p * stride;
            if (type == K_F32)
                tile_step_f32(h, sum + p * h * 2, rows, _mm512_load_ps(w), _mm512_load_ps(w + 64));
            else if (type == K_F16)
                tile_step_f32(h, sum + p * h * 2, rows, tile_f16(w), tile_f16(w + 32));
            else
                tile_step_bf16(h, sum + p * h * 2, rows, _mm512_load_si512(w),
                               _mm512_load_si512(w + 64));
        }
    }
}

/* ---- codes -------------------------------------------------------------------------------- */

/* What 16 magnitudes from i on count. */
TILE_INLINE __m512 tile_magnitudes(enum k_type type, __m512i i)
{
    __m512 count = _mm512_cvtepi32_ps(i);
    if (type != K_FP8)
        return count;
    __m512i bits = _mm512_add_epi32(_mm512_slli_epi32(i, 20), _mm512_set1_epi32(120 << 23));
    return _mm512_mask_mul_ps(_mm512_castsi512_ps(bits),
                              _mm512_cmplt_epi32_mask(i, _mm512_set1_epi32(8)), count,
                              _mm512_set1_ps(0x1p-9f));
}

/* bf16 of the magnitudes 0 to 127, split in low and high bytes of 2 x 64 entries. */
struct tile_int8_table {
    __m512i lo[2], hi[2];
};

TILE_INLINE struct tile_int8_table tile_int8_table(enum k_type type)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    uint8_t lo[128], hi[128];
    for (int i = 0; i < 128; i += 16) {
        __m512 f = tile_magnitudes(type, _mm512_add_epi32(lane, _mm512_set1_epi32(i)));
        __m512i u = _mm512_castps_si512(f); /* seven bits at most: the lower half is zero */
        _mm_storeu_si128((__m128i *)(void *)(lo + i),
                         _mm512_cvtepi32_epi8(_mm512_srli_epi32(u, 16)));
        _mm_storeu_si128((__m128i *)(void *)(hi + i),
                         _mm512_cvtepi32_epi8(_mm512_srli_epi32(u, 24)));
    }
    return (struct tile_int8_table){
        .lo = {_mm512_loadu_si512(lo), _mm512_loadu_si512(lo + 64)},
        .hi = {_mm512_loadu_si512(hi), _mm512_loadu_si512(hi + 64)},
    };
}

/* A step of 64 codes to its two vectors of bf16. The look-ups ignore the sign bit. -128 of int8c
 * stands as -0, and its bf16 has zeros below. */
TILE_INLINE void tile_int8_step(enum k_type type, const struct tile_int8_table *t, __m512i code,
                                __m512i w[2])
{
    __m512i lo = _mm512_permutex2var_epi8(t->lo[0], code, t->lo[1]);
    __m512i mag = _mm512_permutex2var_epi8(t->hi[0], code, t->hi[1]);
    __m512i hi = _mm512_ternarylogic_epi32(mag, code, _mm512_set1_epi32((int)0x80808080), 0xf8);
    if (type == K_INT8C)
        hi = _mm512_mask_mov_epi8(hi, _mm512_cmpeq_epi8_mask(code, _mm512_set1_epi8((char)0x80)),
                                  _mm512_set1_epi8((char)0xc3));
    w[0] = _mm512_unpacklo_epi8(lo, hi);
    w[1] = _mm512_unpackhi_epi8(lo, hi);
}

/* bf16 of the codes of int4, or of mxfp4, twice: the look-up has five bits. */
TILE_INLINE __m512i tile_int4_table(enum k_type type)
{
    __m512i lane = _mm512_setr_epi32(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    if (type == K_MXFP4)
        lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    __m512i u = _mm512_castps_si512(_mm512_cvtepi32_ps(lane));
    __m256i once = _mm512_cvtepi32_epi16(_mm512_srli_epi32(u, 16));
    return _mm512_inserti64x4(_mm512_castsi256_si512(once), once, 1);
}

/* A step of 32 bytes, two codes each. Of a word's five bits the uppermost does not matter. */
TILE_INLINE void tile_int4_step(__m512i table, __m256i code, __m512i w[2])
{
    __m512i wide = _mm512_cvtepu8_epi16(code);
    w[0] = _mm512_permutexvar_epi16(wide, table);
    w[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(wide, 4), table);
}

/* What opens a format's codes. */
struct tile_table {
    struct tile_int8_table int8;
    __m512i int4;
};

TILE_INLINE struct tile_table tile_table(enum k_type type)
{
    struct tile_table t = {0};
    if (coded_is_four(type))
        t.int4 = tile_int4_table(type);
    else
        t.int8 = tile_int8_table(type);
    return t;
}

TILE_INLINE void tile_code_step(enum k_type type, const struct tile_table *t, const void *code,
                                __m512i w[2])
{
    if (coded_is_four(type))
        tile_int4_step(t->int4, _mm256_load_si256(code), w);
    else
        tile_int8_step(type, &t->int8, _mm512_load_si512(code), w);
}

/* 16 of a group's scales. */
TILE_INLINE __m512 tile_scale(enum k_type type, const char *scales, int half)
{
    if (format_scale_is_f16(type))
        return tile_f16(scales + half * 32);
    return _mm512_load_ps(scales + half * 64);
}

/* sum[np][h][2] += rows times panels of codes, unscaled: at most a group at a time */
TILE_INLINE void tile_run_codes(enum k_type type, int h, int np, __m512 *sum, const char *rows,
                                const char *panel, int64_t stride, int64_t steps,
                                const struct tile_table *table, struct tile_prefetch ahead)
{
    for (int64_t i = 0; i < steps; i++) {
        if (np == 1)
            tile_prefetch(&ahead, i);
#pragma GCC unroll 8
        for (int p = 0; p < np; p++) {
            const char *codes = panel + p * stride + i * format_stream(type, 0).bytes;
            __m512i w[2];
            if (np > 1 && coded_is_four(type)) /* several panels: no share of what is wanted next */
                _mm_prefetch(codes + TILE_AHEAD_BYTES, _MM_HINT_T0);
            tile_code_step(type, table, codes, w);
            tile_step_bf16(h, sum + p * h * 2, rows + i * h * 4, w[0], w[1]);
        }
    }
}

/* total = fma(scale, sum, total): a group's sums join the output */
TILE_INLINE void tile_fold(enum k_type type, int h, const __m512 *sum, const char *scale,
                           float *total)
{
    __m512 s0 = tile_scale(type, scale, 0), s1 = tile_scale(type, scale, 1);
#pragma GCC unroll 12
    for (int r = 0; r < h; r++) {
        float *t = total + r * K_NR;
        _mm512_store_ps(t, _mm512_fmadd_ps(s0, sum[r * 2], _mm512_load_ps(t)));
        _mm512_store_ps(t + 16, _mm512_fmadd_ps(s1, sum[r * 2 + 1], _mm512_load_ps(t + 16)));
    }
}

/* The same of totals in registers. */
TILE_INLINE void tile_fold_here(enum k_type type, int h, const __m512 *sum, const char *scale,
                                __m512 *total)
{
    __m512 s0 = tile_scale(type, scale, 0), s1 = tile_scale(type, scale, 1);
#pragma GCC unroll 12
    for (int r = 0; r < h; r++) {
        total[r * 2] = _mm512_fmadd_ps(s0, sum[r * 2], total[r * 2]);
        total[r * 2 + 1] = _mm512_fmadd_ps(s1, sum[r * 2 + 1], total[r * 2 + 1]);
    }
}

/* ---- results ------------------------------------------------------------------------------ */

TILE_INLINE __mmask16 tile_mask(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
}

/* Asks for the lines that tile_out will write, at the start of the loop before it: a line that has
 * to come from another cache when it is stored to holds up the stores behind it. */
TILE_INLINE void tile_own(int h, const struct tile_out *out)
{
#pragma GCC unroll 12
    for (int r = 0; r < h; r++) {
        __builtin_prefetch(out->y + r * out->ld_y, 1);
        __builtin_prefetch(out->y + r * out->ld_y + 16, 1);
    }
}

/* Whether all of the panel's columns are there, and whether the output takes a bias or adds to what
 * is there, are constants where this is called. */
TILE_INLINE void tile_out_as(int h, const __m512 *sum, const struct tile_out *out, bool whole,
                             bool bias, bool add)
{
    __mmask16 m0 = whole ? 0xffff : tile_mask(out->cols);
    __mmask16 m1 = whole ? 0xffff : tile_mask(out->cols - 16);
    __m512 b0 = _mm512_setzero_ps(), b1 = b0;
    if (bias) {
        b0 = _mm512_maskz_loadu_ps(m0, out->bias);
        b1 = _mm512_maskz_loadu_ps(m1, out->bias + 16);
    }
#pragma GCC unroll 12
    for (int r = 0; r < h; r++) {
        float *y = out->y + r * out->ld_y;
        __m512 v0 = sum[r * 2], v1 = sum[r * 2 + 1];
        if (bias) {
            v0 = _mm512_add_ps(v0, b0);
            v1 = _mm512_add_ps(v1, b1);
        }
        if (add) {
            v0 = _mm512_add_ps(_mm512_maskz_loadu_ps(m0, y), v0);
            v1 = _mm512_add_ps(_mm512_maskz_loadu_ps(m1, y + 16), v1);
        }
        if (whole) {
            _mm512_storeu_ps(y, v0);
            _mm512_storeu_ps(y + 16, v1);
        } else {
            _mm512_mask_storeu_ps(y, m0, v0);
            _mm512_mask_storeu_ps(y + 16, m1, v1);
        }
    }
}

/* A store under a mask is slower than a whole one even when the mask is full, and nearly all are
 * whole. */
TILE_INLINE void tile_out(int h, const __m512 *sum, const struct tile_out *out)
{
    if (out->cols < K_NR || out->bias)
        tile_out_as(h, sum, out, false, out->bias != NULL, out->add);
    else if (out->add)
        tile_out_as(h, sum, out, true, false, true);
    else
        tile_out_as(h, sum, out, true, false, false);
}

#endif
