/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW and the sum of squares over flat arrays. Every step of AdamW is one rounding in f32, in the
 * reference's order and never fused, so the bits are the reference's.
 */
#include "kernels/cuda/rows.cuh"
#include "kernels/optim.h"

struct adamw_args {
    struct k_adamw k;
    struct adamw_const c;
};

static __global__ void adamw_kernel(struct adamw_args p)
{
    const struct k_adamw &a = p.k;
    const struct adamw_const &c = p.c;
    int64_t step = (int64_t)gridDim.x * ROW_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x; i < a.n; i += step) {
        float g = a.g[i] * c.g_scale;
        float m = a.m[i] + (g - a.m[i]) * c.m_in;
        float v = a.v[i] * c.v_keep + c.v_in * g * g;
        float denom = sqrtf(v) / c.root + c.eps;
        a.p[i] = a.p[i] * c.keep - c.step * m / denom;
        a.m[i] = m;
        a.v[i] = v;
    }
}

int adamw_cuda(const void *args, void *stream)
{
    const struct k_adamw *a = (const struct k_adamw *)args;
    struct adamw_args p = {*a, adamw_const(a)};
    return launch(adamw_kernel, dim3((unsigned)least(ceil_div(a->n, ROW_THREADS), 1 << 14)),
                  dim3(ROW_THREADS), 0, stream, p);
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
