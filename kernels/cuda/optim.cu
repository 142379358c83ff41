/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW, over flat arrays and over a packed weight, and the sum of squares. Every step of AdamW is
 * one rounding in f32, in the reference's order and never fused, so the bits are the reference's.
 */
#include "kernels/cuda/rows.cuh"
#include "kernels/halves.h"
#include "kernels/moments.h"
#include "kernels/optim.h"

struct adamw_args {
    struct k_adamw k;
    struct adamw_const c;
};

/* The new value of number i, which was p. */
static __device__ __forceinline__ float stepped(const struct k_adamw &a,
                                                const struct adamw_const &c, int64_t i, float p)
{
    float g = a.g[i] * c.g_scale;
    float m = a.m[i] + (g - a.m[i]) * c.m_in;
    float v = a.v[i] * c.v_keep + c.v_in * g * g;
    float denom = sqrtf(v) / c.root + c.eps;
    a.m[i] = m;
    a.v[i] = v;
    return p * c.keep - c.step * m / denom;
}

static __global__ void adamw_kernel(struct adamw_args p)
{
    const struct k_adamw &a = p.k;
    int64_t step = (int64_t)gridDim.x * ROW_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < a.n; i += step)
        a.p[i] = stepped(a, p.c, i, a.p[i]);
}

int adamw_cuda(const void *args, void *stream)
{
    const struct k_adamw *a = (const struct k_adamw *)args;
    struct adamw_args p = {*a, adamw_const(a)};
    return launch(adamw_kernel, dim3((unsigned)least(ceil_div(a->n, ROW_THREADS), 1 << 14)),
                  dim3(ROW_THREADS), 0, stream, p);
}

struct adamw_weight_args {
    struct k_adamw_weight k;
    struct adamw_const c;
};

static __global__ void adamw_weight_kernel(struct adamw_weight_args p)
{
    const struct k_weight &w = p.k.w;
    int64_t stored = cuda_k_stored(w.type, w.k);
    for (int64_t o = each_row(); o < w.n; o += each_rows()) {
        for (int64_t i = each_col(); i < each_end(w.k); i += EACH_X) {
            int64_t at = o * w.k + i, packed = cuda_weight_at(w.type, stored, o, i);
            if (w.type == K_F32) {
                float *x = (float *)w.data + packed;
                *x = stepped(p.k.a, p.c, at, *x);
                continue;
            }
            k_bf16 *high = (k_bf16 *)w.data + packed;
            float x = __uint_as_float(halves_join(*high, p.k.low[at]));
            uint32_t u = halves_fit(__float_as_uint(stepped(p.k.a, p.c, at, x)));
            *high = (k_bf16)bf16_bits(__uint_as_float(u));
            p.k.low[at] = (uint16_t)u;
        }
    }
}

int adamw_weight_cuda(const void *args, void *stream)
{
    const struct k_adamw_weight *a = (const struct k_adamw_weight *)args;
    struct adamw_weight_args p = {*a, adamw_const(&a->a)};
    return launch_each(adamw_weight_kernel, a->w.n, a->w.k, stream, p);
}

static __global__ void moments_unpack_kernel(struct k_moments a)
{
    int64_t step = (int64_t)gridDim.x * ROW_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < a.n; i += step)
        a.x[i] = moment_value(a.code[i], a.power[i / K_MOMENT], a.is_second);
}

int moments_unpack_cuda(const void *args, void *stream)
{
    const struct k_moments *a = (const struct k_moments *)args;
    return launch(moments_unpack_kernel,
                  dim3((unsigned)least(ceil_div(a->n, ROW_THREADS), 1 << 14)), dim3(ROW_THREADS), 0,
                  stream, *a);
}

/* A warp for a block of moments. */
static __global__ void moments_pack_kernel(struct k_moments a)
{
    int64_t n_block = ceil_div(a.n, K_MOMENT),
            step = (int64_t)gridDim.x * (ROW_THREADS / FULL_WARP);
    for (int64_t b = (int64_t)blockIdx.x * (ROW_THREADS / FULL_WARP) + warp_id(); b < n_block;
         b += step) {
        int64_t lo = b * K_MOMENT, hi = least(lo + K_MOMENT, a.n);
        float most = 0;
        for (int64_t i = lo + lane_id(); i < hi; i += FULL_WARP)
            most = fmaxf(most, fabsf(a.x[i]));
        uint8_t power = moment_power(warp_max(most));
        for (int64_t i = lo + lane_id(); i < hi; i += FULL_WARP)
            a.code[i] = moment_code(a.x[i], power, a.is_second, moment_draw(a.seed, a.first + i));
        if (lane_id() == 0)
            a.power[b] = power;
    }
}

int moments_pack_cuda(const void *args, void *stream)
{
    const struct k_moments *a = (const struct k_moments *)args;
    return launch(
        moments_pack_kernel,
        dim3((unsigned)least(ceil_div(a->n, K_MOMENT * (ROW_THREADS / FULL_WARP)), 1 << 14)),
        dim3(ROW_THREADS), 0, stream, *a);
}

static __global__ void sum_sq_kernel(struct k_sum_sq a)
{
    int64_t lo = (int64_t)blockIdx.x * K_SUM_CHUNK, hi = least(lo + K_SUM_CHUNK, a.n);
    double sum = 0;
    for (int64_t i = lo + threadIdx.x; i < hi; i += ROW_THREADS)
        sum += (double)a.x[i] * a.x[i];
    sum = block_sum(sum, (double *)shared_memory());
    if (threadIdx.x == 0)
        a.part[blockIdx.x] = sum;
}

int sum_sq_cuda(const void *args, void *stream)
{
    const struct k_sum_sq *a = (const struct k_sum_sq *)args;
    return launch_rows(sum_sq_kernel, ceil_div(a->n, K_SUM_CHUNK), stream, *a);
}
