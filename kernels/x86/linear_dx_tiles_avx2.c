/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of the gradients on AVX2: tiles of a packed weight turned over.
 */
#include "kernels/x86/block_avx2.h"
#include "kernels/x86/transpose_avx2.h"
#include "kernels/x86/widen_avx2.h"

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

/* The same of f16, which becomes f32. */
static inline void load8_f16(const char *tile, int64_t left, __m256i v[8])
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        const __m128i *at = (const __m128i *)(const void *)(tile + i * TILE_F16_STEP_BYTES);
        v[i] = _mm256_setzero_si256();
        if (i < left)
            v[i] = _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(at)));
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

static void turn_f16(const char *tile, int64_t left, char *to)
{
    __m256i v[8];
    load8_f16(tile, left, v);
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

/* Input e of the pairs of eight outputs, whose codes are the bytes of their words. */
static inline __m256 scaled(__m256i pairs, int e, __m256 scale)
{
    __m256i code = _mm256_srai_epi32(e ? pairs : _mm256_slli_epi32(pairs, 8), 24);
    return _mm256_mul_ps(scale, _mm256_cvtepi32_ps(code));
}

/* The tile's codes as bf16(scale * code), in the order of a bf16 panel. The steps' bytes are in the
 * order that unpacking makes good (linear_int8_at). */
static void widen_int8(const struct turn *t, char *to)
{
    const __m256i zero = _mm256_setzero_si256();
    for (int64_t s = 0; s < t->left && s < K_NR / LINEAR_STEP; s++, to += TILE_STEP_BYTES) {
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) {
            int o = v / 2 * 8 + v % 2 * 16;
            const char *at = t->tile + s * TILE_INT8_STEP_BYTES + v / 2 * 32;
            __m256i code = _mm256_loadu_si256((const __m256i *)(const void *)at);
            __m256i size = _mm256_and_si256(code, _mm256_set1_epi8(0x7f));
            __m256i plain = _mm256_sign_epi8(size, code);
            __m256i pairs =
                v % 2 ? _mm256_unpackhi_epi16(zero, plain) : _mm256_unpacklo_epi16(zero, plain);
            __m256 scale = open_scale(t->type, t->scale, o / 8);
            store8(to + o * 4, bf16_pairs(scaled(pairs, 0, scale), scaled(pairs, 1, scale)));
        }
    }
}

/* The same, by vectors of outputs. */
OPEN_INLINE void widen_vectors(enum k_type type, const struct turn *t, char *to)
{
    for (int64_t s = 0; s < t->left && s < K_NR / LINEAR_STEP; s++, to += TILE_STEP_BYTES) {
        const char *at = t->tile + s * format_stream(type, 0).bytes;
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) {
            __m256 scale = open_scale(type, t->scale, v);
            __m256 first = _mm256_mul_ps(scale, open_vector(type, at, v, 0));
            __m256 second = _mm256_mul_ps(scale, open_vector(type, at, v, 1));
            store8(to + v * 32, bf16_pairs(first, second));
        }
    }
}

static void widen_codes(const struct turn *t, char *to)
{
    if (t->type == K_INT4)
        widen_vectors(K_INT4, t, to);
    else if (t->type == K_MXFP4)
        widen_vectors(K_MXFP4, t, to);
    else if (t->type == K_INT8C)
        widen_vectors(K_INT8C, t, to);
    else if (t->type == K_FP8)
        widen_vectors(K_FP8, t, to);
    else
        widen_int8(t, to);
}

/* scale * what the codes count. */
static void open_nf4(const struct turn *t, float *to)
{
    for (int64_t i = 0; i < K_NR; i++, to += K_NR) {
        const char *step = t->tile + i * format_stream(K_NF4, 0).bytes;
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            _mm256_store_ps(to + v * 8, _mm256_mul_ps(open_vector(K_NF4, step, v, 0),
                                                      open_scale(K_NF4, t->scale, v)));
    }
}

/* What is opened first. */
static void turn_opened(const struct turn *t)
{
    float wide[K_NR * K_NR] __attribute__((aligned(32)));
    if (t->type == K_NF4)
        open_nf4(t, wide);
    else
        open_nested_tile_avx2(t->type, t->tile, t->first, wide);
    struct turn f32 = {.type = K_F32, .tile = (const char *)wide, .left = K_NR, .to = t->to};
    linear_dx_tiles_avx2(&f32);
}

void linear_dx_tiles_avx2(const struct turn *t)
{
    const struct k_format *format = k_format(t->type); /* its functions are switches by the type */
    if (format->stream[0].inputs == K_NESTED || t->type == K_NF4) {
        turn_opened(t);
        return;
    }
    char wide[K_NR / LINEAR_STEP * TILE_STEP_BYTES] __attribute__((aligned(32)));
    const char *tile = t->tile;
    if (format->stream[1].inputs) {
        widen_codes(t, wide);
        tile = wide;
    }
    int64_t steps = K_NR / format->stream[0].inputs;
    for (int64_t s = 0; s < steps; s += 8) {
        for (int64_t o = 0; o < K_NR; o += 8) {
            if (t->type == K_F16) {
                turn_f16(tile + s * TILE_F16_STEP_BYTES + o * 2, t->left - s,
                         t->to + o * TILE_STEP_BYTES + s * 4);
                continue;
            }
            const char *from = tile + s * TILE_STEP_BYTES + o * 4;
            if (t->type == K_F32)
                turn_f32(from, t->left - s, t->to + o * TILE_STEP_BYTES + s * 4);
            else
                turn_bf16(from, t->left - s, t->to + o / 2 * TILE_STEP_BYTES + s * 8);
        }
    }
}
