/* SPDX-License-Identifier: Apache-2.0
 *
 * A number of a packed weight, for kernels that want one here and there (kernels/cuda/layout.h has
 * the order), and codes.
 */
#ifndef KERNELS_CUDA_WEIGHT_CUH
#define KERNELS_CUDA_WEIGHT_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/nested.h"

/* Whether groups are K_INT8_GROUP inputs and scales f32. */
CODED_INLINE constexpr bool has_wide_groups(int type)
{
    return type == K_INT8 || type == K_INT8C || type == K_FP8;
}

/* coded_is_four, as a constant. */
CODED_INLINE constexpr bool has_four_bits(int type)
{
    return type == K_INT4 || type == K_MXFP4;
}

static __device__ __forceinline__ float int8_value(uint8_t byte)
{
    float mag = (float)(byte & 0x7f);
    return byte & 0x80 ? -mag : mag;
}

/* Number `at` of a weight whose rows are f32, in its own format: read, and put. */
static __device__ __forceinline__ float weight_plain(enum k_type type, const void *data, int64_t at)
{
    if (type == K_F16)
        return f16_get(((const k_f16 *)data)[at]);
    if (type == K_NF4) /* outputs j and j + 16 share a byte */
        return coded_nf4_value(
            ((const uint8_t *)data)[at / K_NR * (K_NR / 2) + at % 16] >> at % K_NR / 16 * 4 & 15);
    return ((const float *)data)[at];
}

static __device__ __forceinline__ void weight_plain_put(enum k_type type, void *data, int64_t at,
                                                        float v)
{
    if (type == K_F16)
        ((k_f16 *)data)[at] = (k_f16)f16_bits(v);
    else
        ((float *)data)[at] = v;
}

static __device__ __forceinline__ float four_value(enum k_type type, const void *data, int64_t at)
{
    return (float)coded_four(type, ((const uint8_t *)data)[at / 2] >> at % 2 * 4 & 15);
}

/* Inputs that share a scale, of a format of codes. */
CODED_INLINE constexpr int64_t code_group(int type)
{
    return has_wide_groups(type) ? (int64_t)K_INT8_GROUP
           : type == K_INT8G     ? (int64_t)K_INT8G_GROUP
           : type == K_NF4       ? (int64_t)K_NF4_GROUP
                                 : (int64_t)K_INT4_GROUP;
}

/* TYPE: a format of codes. */
template <int TYPE>
static __device__ __forceinline__ float code_scale(const struct k_weight &w, int64_t o, int64_t i)
{
    int64_t at = cuda_scale_at(code_group(TYPE), w.k, o, i);
    return has_wide_groups(TYPE) || TYPE == K_NF4 ? ((const float *)w.scale)[at]
                                                  : f16_get(((const k_f16 *)w.scale)[at]);
}

/* The weight of a panel's output `lane` whose scales are nested, of input i of a block. */
template <int TYPE>
static __device__ __forceinline__ float nested_get(const uint8_t *block, int64_t lane, int64_t i)
{
    constexpr enum k_type type = (enum k_type)TYPE;
    return nested_value(type, block, lane, i,
                        f16_get(nested_f16(block, nested_d_at(type, i), lane)),
                        f16_get(nested_dmin(type, block, lane, i)));
}

/* The block of a panel's that has input i. */
static __device__ __forceinline__ const uint8_t *nested_block(const struct k_weight &w,
                                                              int64_t panel, int64_t i)
{
    int64_t at = panel * (w.k / K_NESTED) + i / K_NESTED;
    return (const uint8_t *)w.data + at * nested_bytes(w.type);
}

/* As it is stored: of codes what they count. `stored` is cuda_k_stored of the weight. */
static __device__ __forceinline__ float weight_stored(const struct k_weight &w, int64_t stored,
                                                      int64_t o, int64_t i)
{
    if (cuda_has_plain_rows(w.type))
        return weight_plain(w.type, w.data, cuda_f32_at(stored, o, i));
    if (w.type == K_BF16)
        return bf16_get(((const k_bf16 *)w.data)[cuda_bf16_at(stored, o, i)]);
    if (coded_is_four(w.type))
        return four_value(w.type, w.data, cuda_int4_at(stored, o, i));
    uint8_t byte = ((const uint8_t *)w.data)[cuda_int8_at(stored, o, i)];
    return coded_is_wide(w.type) ? coded_wide_value(w.type, byte) : int8_value(byte);
}

static __device__ __forceinline__ float weight_get(const struct k_weight &w, int64_t stored,
                                                   int64_t o, int64_t i)
{
    if (w.type == K_INT4K)
        return nested_get<K_INT4K>(nested_block(w, o / K_NR, i), o % K_NR, i % K_NESTED);
    if (w.type == K_INT5K)
        return nested_get<K_INT5K>(nested_block(w, o / K_NR, i), o % K_NR, i % K_NESTED);
    if (w.type == K_INT6K)
        return nested_get<K_INT6K>(nested_block(w, o / K_NR, i), o % K_NR, i % K_NESTED);
    if (w.type == K_INT8K)
        return nested_get<K_INT8K>(nested_block(w, o / K_NR, i), o % K_NR, i % K_NESTED);
    float v = weight_stored(w, stored, o, i);
    if (has_wide_groups(w.type))
        return v * code_scale<K_INT8>(w, o, i);
    if (w.type == K_INT8G)
        return v * code_scale<K_INT8G>(w, o, i);
    if (w.type == K_NF4)
        return v * code_scale<K_NF4>(w, o, i);
    return coded_is_four(w.type) ? v * code_scale<K_INT4>(w, o, i) : v;
}

#endif
