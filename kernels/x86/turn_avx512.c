/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a 32 x 32 tile of a packed weight over, quarters or halves at a time.
 */
#include "kernels/x86/block_avx512.h"
#include "kernels/x86/transpose_avx512.h"

/* 16 inputs by 16 outputs. `left`: steps that are there. */
static void turn_f32(const char *tile, int64_t left, char *to)
{
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        v[i] = i < left ? _mm512_load_si512(tile + i * TILE_STEP_BYTES) : _mm512_setzero_si512();
    transpose16(v);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        _mm512_store_si512(to + i * TILE_STEP_BYTES, v[i]);
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
static void turn_int8(const struct tile_int8_table *table, const char *tile, int64_t left,
                      const float *scale, char *to)
{
    __m512i v[2][8];
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++) {
        __m512i w[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        if (i < left)
            tile_int8_step(table, _mm512_load_si512(tile + i * TILE_INT8_STEP_BYTES), w);
        v[0][i] = scaled(w[0], _mm512_load_ps(scale));
        v[1][i] = scaled(w[1], _mm512_load_ps(scale + 16));
    }
    store_pairs(v[0], to);
    store_pairs(v[1], to + 8 * TILE_STEP_BYTES);
}

void turn_avx512(const struct turn *t)
{
    int64_t f32 = t->type == K_F32, step = f32 ? 16 : 8;
    int64_t bytes = t->type == K_INT8 ? TILE_INT8_STEP_BYTES : TILE_STEP_BYTES;
    struct tile_int8_table table = {0};
    if (t->type == K_BF16 && t->left >= 16) {
        turn_bf16_whole(t->tile, t->to);
        return;
    }
    if (t->type == K_INT8)
        table = tile_int8_table();
    for (int64_t half = 0; half < 2; half++) { /* of the inputs */
        const char *tile = t->tile + half * step * bytes;
        int64_t left = t->left - half * step;
        char *to = t->to + half * 64;
        if (t->type == K_INT8) {
            turn_int8(&table, tile, left, t->scale, to);
            continue;
        }
        for (int64_t o = 0; o < 2; o++) { /* of the outputs */
            if (f32)
                turn_f32(tile + o * 64, left, to + o * 16 * TILE_STEP_BYTES);
            else
                turn_bf16(tile + o * 64, left, false, to + o * 8 * TILE_STEP_BYTES);
        }
    }
}
