/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest of a row and its place: the lowest of the largest; -1 where nothing is above
 * -infinity. NaN is never it.
 */
#ifndef KERNELS_CUDA_BEST_CUH
#define KERNELS_CUDA_BEST_CUH

#include "kernels/cuda/cuda.cuh"

struct best {
    float max;
    int32_t id;
};

static __device__ __forceinline__ struct best best_of(struct best a, struct best b)
{
    bool takes_b = b.max > a.max || (b.max == a.max && (unsigned)b.id < (unsigned)a.id);
    return takes_b ? b : a;
}

static __device__ __forceinline__ struct best warp_best(struct best b)
{
    for (int i = 16; i > 0; i /= 2) {
        struct best other = {__shfl_xor_sync(0xffffffffu, b.max, i),
                             __shfl_xor_sync(0xffffffffu, b.id, i)};
        b = best_of(b, other);
    }
    return b;
}

/* By a block of ROW_THREADS, for all of them; `shared` holds two numbers for each warp. */
static __device__ __forceinline__ struct best row_best(const float *x, int64_t n, float *shared)
{
    struct best b = {-INFINITY, -1};
    for (int64_t j = threadIdx.x; j < n; j += ROW_THREADS) {
        if (x[j] > b.max)
            b = {x[j], (int32_t)j};
    }
    b = warp_best(b);
    int32_t *id = (int32_t *)(shared + ROW_THREADS / FULL_WARP);
    if (lane_id() == 0) {
        shared[warp_id()] = b.max;
        id[warp_id()] = b.id;
    }
    __syncthreads();
    for (int i = 0; i < ROW_THREADS / FULL_WARP; i++)
        b = best_of(b, {shared[i], id[i]});
    __syncthreads();
    return b;
}

#endif
