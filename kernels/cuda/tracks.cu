/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on several tracks, and what is cut off of a row. Where sums run over a row a block has it;
 * they are f64, as the reference's.
 */
#include "kernels/cuda/rows.cuh"

static __global__ void mix_kernel(struct k_mix a)
{
    for (int64_t r = each_row(); r < a.m; r += each_rows()) {
        for (int64_t t = each_col(); t < each_end(a.d); t += EACH_X) {
            for (int32_t i = 0; i < a.n; i++) {
                float y = a.base ? a.base[r * a.ld_base + i * a.d + t] : 0;
                for (int32_t j = 0; j < a.k; j++) {
                    float c = a.c ? a.c[r * a.ld_c + i * a.step_i + j * a.step_j] : 0;
                    y = fmaf(a.plus + c, a.x[r * a.ld_x + j * a.d + t], y);
                }
                a.y[r * a.ld_y + i * a.d + t] = y;
            }
        }
    }
}

int mix_cuda(const void *args, void *stream)
{
    const struct k_mix *a = (const struct k_mix *)args;
    return launch_each(mix_kernel, a->m, a->d, stream, *a);
}

/* Of a block's row: shared as in block_sum. */
static __device__ double row_dot(const float *x, const float *y, int64_t d)
{
    double sum = 0;
    for (int64_t t = threadIdx.x; t < d; t += ROW_THREADS)
        sum += (double)x[t] * (double)y[t];
    return block_sum(sum, (double *)shared_memory());
}

static __global__ void mix_dot_kernel(struct k_mix_dot a)
{
    int64_t r = blockIdx.x;
    for (int32_t i = 0; i < a.n; i++) {
        for (int32_t j = 0; j < a.k; j++) {
            double sum = row_dot(a.a + r * a.ld_a + i * a.d, a.b + r * a.ld_b + j * a.d, a.d);
            if (threadIdx.x == 0)
                a.y[r * a.ld_y + i * a.k + j] = (float)sum;
        }
    }
}

int mix_dot_cuda(const void *args, void *stream)
{
    const struct k_mix_dot *a = (const struct k_mix_dot *)args;
    return launch_rows(mix_dot_kernel, a->m, stream, *a);
}

/* ---- as large as others ---------------------------------------------------------------------- */

static __device__ double row_rms(const float *x, int64_t d)
{
    return sqrt(row_dot(x, x, d) / (double)d);
}

static __global__ void match_kernel(struct k_match a)
{
    int64_t r = blockIdx.x;
    const float *x = a.x + r * a.ld_x;
    double size = row_rms(x, a.d), like = row_rms(a.like + r * a.ld_like, a.d);
    double f = like / (size > (double)a.least ? size : (double)a.least);
    for (int64_t t = threadIdx.x; t < a.d; t += ROW_THREADS)
        a.y[r * a.ld_y + t] = (float)(f * (double)x[t]);
}

int match_cuda(const void *args, void *stream)
{
    const struct k_match *a = (const struct k_match *)args;
    return a->d > 0 ? launch_rows(match_kernel, a->m, stream, *a) : 0;
}

static __global__ void match_bwd_kernel(struct k_match a)
{
    int64_t r = blockIdx.x;
    const float *x = a.x + r * a.ld_x, *other = a.like + r * a.ld_like, *dy = a.dy + r * a.ld_dy;
    double size = row_rms(x, a.d), like = row_rms(other, a.d), p = row_dot(dy, x, a.d);
    bool is_least = size <= (double)a.least;
    size = is_least ? (double)a.least : size;
    double back = is_least ? 0 : p / (size * size * (double)a.d);
    double of_like = like > 0 ? p / (size * like * (double)a.d) : 0;
    for (int64_t t = threadIdx.x; t < a.d; t += ROW_THREADS) {
        if (a.dx)
            a.dx[r * a.ld_dx + t] = (float)(like / size * ((double)dy[t] - back * (double)x[t]));
        if (a.dlike)
            a.dlike[r * a.ld_dlike + t] = (float)(of_like * (double)other[t]);
    }
}

int match_bwd_cuda(const void *args, void *stream)
{
    const struct k_match *a = (const struct k_match *)args;
    return a->d > 0 ? launch_rows(match_bwd_kernel, a->m, stream, *a) : 0;
}

/* ---- what is cut off ------------------------------------------------------------------------- */

struct spread {
    double mean, std;
};

static __device__ struct spread row_spread(const float *x, int64_t d)
{
    double sum = 0, sq = 0;
    for (int64_t t = threadIdx.x; t < d; t += ROW_THREADS)
        sum += (double)x[t];
    double mean = block_sum(sum, (double *)shared_memory()) / (double)d;
    for (int64_t t = threadIdx.x; t < d; t += ROW_THREADS)
        sq += ((double)x[t] - mean) * ((double)x[t] - mean);
    struct spread s = {mean, sqrt(block_sum(sq, (double *)shared_memory()) / (double)d)};
    return s;
}

static __global__ void cutoff_kernel(struct k_cutoff a)
{
    int64_t r = blockIdx.x;
    const float *x = a.x + r * a.ld_x;
    struct spread p = row_spread(x, a.d);
    double cut = p.mean + p.std * (double)a.times;
    for (int64_t t = threadIdx.x; t < a.d; t += ROW_THREADS) {
        double y = (double)x[t] - cut;
        a.y[r * a.ld_y + t] = y > 0 ? (float)y : 0;
    }
}

int cutoff_cuda(const void *args, void *stream)
{
    const struct k_cutoff *a = (const struct k_cutoff *)args;
    return a->d > 0 ? launch_rows(cutoff_kernel, a->m, stream, *a) : 0;
}

static __global__ void cutoff_bwd_kernel(struct k_cutoff a)
{
    int64_t r = blockIdx.x;
    const float *x = a.x + r * a.ld_x, *dy = a.dy + r * a.ld_dy;
    struct spread p = row_spread(x, a.d);
    double cut = p.mean + p.std * (double)a.times, part = 0;
    for (int64_t t = threadIdx.x; t < a.d; t += ROW_THREADS)
        part += (double)x[t] > cut ? (double)dy[t] : 0;
    double all = block_sum(part, (double *)shared_memory());
    double slope = p.std > 0 ? (double)a.times / p.std : 0;
    for (int64_t t = threadIdx.x; t < a.d; t += ROW_THREADS) {
        double g = (double)x[t] > cut ? (double)dy[t] : 0;
        g -= all / (double)a.d * (1 + slope * ((double)x[t] - p.mean));
        a.y[r * a.ld_y + t] = (float)g;
    }
}

int cutoff_bwd_cuda(const void *args, void *stream)
{
    const struct k_cutoff *a = (const struct k_cutoff *)args;
    return a->d > 0 ? launch_rows(cutoff_bwd_kernel, a->m, stream, *a) : 0;
}
