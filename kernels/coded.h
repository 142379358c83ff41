/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that come as codes already, as files have them: rows of blocks, each the f16 scale of
 * CODED_INPUTS inputs and then their codes. Packing moves them and rounds nothing, so the weight is
 * what the file's own formula gives, scale * code.
 *
 *   int4  16 bytes: input i in the low nibble of byte i, input i + 16 in the high one, 8 more than
 *         what it counts (GGUF calls the block Q4_0)
 *   mxfp4 16 bytes in the same places, each e2m1: a sign and twice the number's size is one of
 *         0 1 2 3 4 6 8 12
 *   int8g 32 bytes: signed, -127 to 127 (Q8_0; what could be -128 there is refused by who reads it)
 *
 * Those of nested scales (kernels/nested.h) are blocks of K_NESTED inputs, each d and dmin in f16,
 * the scales, the mins, and then
 *
 *   int4k 64 bytes: of each 64 inputs 32 bytes, in whose low nibbles are the first of them
 *   int5k 128 bytes
 *   int6k 128 bytes: 32 more than what it counts; it has no dmin and no mins
 *
 * Smaller blocks, of CODED_INPUTS, are those of
 *
 *   int8k 32 bytes: signed, behind d, dmin, two scales and two mins
 *
 * Two have a scale in f32, and K_NESTED inputs to a block:
 *
 *   int8c 128 bytes: signed, -128 to 127
 *   fp8   128 bytes: e4m3, sign, four bits of exponent, three more; never its NaN, 0x7f
 *
 * And one has it in f32 and K_NF4_GROUP inputs:
 *
 *   nf4   32 bytes: input i in the low nibble of byte i, input i + 32 in the high one, each a place
 *         in bitsandbytes' table of f32
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_CODED_H
#define KERNELS_CODED_H

#include "kernels/kernels.h"

#ifdef __CUDACC__
#define CODED_INLINE static __host__ __device__ inline
#else
#define CODED_INLINE static inline
#endif

enum {
    CODED_INPUTS = K_INT4_GROUP,
    CODED_SCALE_BYTES = 2,
    CODED_INT4_BYTES = CODED_SCALE_BYTES + CODED_INPUTS / 2,
    CODED_INT8G_BYTES = CODED_SCALE_BYTES + CODED_INPUTS,
    CODED_INT4K_HEAD = 4 + 4 + 4, /* what stands before the codes */
    CODED_INT4K_BYTES = CODED_INT4K_HEAD + K_NESTED / 2,
    CODED_INT5K_HEAD = CODED_INT4K_HEAD,
    CODED_INT5K_BYTES = CODED_INT5K_HEAD + K_NESTED,
    CODED_INT6K_HEAD = 2 + 8,
    CODED_INT6K_BYTES = CODED_INT6K_HEAD + K_NESTED,
    CODED_INT8K_HEAD = 4 + 2 + 2,
    CODED_INT8K_BYTES = CODED_INT8K_HEAD + CODED_INPUTS,
    CODED_WIDE_SCALE_BYTES = 4,
    CODED_WIDE_BYTES = CODED_WIDE_SCALE_BYTES + K_INT8C_GROUP,
    CODED_NF4_BYTES = CODED_WIDE_SCALE_BYTES + K_NF4_GROUP / 2,
    CODED_BYTES_MAX = CODED_INT5K_BYTES
};

/* Whether a block is a scale in f32 and a byte for each of 128 inputs. */
CODED_INLINE bool coded_is_wide(enum k_type type)
{
    return type == K_INT8C || type == K_FP8;
}

/* Whether codes are four bits that stand where those of int4 do, in files and in panels. */
CODED_INLINE bool coded_is_four(enum k_type type)
{
    return type == K_INT4 || type == K_MXFP4;
}

/* Whether blocks of the format's codes can be a source. */
CODED_INLINE bool coded_has(enum k_type type)
{
    return coded_is_four(type) || type == K_INT8G || type == K_INT4K || type == K_INT6K ||
           type == K_INT5K || type == K_INT8K || type == K_NF4 || coded_is_wide(type);
}

/* Inputs of a block. */
CODED_INLINE int64_t coded_inputs(enum k_type type)
{
    return coded_is_four(type) || type == K_INT8G || type == K_INT8K ? (int)CODED_INPUTS
           : type == K_NF4                                           ? (int)K_NF4_GROUP
                                                                     : (int)K_NESTED;
}

/* Bytes of n inputs, which are whole blocks. */
CODED_INLINE int64_t coded_bytes(enum k_type type, int64_t n)
{
    return n / coded_inputs(type) *
           (coded_is_four(type)   ? CODED_INT4_BYTES
            : type == K_INT8G     ? CODED_INT8G_BYTES
            : type == K_NF4       ? CODED_NF4_BYTES
            : type == K_INT4K     ? CODED_INT4K_BYTES
            : type == K_INT5K     ? CODED_INT5K_BYTES
            : type == K_INT8K     ? CODED_INT8K_BYTES
            : coded_is_wide(type) ? CODED_WIDE_BYTES
                                  : CODED_INT6K_BYTES);
}

/* The block of output o of a source whose first input is i. */
CODED_INLINE const uint8_t *coded_block(const struct k_weight_pack *a, int64_t o, int64_t i)
{
    return (const uint8_t *)a->src + o * coded_bytes(a->src_type, a->ld_src) +
           coded_bytes(a->src_type, i);
}

CODED_INLINE k_f16 coded_scale(const uint8_t *block)
{
    return (k_f16)(block[0] | block[1] << 8);
}

/* Of a wide one. */
CODED_INLINE float coded_wide_scale(const uint8_t *block)
{
    uint32_t bits =
        block[0] | (uint32_t)block[1] << 8 | (uint32_t)block[2] << 16 | (uint32_t)block[3] << 24;
    union {
        uint32_t bits;
        float f;
    } u = {bits};
    return u.f;
}

/* Input i of a wide block as it is stored: int8c by sign and magnitude, of which -0 is -128. */
CODED_INLINE uint8_t coded_wide_stored(enum k_type type, const uint8_t *block, int64_t i)
{
    int code = (int8_t)block[CODED_WIDE_SCALE_BYTES + i];
    if (type == K_FP8)
        return block[CODED_WIDE_SCALE_BYTES + i];
    return (uint8_t)(code < 0 ? 0x80 | -code : code);
}

/* What such a byte counts. */
CODED_INLINE float coded_wide_value(enum k_type type, uint8_t byte)
{
    int size = byte & 0x7f, exponent = size >> 3;
    float v = (float)size;
    if (type == K_FP8)
        v = (float)(exponent ? (8 + size % 8) << exponent : size << 1) / 1024;
    else if (byte == 0x80)
        v = 128;
    return byte & 0x80 ? -v : v;
}

/* Input i of a block of four bits, as it is stored. */
CODED_INLINE int coded_nibble(const uint8_t *block, int64_t i)
{
    return block[CODED_SCALE_BYTES + i % 16] >> i / 16 * 4 & 15;
}

/* What such a nibble counts. */
CODED_INLINE int coded_four(enum k_type type, int nibble)
{
    int size = nibble & 7, twice = size < 4 ? size : size < 6 ? 2 * size - 4 : 4 * size - 16;
    if (type == K_INT4)
        return nibble - 8;
    return nibble & 8 ? -twice : twice;
}

/* Of nf4. */
CODED_INLINE int coded_nf4_nibble(const uint8_t *block, int64_t i)
{
    return block[CODED_WIDE_SCALE_BYTES + i % 32] >> i / 32 * 4 & 15;
}

#define CODED_NF4_TABLE                                                                            \
    {                                                                                              \
        -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,                  \
            -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,             \
            0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,                      \
            0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f,  \
            1.0f                                                                                   \
    }

enum { CODED_NF4_ZERO = 7 }; /* the table's zero */

CODED_INLINE float coded_nf4_value(int nibble)
{
    static const float table[16] = CODED_NF4_TABLE;
    return table[nibble];
}

/* What input i of a block counts. */
CODED_INLINE int coded_code(enum k_type type, const uint8_t *block, int64_t i)
{
    if (type == K_INT8G)
        return (int8_t)block[CODED_SCALE_BYTES + i];
    if (type == K_INT4K)
        return block[CODED_INT4K_HEAD + i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
    if (type == K_INT5K)
        return block[CODED_INT5K_HEAD + i];
    if (type == K_INT6K)
        return block[CODED_INT6K_HEAD + i] - 32;
    if (type == K_INT8K)
        return (int8_t)block[CODED_INT8K_HEAD + i];
    return coded_four(type, coded_nibble(block, i));
}

#endif
