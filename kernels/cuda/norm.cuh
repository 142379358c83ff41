/* SPDX-License-Identifier: Apache-2.0
 *
 * The scale of a run of numbers, for the kernels that normalise one: one order of its sum.
 */
#ifndef KERNELS_CUDA_NORM_CUH
#define KERNELS_CUDA_NORM_CUH

#include "kernels/cuda/cuda.cuh"

static __device__ __forceinline__ float rstd_of(float sum_sq, int64_t d, float eps)
{
    return 1 / sqrtf(sum_sq / (float)d + eps);
}

/* 1 / rms of x[d], for all threads of a block of ROW_THREADS; shared as in block_sum. */
static __device__ __forceinline__ float run_rstd(const float *x, int64_t d, float eps,
                                                 float *shared)
{
    float sq = 0;
    for (int64_t j = threadIdx.x; j < d; j += ROW_THREADS)
        sq = fmaf(x[j], x[j], sq);
    return rstd_of(block_sum(sq, shared), d, eps);
}

#endif
