/* SPDX-License-Identifier: Apache-2.0
 *
 * One score more in each sum of attention, which no value belongs to, behind the kernels that know
 * nothing of it; and its gradient. A block for a row, or for a head; its threads share the heads of
 * a row, or the rows of a head, out by turns.
 */
#include "kernels/cuda/rows.cuh"

static __global__ void attn_sink_kernel(struct k_attn_sink a)
{
    int64_t i = blockIdx.x;
    float *y = a.y + i * a.ld_y, *lse = a.lse + i * a.n_head;
    for (int64_t j = threadIdx.x; j < (int64_t)a.n_head * a.d_head; j += ROW_THREADS) {
        double old = lse[j / a.d_head], sink = a.sink[j / a.d_head];
        double most = old > sink ? old : sink, least = old > sink ? sink : old;
        y[j] *= (float)exp(old - (most + log1p(exp(least - most))));
    }
    __syncthreads();
    for (int64_t h = threadIdx.x; h < a.n_head; h += ROW_THREADS) {
        double old = lse[h], sink = a.sink[h];
        double most = old > sink ? old : sink, least = old > sink ? sink : old;
        lse[h] = (float)(most + log1p(exp(least - most)));
    }
}

int attn_sink_cuda(const void *args, void *stream)
{
    const struct k_attn_sink *a = (const struct k_attn_sink *)args;
    return launch_rows(attn_sink_kernel, a->m, stream, *a);
}

static __global__ void attn_sink_dw_kernel(struct k_attn_sink a)
{
    int64_t h = blockIdx.x;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.m; i += ROW_THREADS) {
        const float *y = a.y + i * a.ld_y + h * a.d_head, *dy = a.dy + i * a.ld_dy + h * a.d_head;
        double dot = 0;
        for (int64_t j = 0; j < a.d_head; j++)
            dot += (double)dy[j] * (double)y[j];
        sum += exp((double)a.sink[h] - (double)a.lse[i * a.n_head + h]) * dot;
    }
    sum = block_sum(sum, (double *)shared_memory());
    if (threadIdx.x == 0)
        a.dsink[h] -= (float)sum;
}

int attn_sink_dw_cuda(const void *args, void *stream)
{
    const struct k_attn_sink *a = (const struct k_attn_sink *)args;
    return launch_rows(attn_sink_dw_kernel, a->m > 0 ? a->n_head : 0, stream, *a);
}
