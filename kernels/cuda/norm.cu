/* SPDX-License-Identifier: Apache-2.0
 *
 * The norms and their gradients. A block has a run of d numbers; it is read once from memory and
 * then from the cache. x + residual rounds first, as `add` would have rounded it. Gradients of
 * weights are sums over rows, in f64, by columns.
 */
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/rows.cuh"

/* Where run i begins: a row is n_head runs of d (0 reads as 1). */
static __device__ __forceinline__ int64_t run_at(int64_t i, int64_t n_head, int64_t ld, int64_t d)
{
    return n_head > 1 ? i / n_head * ld + i % n_head * d : i * ld;
}

static int64_t run_count(int64_t m, int64_t n_head)
{
    return n_head > 1 ? m * n_head : m;
}

/* The run that is normalised: x itself, or the sum, each thread's numbers written by that thread,
 * which alone reads them. */
static __device__ const float *run_get(const struct k_norm &a, int64_t i)
{
    const float *x = a.x + run_at(i, a.n_head, a.ld_x, a.d);
    if (!a.residual)
        return x;
    const float *r = a.residual + run_at(i, a.n_head, a.ld_residual, a.d);
    float *sum = a.sum + run_at(i, a.n_head, a.ld_sum, a.d);
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        sum[j] = x[j] + r[j];
    return sum;
}

static __device__ __forceinline__ float weight_at(const float *weight, int64_t j, bool plus_one)
{
    if (!weight)
        return 1;
    return plus_one ? 1 + weight[j] : weight[j];
}

static __global__ void rmsnorm_kernel(struct k_norm a)
{
    int64_t i = blockIdx.x;
    const float *x = run_get(a, i);
    float *y = a.y + run_at(i, a.n_head, a.ld_y, a.d);
    float rstd = run_rstd(x, a.d, a.eps, (float *)shared_memory());
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        y[j] = x[j] * rstd * weight_at(a.weight, j, a.plus_one);
    if (a.stat && threadIdx.x == 0)
        a.stat[i] = rstd;
}

int rmsnorm_cuda(const void *args, void *stream)
{
    const struct k_norm *a = (const struct k_norm *)args;
    return a->d > 0 ? launch_rows(rmsnorm_kernel, run_count(a->m, a->n_head), stream, *a) : 0;
}

static __global__ void layernorm_kernel(struct k_norm a)
{
    int64_t i = blockIdx.x;
    const float *x = run_get(a, i);
    float *y = a.y + run_at(i, a.n_head, a.ld_y, a.d), *shared = (float *)shared_memory();
    float sum = 0, sq = 0;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        sum += x[j];
    float mean = block_sum(sum, shared) / (float)a.d;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        sq = fmaf(x[j] - mean, x[j] - mean, sq);
    float rstd = rstd_of(block_sum(sq, shared), a.d, a.eps);
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        y[j] = (x[j] - mean) * rstd * a.weight[j] + (a.bias ? a.bias[j] : 0.0f);
    if (a.stat && threadIdx.x == 0) {
        a.stat[2 * i] = mean;
        a.stat[2 * i + 1] = rstd;
    }
}

int layernorm_cuda(const void *args, void *stream)
{
    const struct k_norm *a = (const struct k_norm *)args;
    return a->d > 0 ? launch_rows(layernorm_kernel, run_count(a->m, a->n_head), stream, *a) : 0;
}

/* ---- gradients of rows ---- */

/* dx = rstd (g - xhat mean(g xhat)), g = weight dy, xhat = x rstd */
static __global__ void rmsnorm_bwd_kernel(struct k_norm_bwd a)
{
    int64_t i = blockIdx.x;
    const float *x = a.x + run_at(i, a.n_head, a.ld_x, a.d);
    const float *dy = a.dy + run_at(i, a.n_head, a.ld_dy, a.d);
    float *dx = a.dx + run_at(i, a.n_head, a.ld_dx, a.d), rstd = a.stat[i], dot = 0;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        dot = fmaf(weight_at(a.weight, j, a.plus_one) * dy[j], x[j] * rstd, dot);
    dot = block_sum(dot, (float *)shared_memory()) / (float)a.d;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS) {
        float v = rstd * (weight_at(a.weight, j, a.plus_one) * dy[j] - x[j] * rstd * dot);
        dx[j] = a.add ? dx[j] + v : v;
    }
}

int rmsnorm_bwd_cuda(const void *args, void *stream)
{
    const struct k_norm_bwd *a = (const struct k_norm_bwd *)args;
    return a->d > 0 ? launch_rows(rmsnorm_bwd_kernel, run_count(a->m, a->n_head), stream, *a) : 0;
}

/* dx = rstd (g - mean(g) - xhat mean(g xhat)), xhat = (x - mean) rstd */
static __global__ void layernorm_bwd_kernel(struct k_norm_bwd a)
{
    int64_t i = blockIdx.x;
    const float *x = a.x + run_at(i, a.n_head, a.ld_x, a.d);
    const float *dy = a.dy + run_at(i, a.n_head, a.ld_dy, a.d);
    float *dx = a.dx + run_at(i, a.n_head, a.ld_dx, a.d), *shared = (float *)shared_memory();
    float mean = a.stat[2 * i], rstd = a.stat[2 * i + 1], sum = 0, dot = 0;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS) {
        float g = a.weight[j] * dy[j];
        sum += g;
        dot = fmaf(g, (x[j] - mean) * rstd, dot);
    }
    sum = block_sum(sum, shared) / (float)a.d;
    dot = block_sum(dot, shared) / (float)a.d;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS) {
        float v = rstd * (a.weight[j] * dy[j] - sum - (x[j] - mean) * rstd * dot);
        dx[j] = a.add ? dx[j] + v : v;
    }
}

int layernorm_bwd_cuda(const void *args, void *stream)
{
    const struct k_norm_bwd *a = (const struct k_norm_bwd *)args;
    return a->d > 0 ? launch_rows(layernorm_bwd_kernel, run_count(a->m, a->n_head), stream, *a) : 0;
}

/* ---- gradients of weights ---- */

struct norm_dw_args {
    struct k_norm_bwd k;
    int64_t n_run;
};

static __global__ void rmsnorm_dw_kernel(struct norm_dw_args p)
{
    const struct k_norm_bwd &a = p.k;
    int64_t j = cols_at();
    double sum = 0;
    for (int64_t i = cols_lane(); i < p.n_run && j < a.d; i += COLS_Y)
        sum += (double)a.dy[run_at(i, a.n_head, a.ld_dy, a.d) + j] *
               a.x[run_at(i, a.n_head, a.ld_x, a.d) + j] * a.stat[i];
    sum = cols_sum(sum);
    if (cols_lane() == 0 && j < a.d)
        a.dweight[j] = (float)(a.dweight[j] + sum);
}

int rmsnorm_dw_cuda(const void *args, void *stream)
{
    const struct k_norm_bwd *a = (const struct k_norm_bwd *)args;
    struct norm_dw_args p = {*a, run_count(a->m, a->n_head)};
    return launch_cols(rmsnorm_dw_kernel, a->m > 0 ? a->d : 0, 1, stream, p);
}

static __global__ void layernorm_dw_kernel(struct norm_dw_args p)
{
    const struct k_norm_bwd &a = p.k;
    int64_t j = cols_at();
    double sum = 0, sum_dy = 0;
    for (int64_t i = cols_lane(); i < p.n_run && j < a.d; i += COLS_Y) {
        double dy = a.dy[run_at(i, a.n_head, a.ld_dy, a.d) + j];
        double x = a.x[run_at(i, a.n_head, a.ld_x, a.d) + j];
        sum += dy * (x - a.stat[2 * i]) * a.stat[2 * i + 1];
        sum_dy += dy;
    }
    sum = cols_sum(sum);
    sum_dy = cols_sum(sum_dy);
    if (cols_lane() != 0 || j >= a.d)
        return;
    if (a.dweight)
        a.dweight[j] = (float)(a.dweight[j] + sum);
    if (a.dbias)
        a.dbias[j] = (float)(a.dbias[j] + sum_dy);
}

int layernorm_dw_cuda(const void *args, void *stream)
{
    const struct k_norm_bwd *a = (const struct k_norm_bwd *)args;
    struct norm_dw_args p = {*a, run_count(a->m, a->n_head)};
    return launch_cols(layernorm_dw_kernel, a->m > 0 ? a->d : 0, 1, stream, p);
}

/* ---- unit length ---- */

static __global__ void l2norm_kernel(struct k_l2norm a)
{
    int64_t i = blockIdx.x;
    const float *x = a.x + i * a.ld_x;
    float sq = 0;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        sq = fmaf(x[j], x[j], sq);
    float inv = 1 / fmaxf(sqrtf(block_sum(sq, (float *)shared_memory())), a.eps);
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        a.y[i * a.ld_y + j] = x[j] * inv;
}

int l2norm_cuda(const void *args, void *stream)
{
    const struct k_l2norm *a = (const struct k_l2norm *)args;
    return a->d > 0 ? launch_rows(l2norm_kernel, a->m, stream, *a) : 0;
}

/* dx = (dy - u (u . dy)) / |x|, u = x / |x|; below eps the forward is x / eps, a constant factor */
static __global__ void l2norm_bwd_kernel(struct k_l2norm a)
{
    int64_t i = blockIdx.x;
    const float *x = a.x + i * a.ld_x, *dy = a.dy + i * a.ld_dy;
    double sq = 0, dot = 0, *shared = (double *)shared_memory();
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS) {
        sq += (double)x[j] * x[j];
        dot += (double)x[j] * dy[j];
    }
    sq = block_sum(sq, shared);
    dot = block_sum(dot, shared);
    double norm = sqrt(sq), inv = 1 / fmax(norm, (double)a.eps);
    double along = norm > (double)a.eps ? dot * inv * inv : 0;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        a.y[i * a.ld_y + j] = (float)((dy[j] - x[j] * along) * inv);
}

int l2norm_bwd_cuda(const void *args, void *stream)
{
    const struct k_l2norm *a = (const struct k_l2norm *)args;
    return a->d > 0 ? launch_rows(l2norm_bwd_kernel, a->m, stream, *a) : 0;
}
