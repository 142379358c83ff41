/* SPDX-License-Identifier: Apache-2.0
 *
 * The short convolution. A thread has some columns of a row; of the weights' gradient a column of
 * all rows. Each tap is one rounding, in the order of the reference.
 */
#include "kernels/conv.h"
#include "kernels/cuda/rows.cuh"

/* Number j of the row `back` places before row t, which is there, as the cells hold it. */
static __device__ __forceinline__ float x_get(const struct k_conv &a, int64_t t, int64_t back,
                                              int64_t j)
{
    int64_t seq = a.batch.seq_of[t], pos = a.batch.pos[t] - back;
    if (t - back >= a.batch.q_start[seq]) {
        float x = a.x[(t - back) * a.ld_x + j];
        return a.cache.type == K_BF16 ? bf16_round(x) : x;
    }
    return number_get((const char *)a.cache.k + conv_row_at(&a, seq, pos), a.cache.type, j);
}

static __global__ void conv_kernel(struct k_conv a)
{
    for (int64_t t = each_row(); t < a.batch.n_tok; t += each_rows()) {
        int32_t first = a.n_tap - 1 - (int32_t)least(a.n_tap - 1, a.batch.pos[t]);
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            float sum = a.bias ? a.bias[j] : 0.0f;
            for (int32_t i = first; i < a.n_tap; i++)
                sum = fmaf(a.weight[j * a.n_tap + i], x_get(a, t, a.n_tap - 1 - i, j), sum);
            a.y[t * a.ld_y + j] = sum;
        }
    }
}

int conv_cuda(const void *args, void *stream)
{
    const struct k_conv *a = (const struct k_conv *)args;
    return launch_each(conv_kernel, a->batch.n_tok, a->d, stream, *a);
}

static __global__ void conv_keep_kernel(struct k_conv a)
{
    for (int64_t t = each_row(); t < a.batch.n_tok; t += each_rows()) {
        if (!conv_is_kept(&a, t))
            continue;
        char *row = (char *)a.cache.k + conv_row_at(&a, a.batch.seq_of[t], a.batch.pos[t]);
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            float x = a.x[t * a.ld_x + j];
            if (a.cache.type == K_BF16)
                ((k_bf16 *)row)[j] = (k_bf16)bf16_bits(x);
            else
                ((float *)row)[j] = x;
        }
    }
}

int conv_keep_cuda(const void *args, void *stream)
{
    const struct k_conv *a = (const struct k_conv *)args;
    return launch_each(conv_keep_kernel, a->batch.n_tok, a->d, stream, *a);
}

static __global__ void conv_bwd_kernel(struct k_conv_bwd g)
{
    const struct k_conv &a = g.fwd;
    for (int64_t t = each_row(); t < a.batch.n_tok; t += each_rows()) {
        int64_t n = least(a.n_tap, a.batch.q_start[a.batch.seq_of[t] + 1] - t);
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            float sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum = fmaf(a.weight[(j + 1) * a.n_tap - 1 - i], g.dy[(t + i) * g.ld_dy + j], sum);
            g.dx[t * g.ld_dx + j] = sum;
        }
    }
}

int conv_bwd_cuda(const void *args, void *stream)
{
    const struct k_conv_bwd *g = (const struct k_conv_bwd *)args;
    return launch_each(conv_bwd_kernel, g->fwd.batch.n_tok, g->fwd.d, stream, *g);
}

/* A row of the grid is a tap. */
static __global__ void conv_dw_kernel(struct k_conv_bwd g)
{
    const struct k_conv &a = g.fwd;
    for (int64_t back = each_row(); back < a.n_tap; back += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            double sum = 0;
            for (int64_t t = 0; t < a.batch.n_tok; t++)
                if (t - back >= a.batch.q_start[a.batch.seq_of[t]])
                    sum += (double)g.dy[t * g.ld_dy + j] * x_get(a, t, back, j);
            float *dw = g.dweight + (j + 1) * a.n_tap - 1 - back;
            *dw = (float)(*dw + sum);
        }
    }
}

int conv_dw_cuda(const void *args, void *stream)
{
    const struct k_conv_bwd *g = (const struct k_conv_bwd *)args;
    return launch_each(conv_dw_kernel, g->fwd.n_tap, g->fwd.d, stream, *g);
}
