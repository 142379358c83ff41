/* SPDX-License-Identifier: Apache-2.0
 *
 * Where things stand in a weight whose scales have scales: a panel is blocks of K_NESTED inputs,
 * each whole in itself, which for the panel's outputs side by side are
 *
 *   d, dmin  [32] f16 each; of int8k [4][32], for 32 inputs each
 *   scale    [group][32] signed bytes; groups of 32 inputs, of int6k and int8k 16
 *   min      [group][32] bytes; groups of 32 inputs, of int8k 16
 *   codes    [128][16]: in an input's byte j the lower four bits of output j, and above them those
 *            of output j + 16; of int8k [128][32], signed bytes
 *   high     of int6k, [128][8]: in byte j two more bits of outputs j, j + 8, j + 16, j + 24
 *
 * The weight is d * scale * code - dmin * min in f32, code 0 to 15, of int6k -32 to 31, stored 32
 * more. Both products are exact, so that it is rounded once, and the order of the two factors
 * before the code is all the same. What GGUF's Q4_K holds is an int4k, and Q5_K, Q6_K and Q3_K
 * are int6k, to the bit, as an int4k is; so are codes with a zero point and an f16 scale for 128
 * inputs an int4k. An int8k is what has neither's groups or codes (Q4_1, Q5_1, Q2_K, IQ4_XS), and
 * what matrices of several of these kinds are that stand in one; a code of eight bits stands beside
 * a scale of six at the most, or the product would not be exact.
 *
 * Inputs are whole blocks: nothing else becomes such a weight. The same order on CPUs and GPUs.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_NESTED_H
#define KERNELS_NESTED_H

#include "kernels/coded.h"

enum {
    NESTED_D_GROUP = 32, /* inputs that share d and dmin, at the least */
    NESTED_LANES = 8 /* pieces of a block that share no byte: outputs j, j + 8, j + 16, j + 24 */
};

/* Inputs that share a scale, and a min. */
CODED_INLINE int nested_group(enum k_type type)
{
    return type == K_INT4K ? 32 : 16;
}

CODED_INLINE int nested_min_group(enum k_type type)
{
    return type == K_INT8K ? 16 : 32;
}

/* Offsets of what input i has. */
CODED_INLINE int64_t nested_d_at(enum k_type type, int64_t i)
{
    return type == K_INT8K ? i / NESTED_D_GROUP * 2 * K_NR : 0;
}

CODED_INLINE int64_t nested_dmin_at(enum k_type type, int64_t i)
{
    return nested_d_at(type, i) + (type == K_INT8K ? nested_d_at(type, K_NESTED) : 2 * K_NR);
}

CODED_INLINE int64_t nested_scale_at(enum k_type type, int64_t i)
{
    int64_t first = 2 * nested_dmin_at(type, 0);
    return first + i / nested_group(type) * K_NR;
}

CODED_INLINE int64_t nested_min_at(enum k_type type, int64_t i)
{
    return nested_scale_at(type, K_NESTED) + i / nested_min_group(type) * K_NR;
}

CODED_INLINE int64_t nested_low_at(enum k_type type, int64_t i)
{
    return nested_min_at(type, K_NESTED) + i * (type == K_INT8K ? K_NR : K_NR / 2);
}

CODED_INLINE int64_t nested_high_at(enum k_type type, int64_t i)
{
    return nested_low_at(type, K_NESTED) + i * (K_NR / 4);
}

CODED_INLINE int64_t nested_bytes(enum k_type type)
{
    return nested_high_at(type, type == K_INT6K ? K_NESTED : 0);
}

CODED_INLINE int nested_code(enum k_type type, const uint8_t *block, int64_t o, int64_t i)
{
    if (type == K_INT8K)
        return (int8_t)block[nested_low_at(type, i) + o];
    int low = block[nested_low_at(type, i) + o % 16] >> o / 16 * 4 & 15;
    if (type == K_INT4K)
        return low;
    return (low | (block[nested_high_at(type, i) + o % 8] >> o / 8 * 2 & 3) << 4) - 32;
}

/* The weight, where d and dmin are those of output o as f32. */
CODED_INLINE float nested_value(enum k_type type, const uint8_t *block, int64_t o, int64_t i,
                                float d, float dmin)
{
    float scale = d * (float)(int8_t)block[nested_scale_at(type, i) + o];
    float min = dmin * (float)block[nested_min_at(type, i) + o];
    return scale * (float)nested_code(type, block, o, i) - min;
}

/* d or dmin of output o in a block, which are at `at`. */
CODED_INLINE k_f16 nested_f16(const uint8_t *block, int64_t at, int64_t o)
{
    return (k_f16)(block[at + 2 * o] | block[at + 2 * o + 1] << 8);
}

/* ---- packing: sources as kernels/coded.h has them ---------------------------------------------
 */

/* Whether a weight of the type holds what codes of another format count. */
CODED_INLINE bool nested_takes(enum k_type type, enum k_type from)
{
    if (type == K_INT8K)
        return from == K_INT4K || from == K_INT6K || from == K_INT8G || from == K_INT4;
    return type == K_INT6K && from == K_INT4K;
}

/* What output o of inputs [lo, lo + n) has but for its codes, of one block of a source; none:
 * zeros, of which the sum is one. */
CODED_INLINE void nested_put_scales(enum k_type type, enum k_type from, const uint8_t *src,
                                    int64_t o, int64_t lo, int64_t n, uint8_t *block)
{
    const bool is_nested = from == K_INT4K || from == K_INT6K || from == K_INT8K;
    const int group = is_nested ? nested_group(from) : (int)n;
    const uint8_t *min = is_nested && src ? src + 4 + n / group : NULL;
    for (int64_t i = 0; i < n; i += NESTED_D_GROUP)
        for (int byte = 0; byte < 2; byte++) {
            block[nested_d_at(type, lo + i) + 2 * o + byte] = src ? src[byte] : 0;
            block[nested_dmin_at(type, lo + i) + 2 * o + byte] = min ? src[2 + byte] : 0;
        }
    for (int64_t i = 0; i < n; i += nested_group(type))
        block[nested_scale_at(type, lo + i) + o] = min ? src[4 + i / group] : src != NULL;
    for (int64_t i = 0; i < n; i += nested_min_group(type))
        block[nested_min_at(type, lo + i) + o] = min ? min[i / nested_min_group(from)] : 0;
}

/* Input i of outputs lane, lane + 8, lane + 16 and lane + 24 of a block. */
CODED_INLINE void nested_put_codes(enum k_type type, const int code[4], int64_t lane, int64_t i,
                                   uint8_t *block)
{
    uint8_t *low = block + nested_low_at(type, i) + lane;
    if (type == K_INT8K) {
        for (int v = 0; v < 4; v++)
            low[v * NESTED_LANES] = (uint8_t)code[v];
        return;
    }
    const int above = type == K_INT6K ? 32 : 0;
    int stored[4], high = 0;
    for (int v = 0; v < 4; v++) {
        stored[v] = code[v] + above;
        high |= stored[v] >> 4 << v * 2;
    }
    low[0] = (uint8_t)((stored[0] & 15) | (stored[2] & 15) << 4);
    low[8] = (uint8_t)((stored[1] & 15) | (stored[3] & 15) << 4);
    if (type == K_INT6K)
        block[nested_high_at(type, i) + lane] = (uint8_t)high;
}

/* Those outputs over a source's block, whose inputs are [lo, lo + n) of ours. */
CODED_INLINE void nested_put(enum k_type type, enum k_type from, const uint8_t *const src[4],
                             int64_t lane, int64_t lo, int64_t n, uint8_t *block)
{
    for (int v = 0; v < 4; v++)
        nested_put_scales(type, from, src[v], lane + v * NESTED_LANES, lo, n, block);
    for (int64_t i = 0; i < n; i++) {
        int code[4];
        for (int v = 0; v < 4; v++)
            code[v] = src[v] ? coded_code(from, src[v], i) : 0;
        nested_put_codes(type, code, lane, lo + i, block);
    }
}

/* Lane `lane` of block b of a panel of the call, counted from its first. */
CODED_INLINE void nested_pack(const struct k_weight_pack *a, int64_t panel, int64_t b, int64_t lane)
{
    const int64_t blocks = a->w.k / K_NESTED, n = coded_inputs(a->src_type);
    uint8_t *block =
        (uint8_t *)a->w.data + ((a->panel_lo + panel) * blocks + b) * nested_bytes(a->w.type);
    for (int64_t lo = 0; lo < K_NESTED; lo += n) {
        const uint8_t *src[4];
        for (int v = 0; v < 4; v++) {
            int64_t o = panel * K_NR + lane + v * NESTED_LANES;
            src[v] = o < a->n_src ? coded_block(a, o, b * K_NESTED + lo) : NULL;
        }
        nested_put(a->w.type, a->src_type, src, lane, lo, n, block);
    }
}

#endif
