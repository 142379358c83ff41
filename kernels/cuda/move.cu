/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that move or add up: embedding, gather, scatter, sums over rows, means over sequences.
 *
 * Adding rows at places where several may meet (scatter_add, embed_bwd): a block has one row. If
 * an earlier row goes to the same place, that one's block does it all; else this one finds those
 * that come later, a stretch of rows at a time, and adds them in their order. So a place has one
 * writer, and its sum the order of the rows.
 */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/weight.cuh"
#include "kernels/embed.h"

/* The table that row i reads. */
static __device__ struct k_weight table_of(const struct k_embed &a, int64_t i)
{
    struct k_weight w = a.table;
    for (int64_t g = 0; g < a.n_saved; g++) {
        const struct k_saved &own = a.saved[g];
        if (!own.data || i < own.row_lo || i >= own.row_hi)
            continue;
        w.data = own.data;
        w.scale = own.scale;
    }
    return w;
}

static __global__ void embed_kernel(struct k_embed a)
{
    int64_t stored = cuda_k_stored(a.table.type, a.table.k);
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        const struct k_weight w = table_of(a, i);
        int64_t o = embed_known(a.token[i], a.known) - a.lo;
        for (int64_t j = each_col(); j < each_end(w.k); j += EACH_X)
            a.y[i * a.ld_y + j] = o < 0 || o >= w.n ? 0.0f : weight_get(w, stored, o, j);
    }
}

int embed_cuda(const void *args, void *stream)
{
    const struct k_embed *a = (const struct k_embed *)args;
    return launch_each(embed_kernel, a->m, a->table.k, stream, *a);
}

static __global__ void gather_kernel(struct k_gather a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        const float *x = a.x + a.index[i] * a.ld_x;
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X)
            a.y[i * a.ld_y + j] = x[j];
    }
}

int gather_cuda(const void *args, void *stream)
{
    const struct k_gather *a = (const struct k_gather *)args;
    return launch_each(gather_kernel, a->m, a->d, stream, *a);
}

/* ---- rows that meet ---- */

struct meet_args {
    const float *x;
    const int32_t *index;
    float *y;
    int64_t ld_x, ld_y, m, d, lo, n; /* places [lo, lo + n) count */
};

/* Rows [from, from + ROW_THREADS) that go to `place`, as bits in shared memory. */
static __device__ bool meet_find(const struct meet_args &a, int64_t from, int32_t place,
                                 unsigned *bits)
{
    int64_t row = from + threadIdx.x;
    bool is_one = row < a.m && a.index[row] == place;
    unsigned mine = __ballot_sync(0xffffffffu, is_one);
    if (lane_id() == 0)
        bits[warp_id()] = mine;
    return __syncthreads_or(is_one) != 0;
}

static __device__ void meet_add(const struct meet_args &a, int64_t from, int64_t first,
                                const unsigned *bits, float *to)
{
    for (int r = 0; r < ROW_THREADS; r++) {
        if (from + r < first || !(bits[r / 32] >> (r % 32) & 1u))
            continue;
        const float *x = a.x + (from + r) * a.ld_x;
        for (int64_t j = threadIdx.x; j < a.d; j += ROW_THREADS)
            to[j] += x[j];
    }
}

static __global__ void meet_kernel(struct meet_args a)
{
    int64_t row = blockIdx.x, at = a.index[row] - a.lo;
    unsigned *bits = (unsigned *)shared_memory();
    if (at < 0 || at >= a.n)
        return;
    bool is_later = false;
    for (int64_t i = threadIdx.x; i < row; i += ROW_THREADS)
        is_later |= a.index[i] == a.index[row];
    if (__syncthreads_or(is_later))
        return;
    for (int64_t from = row / ROW_THREADS * ROW_THREADS; from < a.m; from += ROW_THREADS) {
        if (meet_find(a, from, a.index[row], bits))
            meet_add(a, from, row, bits, a.y + at * a.ld_y);
        __syncthreads();
    }
}

int scatter_add_cuda(const void *args, void *stream)
{
    const struct k_gather *a = (const struct k_gather *)args;
    struct meet_args p = {.x = a->x,
                          .index = a->index,
                          .y = a->y,
                          .ld_x = a->ld_x,
                          .ld_y = a->ld_y,
                          .m = a->m,
                          .d = a->d,
                          .lo = 0,
                          .n = INT32_MAX};
    return launch_rows(meet_kernel, a->d > 0 ? a->m : 0, stream, p);
}

int embed_bwd_cuda(const void *args, void *stream)
{
    const struct k_embed_bwd *a = (const struct k_embed_bwd *)args;
    struct meet_args p = {.x = a->dy,
                          .index = a->token,
                          .y = a->dtable,
                          .ld_x = a->ld_dy,
                          .ld_y = a->k,
                          .m = a->m,
                          .d = a->k,
                          .lo = a->lo,
                          .n = a->n};
    return launch_rows(meet_kernel, a->k > 0 ? a->m : 0, stream, p);
}

/* ---- sums over rows ---- */

static __global__ void col_sum_kernel(struct k_col_sum a)
{
    int64_t j = cols_at();
    double sum = 0;
    for (int64_t i = cols_lane(); i < a.m && j < a.d; i += COLS_Y)
        sum += a.x[i * a.ld_x + j];
    sum = cols_sum(sum);
    if (cols_lane() == 0 && j < a.d)
        a.y[j] = (float)(a.y[j] + sum);
}

int col_sum_cuda(const void *args, void *stream)
{
    const struct k_col_sum *a = (const struct k_col_sum *)args;
    return launch_cols(col_sum_kernel, a->m > 0 ? a->d : 0, 1, stream, *a);
}

static __global__ void mean_pool_kernel(struct k_pool a)
{
    int64_t j = cols_at(), seq = blockIdx.y, lo = a.start[seq], hi = a.start[seq + 1];
    double sum = 0;
    for (int64_t i = lo + cols_lane(); i < hi && j < a.d; i += COLS_Y)
        sum += a.x[i * a.ld_x + j];
    sum = cols_sum(sum);
    if (cols_lane() == 0 && j < a.d)
        a.y[seq * a.ld_y + j] = hi > lo ? (float)sum / (float)(hi - lo) : 0.0f;
}

static __global__ void mean_pool_bwd_kernel(struct k_pool a)
{
    int64_t j = cols_at(), seq = blockIdx.y, lo = a.start[seq], hi = a.start[seq + 1];
    for (int64_t i = lo + cols_lane(); i < hi && j < a.d; i += COLS_Y)
        a.y[i * a.ld_y + j] = a.x[seq * a.ld_x + j] / (float)(hi - lo);
}

int mean_pool_cuda(const void *args, void *stream)
{
    const struct k_pool *a = (const struct k_pool *)args;
    return launch_cols(mean_pool_kernel, a->d, a->n_seq, stream, *a);
}

int mean_pool_bwd_cuda(const void *args, void *stream)
{
    const struct k_pool *a = (const struct k_pool *)args;
    return launch_cols(mean_pool_bwd_kernel, a->d, a->n_seq, stream, *a);
}
