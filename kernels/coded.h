/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that come as codes already, as files have them: rows of blocks, each the f16 scale of
 * CODED_INPUTS inputs and then their codes. Packing moves them and rounds nothing, so the weight is
 * what the file's own formula gives, scale * code.
 *
 *   int4  16 bytes: input i in the low nibble of byte i, input i + 16 in the high one, 8 more than
 *         what it counts (GGUF calls the block Q4_0)
 *   int8g 32 bytes: signed, -127 to 127 (Q8_0; what could be -128 there is refused by who reads it)
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
    CODED_INT8G_BYTES = CODED_SCALE_BYTES + CODED_INPUTS
};

/* Whether blocks of the format's codes can be a source. */
CODED_INLINE bool coded_has(enum k_type type)
{
    return type == K_INT4 || type == K_INT8G;
}

/* Bytes of n inputs, which are whole blocks. */
CODED_INLINE int64_t coded_bytes(enum k_type type, int64_t n)
{
    return n / CODED_INPUTS * (type == K_INT4 ? CODED_INT4_BYTES : CODED_INT8G_BYTES);
}

/* The block of inputs [i, i + CODED_INPUTS) of output o of a source. */
CODED_INLINE const uint8_t *coded_block(const struct k_weight_pack *a, int64_t o, int64_t i)
{
    return (const uint8_t *)a->src + o * coded_bytes(a->src_type, a->ld_src) +
           coded_bytes(a->src_type, i);
}

CODED_INLINE k_f16 coded_scale(const uint8_t *block)
{
    return (k_f16)(block[0] | block[1] << 8);
}

/* What input i of a block counts. */
CODED_INLINE int coded_code(enum k_type type, const uint8_t *block, int64_t i)
{
    if (type == K_INT8G)
        return (int8_t)block[CODED_SCALE_BYTES + i];
    return (block[CODED_SCALE_BYTES + i % 16] >> i / 16 * 4 & 15) - 8;
}

#endif
