/* SPDX-License-Identifier: Apache-2.0
 *
 * What a short convolution keeps of its rows. A row is needed by the few that follow it alone, so a
 * cell has places for K_CONV_ROWS of its K_CELL tokens: token p lies in place p % K_CONV_ROWS, over
 * the one that lay there. A cell whose tokens all stand therefore holds its last rows, which is
 * what whoever finds it as a prefix begins from; and a sequence may be cut back by as many tokens
 * as conv_cut_most says before one that it needs is gone.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_CONV_H
#define KERNELS_CONV_H

#include "kernels/kernels.h"

#ifdef __CUDACC__
#define CONV_FN static __host__ __device__ inline
#else
#define CONV_FN static inline
#endif

CONV_FN size_t conv_row_bytes(enum k_type type, int64_t d)
{
    return (size_t)d * (type == K_BF16 ? sizeof(k_bf16) : sizeof(float));
}

/* Of one layer; whole lines. */
CONV_FN size_t conv_cell_bytes(enum k_type type, int64_t d)
{
    return (K_CONV_ROWS * conv_row_bytes(type, d) + 63) / 64 * 64;
}

/* Tokens behind a sequence's next row that may have been computed and dropped. */
CONV_FN int32_t conv_cut_most(int32_t n_tap)
{
    return K_CONV_ROWS + 1 - n_tap;
}

/* Bytes from the start of the cache to the row of token `pos` of a sequence. */
CONV_FN size_t conv_row_at(const struct k_conv *a, int64_t seq, int64_t pos)
{
    int64_t place = a->batch.cell[seq * a->batch.cell_stride + pos / K_CELL];
    return (size_t)place * conv_cell_bytes(a->cache.type, a->d) +
           (size_t)(pos % K_CONV_ROWS) * conv_row_bytes(a->cache.type, a->d);
}

/* Whether row t of the call is there when the call is done: no later one takes its place. */
CONV_FN bool conv_is_kept(const struct k_conv *a, int64_t t)
{
    int64_t pos = a->batch.pos[t], end = pos / K_CELL * K_CELL + K_CELL;
    int64_t len = a->batch.kv_len[a->batch.seq_of[t]];
    return pos + K_CONV_ROWS >= (len < end ? len : end);
}

#endif
