/* SPDX-License-Identifier: Apache-2.0
 *
 * The way back through the gated delta rule, as kernels/ref/delta_bwd.c has it. A block of threads
 * takes the columns of a half strip by strip. There is no scratch, so what a run of rows needs of
 * states is made in two steps: states at every SUB_ROWS rows from the run's border, then those of
 * SUB_ROWS rows, both in shared memory.
 */
#include "kernels/cuda/delta.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/delta.h"

enum { SUB_ROWS = 8, BACK_THREADS = 128 };

/* Columns of a strip: shared memory holds 2 SUB_ROWS states of it. */
static __host__ __device__ inline int32_t strip_cols(int32_t d_k)
{
    return d_k > K_DELTA_D_MAX / 2 ? 4 : 8;
}

/* A strip; states are [d_k, strip_cols]. */
struct strip {
    struct delta_unit u;  /* these columns; u.part is the half */
    float *sub;           /* [SUB_ROWS] states at the first row of each part of a run */
    float *decayed;       /* [SUB_ROWS] of each row of a part */
    float *now, *back;    /* a state, and its gradient */
    float *q, *k;         /* [d_k] */
    float *rest, *learnt; /* [SUB_ROWS, strip_cols] */
    float *sum;           /* [BACK_THREADS] */
    int64_t lo, hi;       /* rows of the sequence */
};

static __host__ __device__ inline size_t strip_bytes(int32_t d_k)
{
    size_t cols = (size_t)strip_cols(d_k), d = (size_t)d_k;
    return ((2 * SUB_ROWS + 2) * d * cols + 2 * d + 2 * SUB_ROWS * cols + BACK_THREADS) *
           sizeof(float);
}

static __device__ __forceinline__ struct strip strip_of(const struct k_delta &a,
                                                        const struct delta_unit &half)
{
    int cols = strip_cols(a.d_k), state = a.d_k * cols;
    struct strip s;
    s.u = half;
    s.sub = (float *)shared_memory();
    s.decayed = s.sub + SUB_ROWS * state;
    s.now = s.decayed + SUB_ROWS * state;
    s.back = s.now + state;
    s.q = s.back + state;
    s.k = s.q + a.d_k;
    s.rest = s.k + a.d_k;
    s.learnt = s.rest + SUB_ROWS * cols;
    s.sum = s.learnt + SUB_ROWS * cols;
    s.lo = a.batch.q_start[half.seq];
    s.hi = a.batch.q_start[half.seq + 1];
    return s;
}

/* Every blockDim.y-th number of its column is a thread's own, in shared memory and at borders. */
static __device__ __forceinline__ void state_copy(float *to, const float *from, int32_t d_k)
{
    for (int i = (int)threadIdx.y; i < d_k; i += (int)blockDim.y) {
        int at = i * (int)blockDim.x + (int)threadIdx.x;
        to[at] = from ? from[at] : 0;
    }
}

static __device__ __forceinline__ void border_store(const struct k_delta_bwd &g,
                                                    const struct strip &s, int64_t run)
{
    float *to = delta_border(&g, &s.u, run, s.u.col);
    int j = (int)threadIdx.x;
    for (int i = (int)threadIdx.y; j < s.u.width && i < g.fwd.d_k; i += (int)blockDim.y)
        to[i * s.u.width + j] = s.now[i * (int)blockDim.x + j];
}

static __device__ __forceinline__ void border_load(const struct k_delta_bwd &g,
                                                   const struct strip &s, int64_t run)
{
    const float *from = delta_border(&g, &s.u, run, s.u.col);
    int j = (int)threadIdx.x;
    for (int i = (int)threadIdx.y; i < g.fwd.d_k; i += (int)blockDim.y)
        s.now[i * (int)blockDim.x + j] = j < s.u.width ? from[i * s.u.width + j] : 0;
}

/* Number `place` of an array of rows, in the thread's column; 0 beside the strip. */
static __device__ __forceinline__ float column_get(const float *x, int64_t ld, int64_t t,
                                                   const struct k_delta &a, const struct strip &s)
{
    int j = (int)threadIdx.x;
    return j < s.u.width ? x[t * ld + s.u.head * a.d_v + s.u.col + j] : 0;
}

static __device__ __forceinline__ void keys_open(const struct k_delta &a, const struct strip &s,
                                                 int64_t t, const struct delta_rate &rate)
{
    __syncthreads();
    delta_keys(a, s.u, t, rate, s.q, s.k, BACK_THREADS);
    __syncthreads();
}

/* Row t of the strip, forward: number i of its part, where `decayed` is given. */
static __device__ __forceinline__ void forward_row(const struct k_delta &a, const struct strip &s,
                                                   int64_t t, float *decayed, int i)
{
    struct delta_rate rate = delta_rate_of(&a, t, s.u.head);
    int cols = (int)blockDim.x, j = (int)threadIdx.x;
    float kv = 0;
    keys_open(a, s, t, rate);
    for (int d = (int)threadIdx.y; d < a.d_k; d += (int)blockDim.y)
        kv = fmaf(s.now[d * cols + j], s.k[d], kv);
    float rest = column_get(a.v, a.ld_v, t, a, s), found = rate.decay * delta_sum(kv, s.sum);
    rest = rate.is_scan ? rest : rest - found;
    float u = rate.beta * rest;
    for (int d = (int)threadIdx.y; d < a.d_k; d += (int)blockDim.y) {
        float old = rate.decay * s.now[d * cols + j];
        if (decayed)
            decayed[d * cols + j] = old;
        s.now[d * cols + j] = fmaf(s.k[d], u, old);
    }
    if (threadIdx.y == 0) {
        s.rest[i * cols + j] = rest;
        s.learnt[i * cols + j] = u;
    }
}

/* The sum over the columns of a strip, which stand side by side in a warp. */
static __device__ __forceinline__ float columns_sum(float x)
{
    for (int i = (int)blockDim.x / 2; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

/* Through reading: adds to dq; du of the thread's column. */
static __device__ __forceinline__ float back_read(const struct k_delta &a, const struct strip &s,
                                                  const float *state, float learnt, float dy,
                                                  float *dq)
{
    int j = (int)threadIdx.x;
    float du = 0;
    for (int first = 0; first < a.d_k; first += (int)blockDim.y) {
        int i = first + (int)threadIdx.y, at = i * (int)blockDim.x + j;
        float part = 0;
        if (i < a.d_k) {
            s.back[at] = fmaf(s.q[i], dy, s.back[at]);
            du = fmaf(s.back[at], s.k[i], du);
            part = fmaf(s.k[i], learnt, state[at]) * dy;
        }
        part = columns_sum(part);
        if (i < a.d_k && j == 0)
            dq[i] += part;
    }
    return delta_sum(du, s.sum);
}

/* Through learning and decay: adds to dk; dg of all columns. dv: of what k found. */
static __device__ __forceinline__ float back_learn(const struct k_delta &a, const struct strip &s,
                                                   const float *state, float decay, float learnt,
                                                   float dv, float *dk)
{
    int j = (int)threadIdx.x;
    float g = 0;
    for (int first = 0; first < a.d_k; first += (int)blockDim.y) {
        int i = first + (int)threadIdx.y, at = i * (int)blockDim.x + j;
        float part = 0;
        if (i < a.d_k) {
            float back = s.back[at];
            part = back * learnt - state[at] * dv;
            back = fmaf(-s.k[i], dv, back);
            g = fmaf(state[at], back, g);
            s.back[at] = decay * back;
        }
        part = columns_sum(part);
        if (i < a.d_k && j == 0)
            dk[i] += part;
    }
    return columns_sum(delta_sum(g, s.sum));
}

static __device__ __forceinline__ void back_row(const struct k_delta_bwd &g, const struct strip &s,
                                                int64_t t, int i)
{
    const struct k_delta &a = g.fwd;
    struct delta_rate rate = delta_rate_of(&a, t, s.u.head);
    int cols = (int)blockDim.x, j = (int)threadIdx.x;
    float *dq = delta_part_at(&g, &s.u, t), *dk = dq + a.d_k, *dg = dk + a.d_k;
    const float *state = s.decayed + i * a.d_k * cols;
    keys_open(a, s, t, rate);
    float learnt = s.learnt[i * cols + j], rest = s.rest[i * cols + j];
    float dy = column_get(g.dy, g.ld_dy, t, a, s), du = back_read(a, s, state, learnt, dy, dq);
    float dv = rate.beta * du, dbeta = columns_sum(du * rest);
    if (threadIdx.y == 0 && j < s.u.width)
        g.dv[t * g.ld_dv + s.u.head * a.d_v + s.u.col + j] =
            rate.is_scan ? fmaf(rate.skip, dy, dv) : dv;
    float sum = back_learn(a, s, state, rate.decay, learnt, rate.is_scan ? 0 : dv, dk);
    if (threadIdx.y == 0 && j == 0) {
        dg[0] += sum;
        dg[1] += dbeta;
    }
}

/* Rows [lo, hi), of one run: the states at the first row of each part, then part by part from the
 * last. */
static __device__ void back_run(const struct k_delta_bwd &g, const struct strip &s, int64_t lo,
                                int64_t hi)
{
    const struct k_delta &a = g.fwd;
    int state = a.d_k * (int)blockDim.x, n_part = (int)ceil_div(hi - lo, SUB_ROWS);
    for (int p = 0; p < n_part; p++) {
        state_copy(s.sub + p * state, s.now, a.d_k);
        for (int64_t t = lo + p * SUB_ROWS; p + 1 < n_part && t < lo + (p + 1) * SUB_ROWS; t++)
            forward_row(a, s, t, NULL, 0);
    }
    for (int p = n_part - 1; p >= 0; p--) {
        int64_t first = lo + p * SUB_ROWS;
        int n = (int)least(hi - first, SUB_ROWS);
        state_copy(s.now, s.sub + p * state, a.d_k);
        for (int i = 0; i < n; i++)
            forward_row(a, s, first + i, s.decayed + i * state, i);
        for (int i = n - 1; i >= 0; i--)
            back_row(g, s, first + i, i);
    }
}

static __device__ void back_strip(const struct k_delta_bwd &g, const struct strip &s)
{
    const struct k_delta &a = g.fwd;
    int64_t rows = delta_run_rows(a.d_k);
    state_copy(s.now, NULL, a.d_k);
    state_copy(s.back, NULL, a.d_k);
    for (int64_t t = s.lo; t < s.hi; t++) {
        if ((t - s.lo) % rows == 0)
            border_store(g, s, (t - s.lo) / rows);
        forward_row(a, s, t, NULL, 0);
    }
    for (int64_t run = delta_runs(a.d_k, s.hi - s.lo) - 1; run >= 0; run--) {
        border_load(g, s, run);
        back_run(g, s, s.lo + run * rows, least(s.hi, s.lo + (run + 1) * rows));
    }
}

static __global__ void delta_bwd_kernel(struct k_delta_bwd g)
{
    const struct k_delta &a = g.fwd;
    struct delta_unit half = delta_half_of(&a, blockIdx.x);
    struct strip s = strip_of(a, half);
    int from = (int)(threadIdx.y * blockDim.x + threadIdx.x);
    for (int64_t t = s.lo; t < s.hi; t++)
        for (int i = from; i < 2 * a.d_k + 2; i += BACK_THREADS)
            delta_part_at(&g, &half, t)[i] = 0;
    for (int col = 0; col < half.width; col += (int)blockDim.x) {
        s.u.col = half.col + col;
        s.u.width = (int32_t)least(half.width - col, blockDim.x);
        back_strip(g, s);
    }
}

int delta_bwd_cuda(const void *args, void *stream)
{
    const struct k_delta_bwd *g = (const struct k_delta_bwd *)args;
    const struct k_delta *a = &g->fwd;
    unsigned cols = (unsigned)strip_cols(a->d_k);
    return launch(delta_bwd_kernel, dim3((unsigned)(a->batch.n_seq * a->n_v * K_DELTA_PARTS)),
                  dim3(cols, BACK_THREADS / cols), strip_bytes(a->d_k), stream, *g);
}

/* ---- rates ---- */

/* dx = rate (d - x (x . d) inv^2), where rate is inv, of q by sqrt(d_k); by a warp */
static __device__ __forceinline__ void length_bwd(const struct k_delta_rates_bwd &g, int64_t t,
                                                  int key, const float *x, float rate, float inv_sq,
                                                  int from, float *dx)
{
    const struct k_delta_rates &a = g.fwd;
    struct delta_key_parts part = delta_key_parts_of(g.part, a.n_k, a.n_v, a.d_k, t, key);
    int32_t d = a.d_k;
    float dot = 0;
    for (int i = lane_id(); i < d; i += FULL_WARP)
        dot = fmaf(x[i], delta_part_sum(part, from + i), dot);
    float along = warp_sum(dot) * inv_sq;
    for (int i = lane_id(); i < d; i += FULL_WARP)
        dx[i] = rate * (delta_part_sum(part, from + i) - x[i] * along);
}

static __device__ __forceinline__ void head_bwd(const struct k_delta_rates_bwd &g, int64_t t, int h)
{
    const struct k_delta_rates &a = g.fwd;
    struct delta_rate_grad d = delta_rate_grad_of(g.part, a.n_v, a.d_k, t, h);
    float x = a.a[t * a.ld_a + h] + a.dt_bias[h], beta = 1 / (1 + expf(-a.b[t * a.ld_b + h]));
    float down = -d.g * expf(a.a_log[h]);
    if (g.da)
        g.da[t * g.ld_da + h] = down / (1 + expf(-x));
    if (g.db)
        g.db[t * g.ld_db + h] = d.beta * beta * (1 - beta);
    if (g.da_log)
        g.da_log[t * a.n_v + h] = down * delta_softplus(x);
}

static __global__ void delta_rates_bwd_kernel(struct k_delta_rates_bwd g)
{
    const struct k_delta_rates &a = g.fwd;
    int64_t t = blockIdx.x;
    const float *q = a.rate + t * delta_rate_cols(a.n_k, a.n_v) + 2 * a.n_v, *k = q + a.n_k;
    for (int h = (int)threadIdx.x; h < a.n_v; h += ROW_THREADS)
        head_bwd(g, t, h);
    for (int h = warp_id(); h < a.n_k; h += ROW_THREADS / FULL_WARP) {
        int64_t at = (int64_t)h * a.d_k;
        if (g.dq)
            length_bwd(g, t, h, a.q + t * a.ld_q + at, q[h], q[h] * q[h] * (float)a.d_k, 0,
                       g.dq + t * g.ld_dq + at);
        if (g.dk)
            length_bwd(g, t, h, a.k + t * a.ld_k + at, k[h], k[h] * k[h], a.d_k,
                       g.dk + t * g.ld_dk + at);
    }
}

int delta_rates_bwd_cuda(const void *args, void *stream)
{
    const struct k_delta_rates_bwd *g = (const struct k_delta_rates_bwd *)args;
    return launch_rows(delta_rates_bwd_kernel, g->fwd.m, stream, *g);
}
