/* SPDX-License-Identifier: Apache-2.0
 *
 * DoRA. A block has K_DORA_ROWS rows of a weight, which share what is read of A; lanes take inputs
 * by turns. The groups lie with the GPU, so a row looks for its own.
 */
#include "kernels/cuda/rows.cuh"

static __device__ __forceinline__ float gain_of(float magnitude, float norm)
{
    return norm <= 0 ? 0 : magnitude / norm;
}

static __global__ void dora_gain_kernel(struct k_dora_gain a)
{
    int64_t o = (int64_t)blockIdx.x * K_DORA_ROWS;
    int n = (int)least(K_DORA_ROWS, a.n - o);
    float sum[K_DORA_ROWS] = {};
    for (int64_t i = threadIdx.x; i < a.k; i += ROW_THREADS) {
        float added[K_DORA_ROWS] = {};
        for (int64_t r = 0; r < a.rank; r++) {
            float v = a.a[r * a.k + i];
            for (int j = 0; j < K_DORA_ROWS; j++)
                if (j < n)
                    added[j] = fmaf(a.b[(o + j) * a.rank + r], v, added[j]);
        }
        for (int j = 0; j < K_DORA_ROWS; j++) {
            float w = j < n ? fmaf(a.scale, added[j], a.w[(o + j) * a.ld_w + i]) : 0.0f;
            sum[j] = fmaf(w, w, sum[j]);
        }
    }
    for (int j = 0; j < K_DORA_ROWS; j++) {
        float norm = sqrtf(block_sum(sum[j], (float *)shared_memory()));
        if (threadIdx.x != 0 || j >= n)
            continue;
        a.norm[o + j] = norm;
        if (a.magnitude)
            a.gain[o + j] = gain_of(a.magnitude[o + j], norm);
    }
}

int dora_gain_cuda(const void *args, void *stream)
{
    const struct k_dora_gain *a = (const struct k_dora_gain *)args;
    return launch_rows(dora_gain_kernel, ceil_div(a->n, K_DORA_ROWS), stream, *a);
}

static __device__ const float *gains_of(const struct k_dora &a, int64_t row)
{
    for (int64_t i = 0; i < a.n_group; i++)
        if (row >= a.group[i].row_lo && row < a.group[i].row_hi)
            return a.group[i].gain;
    return NULL;
}

static __global__ void dora_kernel(struct k_dora a)
{
    for (int64_t row = each_row(); row < a.m; row += each_rows()) {
        const float *gain = gains_of(a, row);
        float *y = a.y + row * a.ld_y;
        for (int64_t o = each_col(); gain && o < each_end(a.n); o += EACH_X)
            y[o] =
                a.bias ? fmaf(gain[o], y[o], fmaf(-gain[o], a.bias[o], a.bias[o])) : gain[o] * y[o];
    }
}

int dora_cuda(const void *args, void *stream)
{
    const struct k_dora *a = (const struct k_dora *)args;
    return a->n_group > 0 ? launch_each(dora_kernel, a->m, a->n, stream, *a) : 0;
}

static __global__ void dora_dw_kernel(struct k_dora_dw a)
{
    int64_t o = cols_at();
    for (int64_t i = 0; i < a.n_group; i++) {
        const struct k_lora_group g = a.group[i];
        double sum = 0, bias = a.bias && o < a.n ? a.bias[o] : 0;
        for (int64_t row = g.row_lo + cols_lane(); g.dmagnitude && row < g.row_hi && o < a.n;
             row += COLS_Y)
            sum += a.dy[row * a.ld_dy + o] * (a.x[row * a.ld_x + o] - bias);
        sum = cols_sum(sum);
        if (cols_lane() == 0 && o < a.n && g.dmagnitude && g.norm[o] > 0)
            g.dmagnitude[o] += (float)(sum / g.norm[o]);
    }
}

int dora_dw_cuda(const void *args, void *stream)
{
    const struct k_dora_dw *a = (const struct k_dora_dw *)args;
    return launch_cols(dora_dw_kernel, a->n_group > 0 && a->m > 0 ? a->n : 0, 1, stream, *a);
}
