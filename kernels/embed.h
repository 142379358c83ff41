/* SPDX-License-Identifier: Apache-2.0
 *
 * Which row of a table of embeddings a token reads where the table has the first tokens alone, as
 * that of Gemma 3n's layers has: those behind are read as token 0, which its class takes for them.
 * It is the padding there, to which no gradient goes.
 *
 * Thread: any; pure.
 */
#ifndef KERNELS_EMBED_H
#define KERNELS_EMBED_H

#include <stdint.h>

#ifdef __CUDACC__
#define EMBED_FN static __host__ __device__ inline
#else
#define EMBED_FN static inline
#endif

/* known: how many tokens the whole table has; 0: any that is asked for. */
EMBED_FN int64_t embed_known(int64_t token, int64_t known)
{
    return known > 0 && token >= known ? 0 : token;
}

#endif
