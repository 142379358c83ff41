/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of a row's entries as a number: the upper half falls as the entry rises, the lower half
 * is its id. So the best have the smallest, and no two are equal.
 */
#ifndef KERNELS_CUDA_RANK_CUH
#define KERNELS_CUDA_RANK_CUH

#include "kernels/cuda/cuda.cuh"

/* NaN and -infinity are never entered. */
static __device__ __forceinline__ bool is_entry(float x)
{
    return x > -INFINITY;
}

static __device__ __forceinline__ uint64_t rank_of(float x, uint32_t id)
{
    uint32_t u = __float_as_uint(x + 0.0f); /* there is one zero */
    uint32_t rising = u & 0x80000000u ? ~u : u | 0x80000000u;
    return (uint64_t)~rising << 32 | id;
}

static __device__ __forceinline__ float rank_value(uint64_t rank)
{
    uint32_t rising = ~(uint32_t)(rank >> 32);
    return __uint_as_float(rising & 0x80000000u ? rising ^ 0x80000000u : ~rising);
}

#endif
