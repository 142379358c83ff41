/* SPDX-License-Identifier: Apache-2.0
 *
 * Where things stand in a weight whose scales have scales: a panel is blocks of K_NESTED inputs,
 * each whole in itself, which for the panel's outputs side by side are
 *
 *   d, dmin  [32] f16 each
 *   scale    [group][32] signed bytes; groups of 32 inputs, of int6k 16
 *   min      [4][32] bytes, each for 32 inputs
 *   codes    [128][16]: in an input's byte j the lower four bits of output j, and above them those
 *            of output j + 16
 *   high     of int6k, [128][8]: in byte j two more bits of outputs j, j + 8, j + 16, j + 24
 *
 * The weight is d * scale * code - dmin * min in f32, code 0 to 15, of int6k -32 to 31, stored 32
 * more. Both products are exact, so that it is rounded once, and the order of the two factors
 * before the code is all the same. What GGUF's Q4_K holds is an int4k, and Q5_K, Q6_K and Q3_K
 * are int6k, to the bit, as an int4k is; so are codes with a zero point and an f16 scale for 128
 * inputs an int4k.
 *
 * Inputs are whole blocks: nothing else becomes such a weight. The same order on CPUs and GPUs.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_NESTED_H
#define KERNELS_NESTED_H

#include "kernels/coded.h"

enum {
    NESTED_MIN_GROUP = 32,
    NESTED_DMIN = 2 * K_NR, /* offsets in a block */
    NESTED_SCALE = 4 * K_NR,
    NESTED_LOW_BYTES = K_NESTED * K_NR / 2,
    NESTED_LANES = 8 /* pieces of a block that share no byte: outputs j, j + 8, j + 16, j + 24 */
};

CODED_INLINE int nested_group(enum k_type type)
{
    return type == K_INT4K ? 32 : 16;
}

/* Offsets of what input i has. */
CODED_INLINE int64_t nested_scale_at(enum k_type type, int64_t i)
{
    return NESTED_SCALE + i / nested_group(type) * K_NR;
}

CODED_INLINE int64_t nested_min_at(enum k_type type, int64_t i)
{
    return nested_scale_at(type, K_NESTED) + i / NESTED_MIN_GROUP * K_NR;
}

CODED_INLINE int64_t nested_low_at(enum k_type type, int64_t i)
{
    return nested_min_at(type, K_NESTED) + i * (K_NR / 2);
}

CODED_INLINE int64_t nested_high_at(enum k_type type, int64_t i)
{
    return nested_low_at(type, K_NESTED) + i * (K_NR / 4);
}

CODED_INLINE int64_t nested_bytes(enum k_type type)
{
    return type == K_INT4K ? nested_high_at(type, 0) : nested_high_at(type, K_NESTED);
}

CODED_INLINE int nested_code(enum k_type type, const uint8_t *block, int64_t o, int64_t i)
{
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

/* d of output o in a block, dmin of it behind NESTED_DMIN. */
CODED_INLINE k_f16 nested_f16(const uint8_t *block, int64_t at, int64_t o)
{
    return (k_f16)(block[at + 2 * o] | block[at + 2 * o + 1] << 8);
}

/* ---- packing: sources as kernels/coded.h has them ---------------------------------------------
 */

/* What output o of a block has but for its codes; no source: zeros, of which the sum is one. */
CODED_INLINE void nested_put_scales(enum k_type type, enum k_type from, const uint8_t *src,
                                    int64_t o, uint8_t *block)
{
    for (int i = 0; i < 4; i++)
        block[i / 2 * NESTED_DMIN + 2 * o + i % 2] = src ? src[i] : 0;
    for (int i = 0; i < K_NESTED; i += nested_group(type))
        block[nested_scale_at(type, i) + o] = src ? src[4 + i / nested_group(from)] : 0;
    for (int i = 0; i < K_NESTED; i += NESTED_MIN_GROUP)
        block[nested_min_at(type, i) + o] =
            src ? src[4 + K_NESTED / nested_group(from) + i / NESTED_MIN_GROUP] : 0;
}

/* Code i as `type` stores it. */
CODED_INLINE int nested_stored(enum k_type type, enum k_type from, const uint8_t *src, int i)
{
    int code = src ? coded_code(from, src, i) : 0;
    return type == K_INT4K ? code : code + 32;
}

/* Outputs lane, lane + 8, lane + 16 and lane + 24 of a block. */
CODED_INLINE void nested_put(enum k_type type, enum k_type from, const uint8_t *const src[4],
                             int64_t lane, uint8_t *block)
{
    for (int v = 0; v < 4; v++)
        nested_put_scales(type, from, src[v], lane + v * NESTED_LANES, block);
    for (int i = 0; i < K_NESTED; i++) {
        int code[4], high = 0;
        for (int v = 0; v < 4; v++) {
            code[v] = nested_stored(type, from, src[v], i);
            high |= code[v] >> 4 << v * 2;
        }
        uint8_t *low = block + nested_low_at(type, i) + lane;
        low[0] = (uint8_t)((code[0] & 15) | (code[2] & 15) << 4);
        low[8] = (uint8_t)((code[1] & 15) | (code[3] & 15) << 4);
        if (type != K_INT4K)
            block[nested_high_at(type, i) + lane] = (uint8_t)high;
    }
}

/* Lane `lane` of block b of a panel of the call, counted from its first. */
CODED_INLINE void nested_pack(const struct k_weight_pack *a, int64_t panel, int64_t b, int64_t lane)
{
    const uint8_t *src[4];
    int64_t blocks = a->w.k / K_NESTED;
    for (int v = 0; v < 4; v++) {
        int64_t o = panel * K_NR + lane + v * NESTED_LANES;
        src[v] = o < a->n_src ? coded_block(a, o, b * K_NESTED) : NULL;
    }
    nested_put(a->w.type, a->src_type, src, lane,
               (uint8_t *)a->w.data +
                   ((a->panel_lo + panel) * blocks + b) * nested_bytes(a->w.type));
}

#endif
