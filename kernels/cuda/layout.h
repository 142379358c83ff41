/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a number stands in what the GPU's kernels alone read: packed weights, packed rows, K/V
 * cells. The sizes are those of kernels/linear.h and kernels/attention.h, byte for byte; the order
 * within is the GPU's own. Host code that packs for the GPU, or reads what was packed, asks here.
 *
 * A bf16 weight is strips of 8 outputs, and a strip is blocks of 8 inputs: [8 outputs][8 inputs],
 * 128 bytes that stand together, so that a lane reads 16 bytes of one output, a warp 4 blocks of a
 * strip in one run, and ldmatrix turns a block for the products that run over outputs. int8: the
 * same with 16 inputs to a block; of each 4 codes the middle two change places, so that one mask
 * leaves a pair; a code is its sign and its magnitude, as elsewhere; int8g alike. The last block of
 * a strip is as wide as what is left. int4: blocks of 128 inputs, four groups, of which lane t of
 * four reads 16 bytes: inputs 8t to 8t + 7 of each group, a word for each; in a word the even
 * inputs come first, so that one mask leaves a pair. In a last block that is narrower codes stand
 * in a row; mxfp4 alike. Scales stand as they do elsewhere, and so do weights of f32, f16, nf4 and
 * nested scales.
 *
 * Packed rows are rows: [m][k], k even for bf16. K/V cells are tokens: [32][d], of codes with a
 * scale for each of the 32 behind them.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_CUDA_LAYOUT_H
#define KERNELS_CUDA_LAYOUT_H

#include "kernels/types.h"

#ifdef __CUDACC__
#define CUDA_LAYOUT static __host__ __device__ inline
#else
#define CUDA_LAYOUT static inline
#endif

enum { CUDA_STRIP = 8, CUDA_BLOCK_BF16 = 8, CUDA_BLOCK_INT8 = 16, CUDA_BLOCK_INT4 = 128 };

CUDA_LAYOUT int64_t cuda_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whether a format's rows are f32. */
CUDA_LAYOUT bool cuda_has_plain_rows(enum k_type type)
{
    switch (type) {
#define FORMAT(name, ID, rows, ROWS, ...)                                                          \
    case K_##ID:                                                                                   \
        return K_##ROWS == K_F32;
#include "kernels/format.def"
#undef FORMAT
    default:
        return false;
    }
}

/* Inputs as stored: even, but for formats whose rows are f32. */
CUDA_LAYOUT int64_t cuda_k_stored(enum k_type type, int64_t k)
{
    return cuda_has_plain_rows(type) ? k : k + k % 2;
}

/* Output o, input i of a bf16 weight whose strips have `stored` inputs: an index of elements. */
CUDA_LAYOUT int64_t cuda_bf16_at(int64_t stored, int64_t o, int64_t i)
{
    int64_t block = i / CUDA_BLOCK_BF16 * CUDA_BLOCK_BF16;
    int64_t w = cuda_least(stored - block, CUDA_BLOCK_BF16);
    return (o / CUDA_STRIP * stored + block) * CUDA_STRIP + o % CUDA_STRIP * w + (i - block);
}

/* The same of an int8 weight. */
CUDA_LAYOUT int64_t cuda_int8_at(int64_t stored, int64_t o, int64_t i)
{
    int64_t block = i / CUDA_BLOCK_INT8 * CUDA_BLOCK_INT8;
    int64_t w = cuda_least(stored - block, CUDA_BLOCK_INT8), in = i - block;
    if (in / 4 * 4 + 4 <= w) /* whole fours: 0 2 1 3 */
        in = in / 4 * 4 + (in % 4 == 1 ? 2 : in % 4 == 2 ? 1 : in % 4);
    return (o / CUDA_STRIP * stored + block) * CUDA_STRIP + o % CUDA_STRIP * w + in;
}

/* Of an int4 weight: an index of nibbles, the lower one of a byte first. */
CUDA_LAYOUT int64_t cuda_int4_at(int64_t stored, int64_t o, int64_t i)
{
    int64_t block = i / CUDA_BLOCK_INT4 * CUDA_BLOCK_INT4, in = i - block;
    int64_t at = (o / CUDA_STRIP * stored + block) * CUDA_STRIP;
    if (stored - block < CUDA_BLOCK_INT4)
        return at + o % CUDA_STRIP * (stored - block) + in;
    int64_t lane = in % K_INT4_GROUP / 8, word = in / K_INT4_GROUP;
    return at + (lane * CUDA_STRIP + o % CUDA_STRIP) * 32 + word * 8 + in % 8 / 2 + in % 2 * 4;
}

/* And of one whose rows are f32. */
CUDA_LAYOUT int64_t cuda_f32_at(int64_t stored, int64_t o, int64_t i)
{
    return o / K_NR * stored * K_NR + i * K_NR + o % K_NR;
}

CUDA_LAYOUT int64_t cuda_weight_at(enum k_type type, int64_t stored, int64_t o, int64_t i)
{
    return cuda_has_plain_rows(type)           ? cuda_f32_at(stored, o, i)
           : type == K_BF16                    ? cuda_bf16_at(stored, o, i)
           : type == K_INT4 || type == K_MXFP4 ? cuda_int4_at(stored, o, i)
                                               : cuda_int8_at(stored, o, i);
}

/* The scale of output o, input i; k is the weight's, as many inputs as `group` share one. */
CUDA_LAYOUT int64_t cuda_scale_at(int64_t group, int64_t k, int64_t o, int64_t i)
{
    int64_t groups = (k + group - 1) / group;
    return (o / K_NR * groups + i / group) * K_NR + o % K_NR;
}

/* Bytes of a K/V cell: k_kv_cell_bytes. */
CUDA_LAYOUT int64_t cuda_cell_bytes(enum k_type type, int32_t d)
{
    return K_CELL * (type == K_F32 ? (int64_t)d * 4 : type == K_BF16 ? (int64_t)d * 2 : d + 4LL);
}

/* Number i of a key, in elements from the start of its cell; K and V alike. */
CUDA_LAYOUT int64_t cuda_kv_at(int32_t d, int64_t key, int64_t i)
{
    return key % K_CELL * d + i;
}

#endif
