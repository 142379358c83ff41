/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of the gradients on AVX2: tiles of a packed weight turned over.
 */
#include "kernels/variants.h"
#include "kernels/x86/block_avx2.h"
#include "kernels/x86/transpose_avx2.h"

#include <string.h>

/* Eight steps of eight outputs; `left` steps are there. */
static inline void load8(const char *tile, int64_t left, __m256i v[8])
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        const __m256i *at = (const __m256i *)(const void *)(tile + i * TILE_STEP_BYTES);
        v[i] = i < left ? _mm256_loadu_si256(at) : _mm256_setzero_si256();
    }
    transpose8(v);
}

static inline void store8(char *to, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, v);
}

static void turn_f32(const char *tile, int64_t left, char *to)
{
    __m256i v[8];
    load8(tile, left, v);
#pragma GCC unroll 8
    for (int o = 0; o < 8; o++)
        store8(to + o * TILE_STEP_BYTES, v[o]);
}

/* Pairs of outputs: their words in turn. */
static void turn_bf16(const char *tile, int64_t left, char *to)
{
    __m256i v[8];
    load8(tile, left, v);
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) {
        __m256i lo = _mm256_unpacklo_epi16(v[2 * p], v[2 * p + 1]);
        __m256i hi = _mm256_unpackhi_epi16(v[2 * p], v[2 * p + 1]);
        store8(to + p * TILE_STEP_BYTES, _mm256_permute2x128_si256(lo, hi, 0x20));
        store8(to + p * TILE_STEP_BYTES + 32, _mm256_permute2x128_si256(lo, hi, 0x31));
    }
}

/* The tile's codes as bf16(scale * code), in the order of a bf16 panel. */
static void widen(const struct turn *t, k_bf16 *to)
{
    const uint8_t *code = (const uint8_t *)t->tile;
    for (int64_t i = 0; i < 2 * t->left; i++) {
        for (int64_t o = 0; o < K_NR; o++) {
            float v = t->scale[o] * (float)linear_int8_code(code[linear_int8_at(o, i)]);
            to[linear_bf16_at(o, i)] = bf16_from_f32(v);
        }
    }
}

void turn_avx2(const struct turn *t)
{
    k_bf16 wide[K_NR * K_NR] __attribute__((aligned(32)));
    const char *tile = t->tile;
    if (t->type == K_INT8) {
        widen(t, wide);
        tile = (const char *)wide;
    }
    int64_t steps = t->type == K_F32 ? K_NR : K_NR / LINEAR_STEP;
    for (int64_t s = 0; s < steps; s += 8) {
        for (int64_t o = 0; o < K_NR; o += 8) {
            const char *from = tile + s * TILE_STEP_BYTES + o * 4;
            if (t->type == K_F32)
                turn_f32(from, t->left - s, t->to + o * TILE_STEP_BYTES + s * 4);
            else
                turn_bf16(from, t->left - s, t->to + o / 2 * TILE_STEP_BYTES + s * 8);
        }
    }
}
