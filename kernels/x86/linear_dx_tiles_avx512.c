/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a 32 x 32 tile of a packed weight over, quarters or halves at a time.
 */
#include "kernels/x86/block_avx512.h"
#include "kernels/x86/tile_nested_avx512.h"
#include "kernels/x86/tile_nf4_avx512.h"
#include "kernels/x86/transpose_avx512.h"

/* 16 outputs of an input, as f32. */
TILE_INLINE __m512i load_input(enum k_type type, const char *tile, int64_t i)
{
    if (type == K_F32)
        return _mm512_load_si512(tile + i * TILE_STEP_BYTES);
    const void *half = tile + i * TILE_F16_STEP_BYTES;
    return _mm512_castps_si512(_mm512_cvtph_ps(_mm256_load_si256(half)));
}

/* 16 inputs by 16 outputs of f32 or f16. `left`: steps that are there. */
TILE_INLINE void turn_inputs(enum k_type type, const char *tile, int64_t left, char *to)
{
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        v[i] = i < left ? load_input(type, tile, i) : _mm512_setzero_si512();
    transpose16(v);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        _mm512_store_si512(to + i * TILE_STEP_BYTES, v[i]);
}

static void turn_f32(const char *tile, int64_t left, char *to)
{
    turn_inputs(K_F32, tile, left, to);
}

static void turn_f16(const char *tile, int64_t left, char *to)
{
    turn_inputs(K_F16, tile, left, to);
}

TILE_INLINE void store_pairs(const __m512i in[8], char *to)
{
    __m512i out[8];
    transpose_pairs(in, out);
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++)
        _mm512_store_si512(to + i * TILE_STEP_BYTES, out[i]);
}

TILE_INLINE void turn_bf16(const char *tile, int64_t left, bool whole, char *to)
{
    __m512i v[8];
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++)
        v[i] = whole || i < left ? _mm512_load_si512(tile + i * TILE_STEP_BYTES)
                                 : _mm512_setzero_si512();
    store_pairs(v, to);
}

/* All of a tile that has all of its steps, as nearly all have: straight through. */
static void turn_bf16_whole(const char *tile, char *to)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { /* of the inputs, of the outputs */
        int64_t half = i / 2, o = i % 2;
        turn_bf16(tile + half * 8 * TILE_STEP_BYTES + o * 64, 8, true,
                  to + half * 64 + o * 8 * TILE_STEP_BYTES);
    }
}

/* bf16(scale * code) of 16 outputs' pairs. */
static inline __m512i scaled(__m512i code, __m512 scale)
{
    static const uint16_t order[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                       21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                       11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512 first = _mm512_castsi512_ps(_mm512_slli_epi32(code, 16));
    __m512 second = _mm512_castsi512_ps(_mm512_and_si512(code, _mm512_set1_epi32((int)0xffff0000)));
    __m512bh both = _mm512_cvtne2ps_pbh(_mm512_mul_ps(second, scale), _mm512_mul_ps(first, scale));
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), (__m512i)both);
}

/* Both halves of the outputs at once. */
TILE_INLINE void turn_codes(enum k_type type, const char *tile, int64_t left, const void *scale,
                            char *to)
{
    const struct tile_table table = tile_table(type);
    __m512i v[2][8];
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++) {
        __m512i w[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        if (i < left)
            tile_code_step(type, &table, tile + i * format_stream(type, 0).bytes, w);
        v[0][i] = scaled(w[0], tile_scale(type, scale, 0));
        v[1][i] = scaled(w[1], tile_scale(type, scale, 1));
    }
    store_pairs(v[0], to);
    store_pairs(v[1], to + 8 * TILE_STEP_BYTES);
}

TILE_INLINE void open_tile(enum k_type type, const struct turn *t, float *to)
{
    for (int64_t i = t->first; i < t->first + K_NR; i += TILE_FOUR) {
        const struct tile_nested s = tile_nested_scales(type, t->tile, i);
        const struct tile_opened o = tile_nested_open(type, t->tile, i);
#pragma GCC unroll 4
        for (int k = 0; k < TILE_FOUR; k++, to += K_NR) {
            __m512 w[2];
            tile_nested_weights(type, t->tile, i + k, k, &o, &s, w);
            _mm512_store_ps(to, w[0]);
            _mm512_store_ps(to + 16, w[1]);
        }
    }
}

/* scale * what the codes count. */
static void open_nf4(const struct turn *t, float *to)
{
    const __m512 table = tile_nf4_table();
    for (int64_t i = 0; i < K_NR; i++, to += K_NR) {
        __m512 w[2];
        tile_nf4_step(table, t->tile + i * format_stream(K_NF4, 0).bytes, w);
        _mm512_store_ps(to, _mm512_mul_ps(w[0], tile_scale(K_NF4, t->scale, 0)));
        _mm512_store_ps(to + 16, _mm512_mul_ps(w[1], tile_scale(K_NF4, t->scale, 1)));
    }
}

/* What is opened first. */
static void turn_opened(const struct turn *t)
{
    float wide[K_NR * K_NR] __attribute__((aligned(64)));
    if (t->type == K_NF4)
        open_nf4(t, wide);
    else if (t->type == K_INT4K)
        open_tile(K_INT4K, t, wide);
    else if (t->type == K_INT5K)
        open_tile(K_INT5K, t, wide);
    else if (t->type == K_INT6K)
        open_tile(K_INT6K, t, wide);
    else
        open_tile(K_INT8K, t, wide);
    struct turn f32 = {.type = K_F32, .tile = (const char *)wide, .left = K_NR, .to = t->to};
    linear_dx_tiles_avx512(&f32);
}

void linear_dx_tiles_avx512(const struct turn *t)
{
    if (t->type == K_BF16 && t->left >= 16) {
        turn_bf16_whole(t->tile, t->to);
        return;
    }
    const struct k_stream numbers = k_format(t->type)->stream[0];
    if (numbers.inputs == K_NESTED || t->type == K_NF4) {
        turn_opened(t);
        return;
    }
    int64_t step = 16 / numbers.inputs, bytes = numbers.bytes;
    for (int64_t half = 0; half < 2; half++) { /* of the inputs */
        const char *tile = t->tile + half * step * bytes;
        int64_t left = t->left - half * step;
        char *to = t->to + half * 64;
        if (t->type == K_INT8) {
            turn_codes(K_INT8, tile, left, t->scale, to);
            continue;
        }
        if (t->type == K_INT8G) {
            turn_codes(K_INT8G, tile, left, t->scale, to);
            continue;
        }
        if (t->type == K_INT8C) {
            turn_codes(K_INT8C, tile, left, t->scale, to);
            continue;
        }
        if (t->type == K_FP8) {
            turn_codes(K_FP8, tile, left, t->scale, to);
            continue;
        }
        if (t->type == K_INT4) {
            turn_codes(K_INT4, tile, left, t->scale, to);
            continue;
        }
        if (t->type == K_MXFP4) {
            turn_codes(K_MXFP4, tile, left, t->scale, to);
            continue;
        }
        for (int64_t o = 0; o < 2; o++) { /* of the outputs */
            if (t->type == K_F32)
                turn_f32(tile + o * 64, left, to + o * 16 * TILE_STEP_BYTES);
            else if (t->type == K_F16)
                turn_f16(tile + o * 32, left, to + o * 16 * TILE_STEP_BYTES);
            else
                turn_bf16(tile + o * 64, left, false, to + o * 8 * TILE_STEP_BYTES);
        }
    }
}
