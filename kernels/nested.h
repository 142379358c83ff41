/* SPDX-License-Identifier: Apache-2.0
 *
 * Where things stand in a weight whose scales have scales: a panel is blocks of K_NESTED inputs,
 * each whole in itself, which for the panel's outputs side by side are
 *
 *   d, dmin  [32] f16 each, of int6k d alone; of int8k [4][32] each, for 32 inputs each
 *   scale    [group][32] bytes; groups of 32 inputs, of int6k and int8k of 16 and with signs. Of
 *            int4k and int5k six bits, and above them the upper two of the min
 *   min      of int4k and int5k [2][32], in a byte the lower four bits of the first and third
 *            group's, and above them those of the second and fourth; of int8k [8][32]; else none
 *   codes    [128][16]: in an input's byte j the lower four bits of output j, and above them those
 *            of output j + 16; of int8k [128][32], signed bytes
 *   high     what is above these bits: of int5k [128][4], in byte j one of outputs j, j + 4, and so
 *            on to j + 28; of int6k [128][8], in byte j two of outputs j, j + 8, j + 16, j + 24
 *
 * The weight is d * scale * code - dmin * min in f32, code 0 to 15 or 31, of int6k -32 to 31,
 * stored 32 more. Both products are exact, so that it is rounded once, and the order of the two
 * factors before the code is all the same. What GGUF's Q4_K holds is an int4k, Q5_K's an int5k,
 * Q6_K's and Q3_K's an int6k; so are codes with a zero point and an f16 scale for 128 inputs an
 * int4k. An int8k is what has neither's groups or codes (Q4_1, Q5_1, Q2_K, IQ4_XS); a code of eight
 * bits stands beside a scale of six at the most, or the product would not be exact.
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
    NESTED_LANES = 4,    /* pieces of a block that share no byte: outputs j, j + 4, ... j + 28 */
    NESTED_EACH = 8      /* outputs of a piece */
};

/* Whether scales have six bits, of groups of 32, and codes no sign. */
CODED_INLINE bool nested_is_dense(enum k_type type)
{
    return type == K_INT4K || type == K_INT5K;
}

CODED_INLINE bool nested_has_mins(enum k_type type)
{
    return type != K_INT6K;
}

/* Bits of a code above its lower four, which stand apart. */
CODED_INLINE int nested_upper(enum k_type type)
{
    return type == K_INT5K ? 1 : type == K_INT6K ? 2 : 0;
}

/* Inputs that share a scale, and a min. */
CODED_INLINE int nested_group(enum k_type type)
{
    return nested_is_dense(type) ? 32 : 16;
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
    int64_t first = nested_has_mins(type) ? 2 * nested_dmin_at(type, 0) : 2 * K_NR;
    return first + i / nested_group(type) * K_NR;
}

/* Of a type that has mins; of a dense one two groups share it. */
CODED_INLINE int64_t nested_min_at(enum k_type type, int64_t i)
{
    int64_t first = nested_scale_at(type, K_NESTED), group = i / nested_group(type);
    return first + (nested_is_dense(type) ? group / 2 : group) * K_NR;
}

/* By how many bits the lower four of a dense one's min are up. */
CODED_INLINE int nested_min_bits(enum k_type type, int64_t i)
{
    return (int)(i / nested_group(type) % 2 * 4);
}

CODED_INLINE int64_t nested_low_at(enum k_type type, int64_t i)
{
    int64_t first =
        nested_has_mins(type) ? nested_min_at(type, K_NESTED) : nested_scale_at(type, K_NESTED);
    return first + i * (type == K_INT8K ? K_NR : K_NR / 2);
}

CODED_INLINE int64_t nested_high_at(enum k_type type, int64_t i)
{
    return nested_low_at(type, K_NESTED) + i * (K_NR / 8) * nested_upper(type);
}

CODED_INLINE int64_t nested_bytes(enum k_type type)
{
    return nested_high_at(type, K_NESTED);
}

/* Of how many outputs each shares a byte's place in `high` with the next, which is so many on. */
CODED_INLINE int nested_stride(enum k_type type)
{
    return K_NR / 8 * nested_upper(type);
}

CODED_INLINE int nested_code(enum k_type type, const uint8_t *block, int64_t o, int64_t i)
{
    if (type == K_INT8K)
        return (int8_t)block[nested_low_at(type, i) + o];
    int low = block[nested_low_at(type, i) + o % 16] >> o / 16 * 4 & 15;
    if (type == K_INT4K)
        return low;
    const int stride = nested_stride(type), bits = nested_upper(type);
    int up = block[nested_high_at(type, i) + o % stride] >> o / stride * bits & ((1 << bits) - 1);
    return (low | up << 4) - (type == K_INT6K ? 32 : 0);
}

CODED_INLINE int nested_scale(enum k_type type, const uint8_t *block, int64_t o, int64_t i)
{
    uint8_t byte = block[nested_scale_at(type, i) + o];
    return nested_is_dense(type) ? byte & 63 : (int8_t)byte;
}

/* 0 where there are none. */
CODED_INLINE int nested_min(enum k_type type, const uint8_t *block, int64_t o, int64_t i)
{
    if (!nested_has_mins(type))
        return 0;
    uint8_t byte = block[nested_min_at(type, i) + o];
    if (!nested_is_dense(type))
        return byte;
    return (byte >> nested_min_bits(type, i) & 15) | block[nested_scale_at(type, i) + o] >> 6 << 4;
}

/* The weight, where d and dmin are those of output o as f32. */
CODED_INLINE float nested_value(enum k_type type, const uint8_t *block, int64_t o, int64_t i,
                                float d, float dmin)
{
    float scale = d * (float)nested_scale(type, block, o, i);
    float min = dmin * (float)nested_min(type, block, o, i);
    return scale * (float)nested_code(type, block, o, i) - min;
}

/* d or dmin of output o in a block, which are at `at`. */
CODED_INLINE k_f16 nested_f16(const uint8_t *block, int64_t at, int64_t o)
{
    return (k_f16)(block[at + 2 * o] | block[at + 2 * o + 1] << 8);
}

/* Of one that has no mins dmin is 0. */
CODED_INLINE k_f16 nested_dmin(enum k_type type, const uint8_t *block, int64_t o, int64_t i)
{
    return nested_has_mins(type) ? nested_f16(block, nested_dmin_at(type, i), o) : (k_f16)0;
}

/* ---- packing: sources as kernels/coded.h has them ---------------------------------------------
 */

/* What output o of inputs [lo, lo + n) has but for its codes, of one block of a source; none:
 * zeros, of which the sum is one. */
CODED_INLINE void nested_put_scales(enum k_type type, const uint8_t *src, int64_t o, int64_t lo,
                                    int64_t n, uint8_t *block)
{
    const int group = nested_group(type);
    const int64_t first = nested_has_mins(type) ? 4 : 2;
    for (int64_t i = 0; i < n; i += NESTED_D_GROUP) {
        for (int byte = 0; byte < 2; byte++) {
            block[nested_d_at(type, lo + i) + 2 * o + byte] = src ? src[byte] : 0;
            if (nested_has_mins(type))
                block[nested_dmin_at(type, lo + i) + 2 * o + byte] = src ? src[2 + byte] : 0;
        }
    }
    for (int64_t g = 0; g < n / group; g++) {
        const int64_t i = lo + g * group;
        const int min = src && nested_has_mins(type) ? src[first + n / group + g] : 0;
        uint8_t *to = block + nested_scale_at(type, i) + o;
        *to = src ? src[first + g] : 0;
        if (nested_is_dense(type))
            *to |= (uint8_t)(min >> 4 << 6);
        if (!nested_has_mins(type))
            continue;
        to = block + nested_min_at(type, i) + o;
        if (!nested_is_dense(type))
            *to = (uint8_t)min;
        else if (nested_min_bits(type, i))
            *to |= (uint8_t)(min << 4);
        else
            *to = min & 15;
    }
}

/* Input i of outputs lane, lane + 4, ... lane + 28 of a block. */
CODED_INLINE void nested_put_codes(enum k_type type, const int code[NESTED_EACH], int64_t lane,
                                   int64_t i, uint8_t *block)
{
    const int above = type == K_INT6K ? 32 : 0, bits = nested_upper(type);
    uint8_t *low = block + nested_low_at(type, i) + lane;
    uint8_t *high = block + nested_high_at(type, i) + lane;
    for (int v = 0; v < NESTED_EACH && type == K_INT8K; v++)
        low[v * NESTED_LANES] = (uint8_t)code[v];
    for (int v = 0; v < NESTED_EACH / 2 && type != K_INT8K; v++)
        low[v * NESTED_LANES] =
            (uint8_t)(((code[v] + above) & 15) | ((code[v + NESTED_EACH / 2] + above) & 15) << 4);
    for (int b = 0; b < bits; b++) {
        int all = 0;
        for (int v = b; v < NESTED_EACH; v += bits)
            all |= (code[v] + above) >> 4 << v / bits * bits;
        high[b * NESTED_LANES] = (uint8_t)all;
    }
}

/* Lane `lane` of block b of a panel of the call, counted from its first. */
CODED_INLINE void nested_pack(const struct k_weight_pack *a, int64_t panel, int64_t b, int64_t lane)
{
    const enum k_type type = a->w.type;
    const int64_t blocks = a->w.k / K_NESTED, n = coded_inputs(type);
    uint8_t *block =
        (uint8_t *)a->w.data + ((a->panel_lo + panel) * blocks + b) * nested_bytes(type);
    for (int64_t lo = 0; lo < K_NESTED; lo += n) {
        const uint8_t *src[NESTED_EACH];
        for (int v = 0; v < NESTED_EACH; v++) {
            int64_t o = lane + v * NESTED_LANES, of = panel * K_NR + o;
            src[v] = of < a->n_src ? coded_block(a, of, b * K_NESTED + lo) : NULL;
            nested_put_scales(type, src[v], o, lo, n, block);
        }
        for (int64_t i = 0; i < n; i++) {
            int code[NESTED_EACH];
            for (int v = 0; v < NESTED_EACH; v++)
                code[v] = src[v] ? coded_code(type, src[v], i) : 0;
            nested_put_codes(type, code, lane, lo + i, block);
        }
    }
}

#endif
