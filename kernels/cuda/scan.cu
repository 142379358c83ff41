/* SPDX-License-Identifier: Apache-2.0
 *
 * The rates of a state-space scan and what comes back to them, a block of threads for a row; the
 * rows between are delta's.
 */
#include "kernels/cuda/delta.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/delta.h"

static __device__ __forceinline__ float scan_input(const struct k_scan_rates &a, int64_t t, int h)
{
    return a.dt[t * a.ld_dt + h] + a.dt_bias[h];
}

static __device__ __forceinline__ float scan_bound(const struct k_scan_rates &a, float step)
{
    return fminf(a.hi, fmaxf(a.lo, step));
}

static __global__ void scan_rates_kernel(struct k_scan_rates a)
{
    int64_t t = blockIdx.x;
    float *decay = a.rate + t * delta_rate_cols(a.n_k, a.n_v), *beta = decay + a.n_v;
    for (int h = threadIdx.x; h < a.n_v; h += ROW_THREADS) {
        float step = scan_bound(a, delta_softplus(scan_input(a, t, h)));
        decay[h] = expf(-expf(a.a_log[h]) * step);
        beta[h] = step;
    }
    for (int i = threadIdx.x; i < 2 * a.n_k; i += ROW_THREADS)
        beta[a.n_v + i] = 1;
}

int scan_rates_cuda(const void *args, void *stream)
{
    const struct k_scan_rates *a = (const struct k_scan_rates *)args;
    return launch_rows(scan_rates_kernel, a->m, stream, *a);
}

/* ---- back ---- */

/* A step at a bound has no slope beyond it. */
static __device__ __forceinline__ void head_bwd(const struct k_scan_rates_bwd &g, int64_t t, int h)
{
    const struct k_scan_rates &a = g.fwd;
    struct delta_rate_grad d = delta_rate_grad_of(g.part, a.n_v, g.d_k, t, h);
    float x = scan_input(a, t, h), step = delta_softplus(x), down = -d.g * expf(a.a_log[h]);
    bool is_within = step >= a.lo && step <= a.hi;
    if (g.ddt)
        g.ddt[t * g.ld_ddt + h] = is_within ? (d.beta + down) / (1 + expf(-x)) : 0;
    if (g.da_log)
        g.da_log[t * a.n_v + h] = down * scan_bound(a, step);
}

/* Of a head, by a warp. */
static __device__ __forceinline__ void skip_bwd(const struct k_scan_rates_bwd &g, int64_t t, int h)
{
    const float *v = g.v + t * g.ld_v + (int64_t)h * g.d_v;
    const float *dy = g.dy + t * g.ld_dy + (int64_t)h * g.d_v;
    float sum = 0;
    for (int j = lane_id(); j < g.d_v; j += FULL_WARP)
        sum = fmaf(v[j], dy[j], sum);
    sum = warp_sum(sum);
    if (lane_id() == 0 && g.dskip)
        g.dskip[t * g.fwd.n_v + h] = sum;
}

static __global__ void scan_rates_bwd_kernel(struct k_scan_rates_bwd g)
{
    const struct k_scan_rates &a = g.fwd;
    int64_t t = blockIdx.x;
    for (int h = (int)threadIdx.x; h < a.n_v; h += ROW_THREADS)
        head_bwd(g, t, h);
    for (int h = warp_id(); h < a.n_v; h += ROW_THREADS / FULL_WARP)
        skip_bwd(g, t, h);
    for (int at = (int)threadIdx.x; at < a.n_k * g.d_k; at += ROW_THREADS) {
        struct delta_key_parts p = delta_key_parts_of(g.part, a.n_k, a.n_v, g.d_k, t, at / g.d_k);
        if (g.dq)
            g.dq[t * g.ld_dq + at] = delta_part_sum(p, at % g.d_k);
        if (g.dk)
            g.dk[t * g.ld_dk + at] = delta_part_sum(p, g.d_k + at % g.d_k);
    }
}

int scan_rates_bwd_cuda(const void *args, void *stream)
{
    const struct k_scan_rates_bwd *g = (const struct k_scan_rates_bwd *)args;
    return launch_rows(scan_rates_bwd_kernel, g->fwd.m, stream, *g);
}
