/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule. A block of threads has a block of a state's columns, in shared memory for
 * all rows of its sequence: a thread has every DELTA_Y-th number of one column, so only the two
 * sums of a row go between threads.
 */
#include "kernels/cuda/delta.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/delta.h"

/* ---- rates ---- */

static __global__ void delta_rates_kernel(struct k_delta_rates a)
{
    int64_t t = blockIdx.x;
    float *decay = a.rate + t * delta_rate_cols(a.n_k, a.n_v), *beta = decay + a.n_v;
    float *q = beta + a.n_v, *k = q + a.n_k;
    for (int h = threadIdx.x; h < a.n_v; h += ROW_THREADS) {
        decay[h] = expf(delta_log_decay(a, t, h));
        beta[h] = 1 / (1 + expf(-a.b[t * a.ld_b + h]));
    }
    for (int h = warp_id(); h < a.n_k; h += ROW_THREADS / FULL_WARP) {
        float q_sq = delta_sum_sq(a.q + t * a.ld_q + (int64_t)h * a.d_k, a.d_k);
        float k_sq = delta_sum_sq(a.k + t * a.ld_k + (int64_t)h * a.d_k, a.d_k);
        if (lane_id() == 0) {
            q[h] = 1 / sqrtf(q_sq * (float)a.d_k);
            k[h] = 1 / sqrtf(k_sq);
        }
    }
}

int delta_rates_cuda(const void *args, void *stream)
{
    const struct k_delta_rates *a = (const struct k_delta_rates *)args;
    return launch_rows(delta_rates_kernel, a->m, stream, *a);
}

/* ---- forward ---- */

/* Shared memory of a block. */
struct delta_room {
    float *state; /* [d_k, DELTA_COLS] */
    float *q, *k; /* [d_k] */
    float *sum;   /* [DELTA_Y, DELTA_COLS] */
};

static __host__ __device__ inline size_t delta_room_bytes(int32_t d_k)
{
    return ((size_t)(DELTA_COLS + 2) * d_k + DELTA_Y * DELTA_COLS) * sizeof(float);
}

static __device__ __forceinline__ struct delta_room delta_room_of(int32_t d_k)
{
    float *at = (float *)shared_memory();
    struct delta_room r = {at, at + DELTA_COLS * d_k, at + (DELTA_COLS + 1) * d_k,
                           at + (DELTA_COLS + 2) * d_k};
    return r;
}

/* From memory to shared memory; zeros where there is nothing. */
static __device__ __forceinline__ void state_load(const struct delta_room &r, const float *from,
                                                  int32_t d_k, int32_t width)
{
    int j = (int)threadIdx.x;
    for (int i = (int)threadIdx.y; i < d_k; i += DELTA_Y)
        r.state[i * DELTA_COLS + j] = from && j < width ? from[i * width + j] : 0;
}

static __device__ __forceinline__ void state_store(const struct delta_room &r, float *to,
                                                   int32_t d_k, int32_t width)
{
    int j = (int)threadIdx.x;
    if (!to || j >= width)
        return;
    for (int i = (int)threadIdx.y; i < d_k; i += DELTA_Y)
        to[i * width + j] = r.state[i * DELTA_COLS + j];
}

/* Row t: y of the thread's column, in all threads that share it. */
static __device__ __forceinline__ float
row_step(const struct k_delta &a, const struct delta_unit &u, const struct delta_room &r, int64_t t)
{
    struct delta_rate rate = delta_rate_of(&a, t, u.head);
    int j = (int)threadIdx.x;
    bool is_in = j < u.width;
    float v = is_in ? a.v[t * a.ld_v + u.head * a.d_v + u.col + j] : 0, kv = 0, y = 0;
    delta_keys(a, u, t, rate, r.q, r.k, DELTA_COLS * DELTA_Y);
    __syncthreads();
    for (int i = (int)threadIdx.y; i < a.d_k && !rate.is_scan; i += DELTA_Y)
        kv = fmaf(r.state[i * DELTA_COLS + j], r.k[i], kv);
    float w = rate.beta * (rate.is_scan ? v : v - rate.decay * delta_sum(kv, r.sum));
    for (int i = (int)threadIdx.y; i < a.d_k; i += DELTA_Y) {
        float s = fmaf(r.k[i], w, rate.decay * r.state[i * DELTA_COLS + j]);
        r.state[i * DELTA_COLS + j] = s;
        y = fmaf(r.q[i], s, y);
    }
    y = delta_sum(y, r.sum);
    return rate.is_scan ? fmaf(rate.skip, v, y) : y;
}

static __global__ void delta_kernel(struct k_delta a)
{
    struct delta_unit u = delta_unit_of(&a, blockIdx.x);
    int64_t lo = a.batch.q_start[u.seq], hi = a.batch.q_start[u.seq + 1];
    struct delta_room r = delta_room_of(a.d_k);
    if (lo == hi)
        return;
    state_load(r, delta_from(&a, &u), a.d_k, u.width);
    for (int64_t t = lo; t < hi; t++) {
        float y = row_step(a, u, r, t);
        if (threadIdx.y == 0 && (int)threadIdx.x < u.width)
            a.y[t * a.ld_y + u.head * a.d_v + u.col + threadIdx.x] = y;
        state_store(r, delta_kept(&a, &u, t), a.d_k, u.width);
    }
    state_store(r, delta_to(&a, &u), a.d_k, u.width);
}

int delta_cuda(const void *args, void *stream)
{
    const struct k_delta *a = (const struct k_delta *)args;
    int64_t n = a->batch.n_seq * a->n_v * delta_blocks(a->d_v);
    return launch(delta_kernel, dim3((unsigned)n), dim3(DELTA_COLS, DELTA_Y),
                  delta_room_bytes(a->d_k), stream, *a);
}
