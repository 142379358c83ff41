/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x w^T + bias. bf16, codes of a byte, int4 and mxfp4 on the tensor cores (linear.cuh); f32,
 * f16, nf4 and what has nested scales, whose rows are f32, by plain fused chains over the inputs, a
 * lane for each output of a panel, so that a panel is read as it lies.
 */
#include "kernels/cuda/linear.cuh"

#include "kernels/cuda/linear_small.cuh"
#include "kernels/cuda/linear_tile.cuh"
#include "kernels/cuda/rows.cuh"

static struct linear_args args_of(const struct k_linear *k)
{
    struct linear_args a = {};
    a.k = *k;
    a.stored = cuda_k_stored(k->w.type, k->w.k);
    a.n = k->panel_hi > k->panel_lo ? least(k->w.n, k->panel_hi * K_NR) - k->panel_lo * K_NR : 0;
    a.strip = k->panel_lo * (K_NR / CUDA_STRIP);
    a.is_aligned = a.stored % 8 == 0;
    return a;
}

template <int TYPE> static int linear(const struct k_linear *k, void *stream)
{
    struct linear_args a = args_of(k);
    if (a.n <= 0 || k->m <= 0)
        return 0;
    return k->m <= SMALL_ROWS_MAX ? linear_small<TYPE>(a, stream) : linear_tile<TYPE>(a, stream);
}

int linear_bf16_cuda(const void *args, void *stream)
{
    return linear<K_BF16>((const struct k_linear *)args, stream);
}

int linear_int8_cuda(const void *args, void *stream)
{
    return linear<K_INT8>((const struct k_linear *)args, stream);
}

int linear_int8c_cuda(const void *args, void *stream)
{
    return linear<K_INT8C>((const struct k_linear *)args, stream);
}

int linear_fp8_cuda(const void *args, void *stream)
{
    return linear<K_FP8>((const struct k_linear *)args, stream);
}

template <int TYPE> static int linear_groups(const struct k_linear *k, void *stream)
{
    struct linear_args a = args_of(k);
    return a.n > 0 && a.k.m > 0 ? linear_small<TYPE>(a, stream) : 0;
}

int linear_int8g_cuda(const void *args, void *stream)
{
    return linear_groups<K_INT8G>((const struct k_linear *)args, stream);
}

int linear_int4_cuda(const void *args, void *stream)
{
    return linear_groups<K_INT4>((const struct k_linear *)args, stream);
}

int linear_mxfp4_cuda(const void *args, void *stream)
{
    return linear_groups<K_MXFP4>((const struct k_linear *)args, stream);
}

/* ---- f32, f16, nf4 ---- */

enum { F32_WARPS = 8, F32_ROWS = 4 }; /* rows of a warp */

template <int TYPE> static __global__ void linear_plain_kernel(struct linear_args a)
{
    int64_t panel = a.k.panel_lo + blockIdx.x;
    int64_t row = ((int64_t)blockIdx.y * F32_WARPS + warp_id()) * F32_ROWS;
    int64_t first = panel * a.stored * K_NR + lane_id();
    const float *x[F32_ROWS];
    float sum[F32_ROWS] = {};
    for (int r = 0; r < F32_ROWS; r++)
        x[r] = (const float *)a.k.rows + least(row + r, a.k.m - 1) * a.stored;
    if (row >= a.k.m)
        return;
#pragma unroll 4
    for (int64_t i = 0; i < a.stored; i++) {
        float v = weight_plain((enum k_type)TYPE, a.k.w.data, first + i * K_NR);
        if (TYPE == K_NF4)
            v *= code_scale<K_NF4>(a.k.w, panel * K_NR + lane_id(), i);
#pragma unroll
        for (int r = 0; r < F32_ROWS; r++)
            sum[r] = fmaf(v, x[r][i], sum[r]);
    }
    for (int r = 0; r < F32_ROWS; r++)
        linear_store(a, row + r, (int64_t)blockIdx.x * K_NR + lane_id(), sum[r]);
}

template <int TYPE> static int linear_plain(const struct k_linear *k, void *stream)
{
    struct linear_args a = args_of(k);
    if (a.n <= 0 || a.k.m <= 0)
        return 0;
    return launch(
        linear_plain_kernel<TYPE>,
        dim3((unsigned)ceil_div(a.n, K_NR), (unsigned)ceil_div(a.k.m, F32_WARPS * F32_ROWS)),
        dim3(F32_WARPS * FULL_WARP), 0, stream, a);
}

int linear_f32_cuda(const void *args, void *stream)
{
    return linear_plain<K_F32>((const struct k_linear *)args, stream);
}

int linear_f16_cuda(const void *args, void *stream)
{
    return linear_plain<K_F16>((const struct k_linear *)args, stream);
}

int linear_nf4_cuda(const void *args, void *stream)
{
    return linear_plain<K_NF4>((const struct k_linear *)args, stream);
}

/* ---- nested scales ---- */

template <int TYPE> static __global__ void linear_nested_kernel(struct linear_args a)
{
    constexpr enum k_type type = (enum k_type)TYPE;
    int64_t row = ((int64_t)blockIdx.y * F32_WARPS + warp_id()) * F32_ROWS, lane = lane_id();
    const float *x[F32_ROWS];
    float sum[F32_ROWS] = {};
    for (int r = 0; r < F32_ROWS; r++)
        x[r] = (const float *)a.k.rows + least(row + r, a.k.m - 1) * a.stored;
    if (row >= a.k.m)
        return;
    constexpr int64_t shared = TYPE == K_INT8K ? (int)NESTED_D_GROUP : (int)K_NESTED;
    for (int64_t lo = 0; lo < a.stored; lo += shared) {
        const uint8_t *block = nested_block(a.k.w, a.k.panel_lo + blockIdx.x, lo);
        const int64_t first = lo % K_NESTED;
        float d = f16_get(nested_f16(block, nested_d_at(type, first), lane));
        float dmin = f16_get(nested_dmin(type, block, lane, first));
#pragma unroll 4
        for (int64_t i = 0; i < shared; i++) {
            float v = nested_value(type, block, lane, first + i, d, dmin);
#pragma unroll
            for (int r = 0; r < F32_ROWS; r++)
                sum[r] = fmaf(v, x[r][lo + i], sum[r]);
        }
    }
    for (int r = 0; r < F32_ROWS; r++)
        linear_store(a, row + r, (int64_t)blockIdx.x * K_NR + lane, sum[r]);
}

template <int TYPE> static int linear_nested(const struct k_linear *k, void *stream)
{
    struct linear_args a = args_of(k);
    if (a.n <= 0 || a.k.m <= 0)
        return 0;
    return launch(
        linear_nested_kernel<TYPE>,
        dim3((unsigned)ceil_div(a.n, K_NR), (unsigned)ceil_div(a.k.m, F32_WARPS * F32_ROWS)),
        dim3(F32_WARPS * FULL_WARP), 0, stream, a);
}

int linear_int4k_cuda(const void *args, void *stream)
{
    return linear_nested<K_INT4K>((const struct k_linear *)args, stream);
}

int linear_int5k_cuda(const void *args, void *stream)
{
    return linear_nested<K_INT5K>((const struct k_linear *)args, stream);
}

int linear_int6k_cuda(const void *args, void *stream)
{
    return linear_nested<K_INT6K>((const struct k_linear *)args, stream);
}

int linear_int8k_cuda(const void *args, void *stream)
{
    return linear_nested<K_INT8K>((const struct k_linear *)args, stream);
}
