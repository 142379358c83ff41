/* SPDX-License-Identifier: Apache-2.0
 *
 * lora, lora_bwd, lora_dw: f32 throughout.
 *
 *   t = x a^T, y += (scale t) b^T      dt = scale (dy b), dx += dt a
 *   da += dt^T x, db += scale (dy^T t)
 *
 * The groups lie with the GPU, so the host knows only how many there are and how many rows: a block
 * finds its piece by walking over them, and the last few blocks of a grid find none. A piece is
 * LORA_TILE rows of one group, which share what is read of an adapter. An inner product is a
 * warp's: lanes take numbers by turns, and their sums meet by exchange, whatever rows share the
 * piece.
 */
#include "kernels/cuda/rows.cuh"

enum {
    LORA_TILE = 8,  /* rows of a piece */
    LORA_RUN = 512, /* rows that a gradient sums before it adds */
    LORA_WARPS = 8, /* of a block; in a run each has LORA_RUN / LORA_WARPS rows */
    LORA_RANKS = 8  /* sums of a thread of lora_dw */
};

struct lora_piece {
    struct k_lora_group g;
    int64_t row, n; /* rows [row, row + n); n is 0 where nothing is left */
};

static __device__ bool lora_has(const struct k_lora_group &g)
{
    return g.a || g.a_bf16;
}

static __device__ struct lora_piece piece_of(const struct k_lora &a, int64_t i)
{
    struct lora_piece p = {};
    int64_t n_group = a.n_used ? *a.n_used : a.n_group;
    for (int64_t at = 0; at < n_group; at++) {
        const struct k_lora_group &g = a.group[at];
        int64_t n = lora_has(g) ? ceil_div(g.row_hi - g.row_lo, LORA_TILE) : 0;
        if (i < n) {
            p.g = g;
            p.row = g.row_lo + i * LORA_TILE;
            p.n = least(LORA_TILE, g.row_hi - p.row);
            return p;
        }
        i -= n;
    }
    return p;
}

/* Pieces of any groups of so many rows, at most. */
static int64_t piece_count(const struct k_lora *a)
{
    return a->m > 0 ? a->m / LORA_TILE + a->n_group : 0;
}

/* A number of a, of b: from whichever form the group has. */
static __device__ __forceinline__ float a_get(const struct k_lora_group &g, int64_t at)
{
    return g.a_bf16 ? bf16_get(g.a_bf16[at]) : g.a[at];
}

static __device__ __forceinline__ float b_get(const struct k_lora_group &g, int64_t o, int64_t r)
{
    int64_t at = cuda_f32_at(g.rank, o, r);
    if (g.b_panels_bf16)
        return bf16_get(g.b_panels_bf16[at]);
    return g.b_panels ? g.b_panels[at] : g.b[o * g.rank + r];
}

/* ---- into the adapter's rank ---- */

/* t[row, r] = factor * sum over i of x[row, i] get(r, i) for the rows of the piece: a warp for each
 * r. */
template <typename Get>
static __device__ __forceinline__ void ranks_of(const struct lora_piece &p, const float *x,
                                                int64_t ld, int64_t n, float *t, int64_t ld_t,
                                                float factor, Get get)
{
    for (int64_t r = warp_id(); r < p.g.rank; r += LORA_WARPS) {
        float sum[LORA_TILE] = {};
        for (int64_t i = lane_id(); i < n; i += FULL_WARP) {
            float v = get(r, i);
#pragma unroll
            for (int j = 0; j < LORA_TILE; j++) {
                if (j < p.n)
                    sum[j] = fmaf(x[(p.row + j) * ld + i], v, sum[j]);
            }
        }
#pragma unroll
        for (int j = 0; j < LORA_TILE; j++) {
            float all = warp_sum(sum[j]);
            if (j < p.n && lane_id() == 0)
                t[(p.row + j) * ld_t + r] = factor * all;
        }
    }
}

static __global__ void lora_in_kernel(struct k_lora a)
{
    struct lora_piece p = piece_of(a, blockIdx.x);
    int64_t k = a.k;
    ranks_of(p, a.x, a.ld_x, k, a.t, a.rank_max, 1.0f,
             [&](int64_t r, int64_t i) { return a_get(p.g, r * k + i); });
}

static __global__ void lora_dt_kernel(struct k_lora_bwd a)
{
    struct lora_piece p = piece_of(a.fwd, blockIdx.x);
    ranks_of(p, a.dy, a.ld_dy, a.fwd.n, a.dt, a.fwd.rank_max, p.g.scale,
             [&](int64_t r, int64_t o) { return p.g.b[o * p.g.rank + r]; });
}

/* ---- out of it ---- */

/* y[row, o] += sum over r of factor t[row, r] get(o, r): a thread for each o. */
template <typename Get>
static __device__ __forceinline__ void outputs_of(const struct lora_piece &p, const float *t,
                                                  int64_t ld_t, float factor, float *y, int64_t ld,
                                                  int64_t n, Get get)
{
    int64_t o = (int64_t)blockIdx.y * ROW_THREADS + threadIdx.x;
    if (o >= n)
        return;
    float sum[LORA_TILE] = {};
    for (int64_t r = 0; r < p.g.rank; r++) {
        float v = get(o, r);
#pragma unroll
        for (int j = 0; j < LORA_TILE; j++) {
            if (j < p.n)
                sum[j] = fmaf(factor * t[(p.row + j) * ld_t + r], v, sum[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < LORA_TILE; j++) {
        if (j < p.n)
            y[(p.row + j) * ld + o] += sum[j];
    }
}

static __global__ void lora_out_kernel(struct k_lora a)
{
    struct lora_piece p = piece_of(a, blockIdx.x);
    outputs_of(p, a.t, a.rank_max, p.g.scale, a.y, a.ld_y, a.n,
               [&](int64_t o, int64_t r) { return b_get(p.g, o, r); });
}

static __global__ void lora_dx_kernel(struct k_lora_bwd a)
{
    struct lora_piece p = piece_of(a.fwd, blockIdx.x);
    int64_t k = a.fwd.k;
    outputs_of(p, a.dt, a.fwd.rank_max, 1.0f, a.dx, a.ld_dx, k,
               [&](int64_t i, int64_t r) { return p.g.a[r * k + i]; });
}

static dim3 out_grid(const struct k_lora *a, int64_t n)
{
    return dim3((unsigned)piece_count(a), (unsigned)ceil_div(n, ROW_THREADS));
}

int lora_cuda(const void *args, void *stream)
{
    const struct k_lora *a = (const struct k_lora *)args;
    int e = launch(lora_in_kernel, dim3((unsigned)piece_count(a)), dim3(LORA_WARPS * FULL_WARP), 0,
                   stream, *a);
    return e ? e : launch(lora_out_kernel, out_grid(a, a->n), dim3(ROW_THREADS), 0, stream, *a);
}

int lora_bwd_cuda(const void *args, void *stream)
{
    const struct k_lora_bwd *a = (const struct k_lora_bwd *)args;
    int e = launch(lora_dt_kernel, dim3((unsigned)piece_count(&a->fwd)),
                   dim3(LORA_WARPS * FULL_WARP), 0, stream, *a);
    if (e || !a->dx)
        return e;
    return launch(lora_dx_kernel, out_grid(&a->fwd, a->fwd.k), dim3(ROW_THREADS), 0, stream, *a);
}

/* ---- the adapter's own gradients ---- */

/* One side: to[col, r] += factor * sum over the group's rows of wide[row, col] narrow[row, r]. */
struct lora_side {
    const float *wide, *narrow;
    float *to;
    int64_t ld_wide, ld_narrow, n; /* n columns */
    int64_t step_col, step_rank;   /* of `to` */
    float factor;
};

static __device__ struct lora_side side_of(const struct k_lora_bwd &a, const struct k_lora_group &g,
                                           bool is_db)
{
    const struct k_lora &f = a.fwd;
    struct lora_side s = {f.x, a.dt, g.da, f.ld_x, f.rank_max, f.k, 1, f.k, 1.0f};
    if (is_db)
        s = {a.dy, f.t, g.db, a.ld_dy, f.rank_max, f.n, g.rank, 1, g.scale};
    return s;
}

/* What this warp has of a run: rows [lo, hi) for the lane's column and LORA_RANKS ranks. */
static __device__ __forceinline__ void run_sum(const struct lora_side &s, int64_t col, int64_t rank,
                                               int n_rank, int64_t lo, int64_t hi,
                                               float sum[LORA_RANKS])
{
    for (int r = 0; r < LORA_RANKS; r++)
        sum[r] = 0;
    for (int64_t row = lo; row < hi && col < s.n; row++) {
        float v = s.wide[row * s.ld_wide + col];
#pragma unroll
        for (int r = 0; r < LORA_RANKS; r++) {
            if (r < n_rank)
                sum[r] = fmaf(v, s.narrow[row * s.ld_narrow + rank + r], sum[r]);
        }
    }
}

/* blockIdx: a run of columns, a run of ranks and a side, a group. */
static __global__ void lora_dw_kernel(struct k_lora_bwd a)
{
    if (a.fwd.n_used && blockIdx.z >= (unsigned)*a.fwd.n_used)
        return;
    const struct k_lora_group g = a.fwd.group[blockIdx.z];
    struct lora_side s = side_of(a, g, blockIdx.y % 2);
    float *parts = (float *)shared_memory(), sum[LORA_RANKS];
    int64_t rank = (int64_t)(blockIdx.y / 2) * LORA_RANKS;
    int64_t col = (int64_t)blockIdx.x * FULL_WARP + lane_id();
    int n_rank = (int)least(LORA_RANKS, g.rank - rank);
    if (!lora_has(g) || !s.to || n_rank <= 0)
        return;
    for (int64_t lo = g.row_lo; lo < g.row_hi; lo += LORA_RUN) {
        int64_t mine = lo + warp_id() * (LORA_RUN / LORA_WARPS);
        run_sum(s, col, rank, n_rank, mine, least(mine + LORA_RUN / LORA_WARPS, g.row_hi), sum);
        for (int r = 0; r < LORA_RANKS; r++)
            parts[(r * LORA_WARPS + warp_id()) * FULL_WARP + lane_id()] = sum[r];
        __syncthreads();
        int r = warp_id(); /* LORA_WARPS of them, as many as ranks */
        float all = 0;
        for (int w = 0; w < LORA_WARPS; w++)
            all += parts[(r * LORA_WARPS + w) * FULL_WARP + lane_id()];
        if (r < n_rank && col < s.n)
            s.to[col * s.step_col + (rank + r) * s.step_rank] += s.factor * all;
        __syncthreads();
    }
}

int lora_dw_cuda(const void *args, void *stream)
{
    static_assert((int)LORA_WARPS == (int)LORA_RANKS, "a warp adds up a rank");
    const struct k_lora_bwd *a = (const struct k_lora_bwd *)args;
    int64_t cols = ceil_div(most(a->fwd.k, a->fwd.n), FULL_WARP);
    int64_t ranks = ceil_div(a->fwd.rank_max, LORA_RANKS);
    return launch(lora_dw_kernel,
                  dim3((unsigned)cols, (unsigned)ranks * 2, (unsigned)a->fwd.n_group),
                  dim3(LORA_WARPS * FULL_WARP), LORA_RANKS * LORA_WARPS * FULL_WARP * sizeof(float),
                  stream, *a);
}
