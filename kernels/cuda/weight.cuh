/* SPDX-License-Identifier: Apache-2.0
 *
 * A number of a packed weight, for kernels that want one here and there (kernels/cuda/layout.h has
 * the order), and the codes of int8.
 */
#ifndef KERNELS_CUDA_WEIGHT_CUH
#define KERNELS_CUDA_WEIGHT_CUH

#include "kernels/cuda/cuda.cuh"

static __device__ __forceinline__ float int8_value(uint8_t byte)
{
    float mag = (float)(byte & 0x7f);
    return byte & 0x80 ? -mag : mag;
}

/* As it is stored: for int8 the code. `stored` is cuda_k_stored of the weight. */
static __device__ __forceinline__ float weight_stored(const struct k_weight &w, int64_t stored,
                                                      int64_t o, int64_t i)
{
    if (w.type == K_F32)
        return ((const float *)w.data)[cuda_f32_at(stored, o, i)];
    if (w.type == K_BF16)
        return bf16_get(((const k_bf16 *)w.data)[cuda_bf16_at(stored, o, i)]);
    return int8_value(((const uint8_t *)w.data)[cuda_int8_at(stored, o, i)]);
}

static __device__ __forceinline__ float weight_get(const struct k_weight &w, int64_t stored,
                                                   int64_t o, int64_t i)
{
    float v = weight_stored(w, stored, o, i);
    return w.type == K_INT8 ? v * w.scale[cuda_scale_at(w.k, o, i)] : v;
}

#endif
