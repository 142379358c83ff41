/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and cross-entropy. A block has a row. The cross-entropy folds one chunk of the vocabulary
 * into a running (maximum, sum of exponentials relative to it); what it does with a chunk depends
 * on the chunk alone, so training and serving, which walk the same chunks, get the same bits.
 *
 * Logits of -infinity are entries that cannot be; NaN makes the sum NaN, and is never the best.
 */
#include "kernels/cuda/best.cuh"
#include "kernels/cuda/rows.cuh"

/* Sum of exp(x - base) over a row; NaN where the row has one. */
static __device__ float row_sum(const float *x, int64_t n, float base, float *shared)
{
    float sum = 0;
    for (int64_t j = threadIdx.x; j < n; j += ROW_THREADS)
        sum += expf(x[j] - base);
    return block_sum(sum, shared);
}

template <bool IS_LOG> static __global__ void softmax_kernel(struct k_softmax a)
{
    const float *x = a.x + (int64_t)blockIdx.x * a.ld_x;
    float *y = a.y + (int64_t)blockIdx.x * a.ld_y, *shared = (float *)shared_memory();
    float max = row_best(x, a.d, shared).max, sum = row_sum(x, a.d, max, shared);
    float log_sum = IS_LOG ? logf(sum) : 0;
    for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
        y[j] = IS_LOG ? x[j] - max - log_sum : expf(x[j] - max) / sum;
}

int softmax_cuda(const void *args, void *stream)
{
    const struct k_softmax *a = (const struct k_softmax *)args;
    return a->d > 0 ? launch_rows(softmax_kernel<false>, a->m, stream, *a) : 0;
}

int log_softmax_cuda(const void *args, void *stream)
{
    const struct k_softmax *a = (const struct k_softmax *)args;
    return a->d > 0 ? launch_rows(softmax_kernel<true>, a->m, stream, *a) : 0;
}

/* ---- cross-entropy ---- */

static __global__ void ce_fwd_kernel(struct k_ce a)
{
    const float *x = a.logits + (int64_t)blockIdx.x * a.ld;
    float *shared = (float *)shared_memory();
    struct k_ce_state *st = &a.state[blockIdx.x], s = {-INFINITY, 0, 0, -INFINITY, -1};
    if (a.lo > 0)
        s = *st;
    struct best b = row_best(x, a.n, shared);
    float max = fmaxf(b.max, s.max);
    float base = max == -INFINITY ? 0.0f : max; /* nothing possible so far: keep the sum at 0 */
    float sum = row_sum(x, a.n, base, shared);  /* behind its barriers all have read the state */
    if (threadIdx.x != 0)
        return;
    s.sum = s.sum * expf(s.max - base) + sum;
    s.max = max;
    if (b.max > s.best) {
        s.best = b.max;
        s.best_id = (int32_t)(a.lo + b.id);
    }
    int64_t target = a.target[blockIdx.x];
    if (target >= a.lo && target < a.lo + a.n)
        s.target_logit = x[target - a.lo];
    *st = s;
}

int ce_fwd_cuda(const void *args, void *stream)
{
    const struct k_ce *a = (const struct k_ce *)args;
    return launch_rows(ce_fwd_kernel, a->m, stream, *a);
}

static __global__ void ce_bwd_kernel(struct k_ce a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        float *x = a.logits + i * a.ld, lse = a.state[i].max + logf(a.state[i].sum);
        int64_t target = a.target[i];
        for (int64_t j = each_col(); j < each_end(a.n); j += EACH_X) {
            bool is_target = a.lo + j == target;
            float p = is_target ? expm1f(x[j] - lse) : expf(x[j] - lse);
            float t = a.cap > 0 ? x[j] / a.cap : 0;
            x[j] = target < 0 ? 0 : p * a.dloss[i] * ((1 - t) * (1 + t));
        }
    }
}

int ce_bwd_cuda(const void *args, void *stream)
{
    const struct k_ce *a = (const struct k_ce *)args;
    return launch_each(ce_bwd_kernel, a->m, a->n, stream, *a);
}

/* ---- tokens that a teacher names ---- */

static __global__ void ce_take_kernel(struct k_ce_top a)
{
    int64_t i = blockIdx.x;
    float *x = a.logits + i * a.ld;
    for (int64_t k = threadIdx.x; k < a.n_top; k += ROW_THREADS) {
        int32_t id = a.id[i * a.n_top + k];
        a.logit[i * a.n_top + k] = id >= 0 ? x[id] : 0;
        if (id >= 0)
            x[id] = -INFINITY;
    }
}

int ce_take_cuda(const void *args, void *stream)
{
    const struct k_ce_top *a = (const struct k_ce_top *)args;
    return launch_rows(ce_take_kernel, a->m, stream, *a);
}

static __device__ float lse_of(const struct k_ce_state *s)
{
    return s->max + logf(s->sum);
}

static __global__ void ce_put_kernel(struct k_ce_top a)
{
    int64_t i = blockIdx.x;
    float *x = a.logits + i * a.ld, lse = lse_of(&a.state[i]), rest = a.rest[i];
    float far = fmaxf(lse_of(&a.others[i]) - lse, K_CE_LEAST), by = 1 - rest * expf(-far);
    for (int64_t j = threadIdx.x; j < a.n && rest > 0; j += ROW_THREADS)
        x[j] *= by;
    __syncthreads();
    for (int64_t k = threadIdx.x; k < a.n_top; k += ROW_THREADS) {
        int32_t id = a.id[i * a.n_top + k];
        float z = a.logit[i * a.n_top + k], t = a.cap > 0 ? z / a.cap : 0;
        float p = expm1f(z - lse) + (1 - a.share[i * a.n_top + k]); /* of 1 as ce_bwd's target */
        if (id >= 0)
            x[id] = p * a.dloss[i] * ((1 - t) * (1 + t));
    }
}

int ce_put_cuda(const void *args, void *stream)
{
    const struct k_ce_top *a = (const struct k_ce_top *)args;
    return launch_rows(ce_put_kernel, a->m, stream, *a);
}
