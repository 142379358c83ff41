/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner loops of products of nested scales (kernels/nested.h). Of four inputs a code is a byte:
 * lane j of two vectors has those of outputs j and j + 16. That is what the two pieces of int5k and
 * int6k are put together in, four times as many at once as there are numbers in a vector; int4k's
 * nibbles need no such step.
 *
 * One row has two sums to a panel, which wait for each other's additions: two panels go by turns.
 *
 * Thread: any; included by *_avx512.c only.
 */
#ifndef KERNELS_X86_TILE_NESTED_AVX512_H
#define KERNELS_X86_TILE_NESTED_AVX512_H

#include "kernels/x86/tile_avx512.h"

enum { TILE_FOUR = 4 };

/* What the halves of a block's outputs share over a group. */
struct tile_nested {
    __m512 scale[2], min[2];
};

TILE_INLINE __m128i tile_bytes(const char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Bits of `mask` from a, the others from b. */
TILE_INLINE __m512i tile_select(int mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(_mm512_set1_epi32(mask), a, b, 0xca);
}

/* Of 16 outputs from h * 16 on: the f16 at `at` times integers. */
TILE_INLINE __m512 tile_nested_times(const char *at, int h, __m512i v)
{
    return _mm512_mul_ps(tile_f16(at + h * 32), _mm512_cvtepi32_ps(v));
}

TILE_INLINE struct tile_nested tile_nested_at(enum k_type type, const char *block, int64_t i)
{
    struct tile_nested s;
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        __m128i scale = tile_bytes(block + nested_scale_at(type, i) + h * 16);
        __m512i v = nested_is_dense(type) ? _mm512_cvtepu8_epi32(scale)
                                          : _mm512_cvtepi8_epi32(scale),
                w = v;
        if (nested_is_dense(type))
            v = _mm512_and_si512(v, _mm512_set1_epi32(63));
        s.scale[h] = tile_nested_times(block + nested_d_at(type, i), h, v);
        s.min[h] = _mm512_setzero_ps();
        if (!nested_has_mins(type))
            continue;
        v = _mm512_cvtepu8_epi32(tile_bytes(block + nested_min_at(type, i) + h * 16));
        if (nested_is_dense(type)) {
            v = _mm512_srli_epi32(v, (unsigned)nested_min_bits(type, i));
            v = tile_select(15, v, _mm512_srli_epi32(w, 2));
        }
        s.min[h] = tile_nested_times(block + nested_dmin_at(type, i), h, v);
    }
    return s;
}

/* Outputs 0 to 15, by lane. */
TILE_INLINE __m512i tile_lanes(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* Where four inputs' bytes of an output come from: input i has `stride` of them, of which every
 * stride outputs share one. */
TILE_INLINE __m512i tile_across(int stride)
{
    __m512i o = _mm512_and_si512(tile_lanes(), _mm512_set1_epi32(stride - 1));
    __m512i four = _mm512_mullo_epi32(o, _mm512_set1_epi32(0x01010101));
    return _mm512_add_epi32(four, _mm512_set1_epi32(stride << 8 | stride << 17 | stride * 3 << 24));
}

/* The lower four bits of four inputs' codes, above them those of outputs 16 further on. */
TILE_INLINE __m512i tile_nested_low(enum k_type type, const char *block, int64_t i)
{
    const char *at = block + nested_low_at(type, i);
    return _mm512_permutexvar_epi8(tile_across(16), _mm512_loadu_si512(at));
}

/* The bits above them, lowest first: from bit 0 of a byte on, and from bit 4 on those of outputs 16
 * further on; what is between is others'. */
TILE_INLINE __m512i tile_nested_high(enum k_type type, const char *block, int64_t i)
{
    const int stride = nested_stride(type), bits = nested_upper(type);
    const void *at = block + nested_high_at(type, i);
    __m512i v = bits == 1 ? _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)at))
                          : _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)at));
    /* which of the outputs of a byte: times bits the output's number over the stride, 4 or 8 */
    __m512i by = _mm512_srli_epi32(tile_lanes(), 2);
    if (bits == 2)
        by = _mm512_and_si512(by, _mm512_set1_epi32(2));
    return _mm512_srlv_epi32(_mm512_permutexvar_epi8(tile_across(stride), v), by);
}

/* Those bits' places in all four bytes. */
TILE_INLINE __m512i tile_nested_mask(enum k_type type)
{
    return _mm512_set1_epi32(nested_upper(type) == 1 ? 0x11111111 : 0x33333333);
}

/* Four inputs' codes as they are stored, a byte each. */
TILE_INLINE void tile_nested_stored(enum k_type type, const char *block, int64_t i, __m512i w[2])
{
    const int low = 0x0f0f0f0f;
    __m512i v = tile_nested_low(type, block, i), u = _mm512_setzero_si512();
    if (nested_upper(type))
        u = _mm512_and_si512(tile_nested_high(type, block, i), tile_nested_mask(type));
    w[0] = tile_select(low, v, _mm512_slli_epi32(u, 4));
    w[1] = tile_select(low, _mm512_srli_epi32(v, 4), u);
}

/* The same of int5k and int6k with a sign: four times what a code counts. */
TILE_INLINE void tile_nested_signed(enum k_type type, const char *block, int64_t i, __m512i w[2])
{
    const int low = 0x3c3c3c3c, turned = type == K_INT6K ? 0x22222222 : 0;
    __m512i v = tile_nested_low(type, block, i), u = tile_nested_high(type, block, i);
    u = _mm512_ternarylogic_epi32(u, tile_nested_mask(type), _mm512_set1_epi32(turned),
                                  0x6a); /* (u & mask) ^ turned */
    w[0] = tile_select(low, _mm512_slli_epi32(v, 2), _mm512_slli_epi32(u, 6));
    w[1] = tile_select(low, _mm512_srli_epi32(v, 2), _mm512_slli_epi32(u, 2));
}

#define TILE_UPPER_SCALE 0x1p-26f /* of byte 3 of a word, four times a code */

/* Byte k of each lane, as its byte 3. */
TILE_INLINE __m512 tile_upper_number(__m512i four, int k)
{
    const __m512i of_lane = _mm512_set1_epi32((int)0x00808080 | k << 24);
    const __m512i in_four = _mm512_set4_epi32(12 << 24, 8 << 24, 4 << 24, 0);
    __m512i to = _mm512_add_epi32(of_lane, in_four);
    return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(four, to));
}

/* Codes of inputs [i, i + 4) opened as far as it serves all of them; others: nothing. */
struct tile_opened {
    __m512i four[2];
};

TILE_INLINE struct tile_opened tile_nested_open(enum k_type type, const char *block, int64_t i)
{
    struct tile_opened o = {0};
    if (nested_upper(type))
        tile_nested_signed(type, block, i, o.four);
    return o;
}

/* What tile_nested_weights multiplies with: the scales by what its codes are more than they count.
 */
TILE_INLINE struct tile_nested tile_nested_scales(enum k_type type, const char *block, int64_t i)
{
    struct tile_nested s = tile_nested_at(type, block, i);
    if (nested_upper(type)) {
        s.scale[0] = _mm512_mul_ps(s.scale[0], _mm512_set1_ps(TILE_UPPER_SCALE));
        s.scale[1] = _mm512_mul_ps(s.scale[1], _mm512_set1_ps(TILE_UPPER_SCALE));
    }
    return s;
}

/* The weights of input i, which is number k of the opened ones. */
TILE_INLINE void tile_nested_weights(enum k_type type, const char *block, int64_t i, int k,
                                     const struct tile_opened *o, const struct tile_nested *s,
                                     __m512 w[2])
{
    __m512 code[2];
    if (nested_upper(type)) {
        code[0] = tile_upper_number(o->four[0], k);
        code[1] = tile_upper_number(o->four[1], k);
    } else if (type == K_INT8K) {
        const char *at = block + nested_low_at(type, i);
        code[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(tile_bytes(at)));
        code[1] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(tile_bytes(at + 16)));
    } else {
        __m512i both = _mm512_cvtepu8_epi32(tile_bytes(block + nested_low_at(type, i)));
        /* looked up by a lane's lower four bits: one step in place of two */
        code[0] = _mm512_permutexvar_ps(both, _mm512_cvtepi32_ps(tile_lanes()));
        code[1] = _mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4));
    }
    if (nested_has_mins(type)) {
        w[0] = _mm512_fmsub_ps(s->scale[0], code[0], s->min[0]);
        w[1] = _mm512_fmsub_ps(s->scale[1], code[1], s->min[1]);
    } else {
        w[0] = _mm512_mul_ps(s->scale[0], code[0]);
        w[1] = _mm512_mul_ps(s->scale[1], code[1]);
    }
}

/* Several panels wait for memory: the lines that four inputs have, some blocks before they are
 * read. */
TILE_INLINE void tile_nested_ask(enum k_type type, const char *block, int64_t i)
{
    _mm_prefetch(block + TILE_AHEAD_BYTES + nested_low_at(type, i), _MM_HINT_T0);
    if (type == K_INT8K)
        _mm_prefetch(block + TILE_AHEAD_BYTES + nested_low_at(type, i + 2), _MM_HINT_T0);
    if (nested_upper(type) && i * nested_stride(type) % LINE_BYTES == 0)
        _mm_prefetch(block + TILE_AHEAD_BYTES + nested_high_at(type, i), _MM_HINT_T0);
}

/* n panels, one or two, by turns: sum[n][h][2] += rows [128][h] times a block of each */
TILE_INLINE void tile_nested_block(enum k_type type, int h, int n, bool asks, __m512 *sum,
                                   const char *rows, const char *block, int64_t stride)
{
    for (int64_t at = 0; at < K_NESTED; at += nested_group(type)) {
        struct tile_nested s[2];
#pragma GCC unroll 2
        for (int p = 0; p < n; p++)
            s[p] = tile_nested_scales(type, block + p * stride, at);
        for (int64_t i = at; i < at + nested_group(type); i += TILE_FOUR) {
            struct tile_opened o[2];
#pragma GCC unroll 2
            for (int p = 0; p < n; p++) {
                if (asks)
                    tile_nested_ask(type, block + p * stride, i);
                o[p] = tile_nested_open(type, block + p * stride, i);
            }
#pragma GCC unroll 4
            for (int k = 0; k < TILE_FOUR; k++) {
#pragma GCC unroll 2
                for (int p = 0; p < n; p++) {
                    __m512 w[2];
                    tile_nested_weights(type, block + p * stride, i + k, k, &o[p], &s[p], w);
                    tile_step_f32(h, sum + p * h * 2, rows + (i + k) * h * 4, w[0], w[1]);
                }
            }
        }
    }
}

/* sum[np][h][2] += rows [128][h] times a block of each panel */
TILE_INLINE void tile_run_nested(enum k_type type, int h, int np, __m512 *sum, const char *rows,
                                 const char *block, int64_t stride)
{
#pragma GCC unroll 4
    for (int p = 0; p < np; p += 2)
        tile_nested_block(type, h, np - p < 2 ? 1 : 2, np > 1, sum + p * h * 2, rows,
                          block + p * stride, stride);
}

#endif
