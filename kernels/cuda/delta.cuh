/* SPDX-License-Identifier: Apache-2.0
 *
 * What the delta rule's forward and backward share: rates of a row, its q and k of unit length,
 * and the sum of a column that DELTA_Y threads have in parts.
 */
#ifndef KERNELS_CUDA_DELTA_CUH
#define KERNELS_CUDA_DELTA_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/delta.h"

enum { DELTA_Y = 8 };

/* log(1 + e^x) */
static __device__ __forceinline__ float delta_softplus(float x)
{
    return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
}

/* g, below zero. */
static __device__ __forceinline__ float delta_log_decay(const struct k_delta_rates &a, int64_t t,
                                                        int h)
{
    return -expf(a.a_log[h]) * delta_softplus(a.a[t * a.ld_a + h] + a.dt_bias[h]);
}

/* Number i of what a key head has of its heads of values: of q, or of k from d_k on. */
static __device__ __forceinline__ float delta_part_sum(const struct delta_key_parts &p, int i)
{
    float sum = p.at[i];
    for (int64_t k = 1; k < p.n; k++)
        sum += p.at[k * p.cols + i];
    return sum;
}

/* Of a head of one row, by a warp. */
static __device__ __forceinline__ float delta_sum_sq(const float *x, int32_t d)
{
    float sum = 0;
    for (int i = lane_id(); i < d; i += FULL_WARP)
        sum = fmaf(x[i], x[i], sum);
    return warp_sum(sum) + DELTA_EPS;
}

/* q and k of row t as the unit's head sees them, by a block of so many threads, blockDim.x of them
 * in a row. */
static __device__ __forceinline__ void delta_keys(const struct k_delta &a,
                                                  const struct delta_unit &u, int64_t t,
                                                  const struct delta_rate &rate, float *q, float *k,
                                                  int n_thread)
{
    int64_t key = delta_key_head(&a, u.head) * a.d_k;
    for (int i = (int)(threadIdx.y * blockDim.x + threadIdx.x); i < a.d_k; i += n_thread) {
        q[i] = a.q[t * a.ld_q + key + i] * rate.q;
        k[i] = a.k[t * a.ld_k + key + i] * rate.k;
    }
}

/* The sum of a column over threadIdx.y, in their order, for all of them; `shared` has a number for
 * each thread and is free again when this returns. */
static __device__ __forceinline__ float delta_sum(float x, float *shared)
{
    float sum = 0;
    shared[threadIdx.y * blockDim.x + threadIdx.x] = x;
    __syncthreads();
    for (int y = 0; y < (int)blockDim.y; y++)
        sum += shared[y * blockDim.x + threadIdx.x];
    __syncthreads();
    return sum;
}

#endif
