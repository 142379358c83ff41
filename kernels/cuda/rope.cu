/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding, and the writing of keys and values into their cells, alone and in one
 * launch. A thread has one pair of one head, or one number past those that turn. Both products of a
 * result are rounded before they are added. Cells of codes want a head's largest number first:
 * there a block has a head of a row.
 */
#include "kernels/cell_codes.h"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/rows.cuh"

/* A pair, turned. */
struct pair {
    float y0, y1;
};

static __device__ __forceinline__ struct pair turned(float x0, float x1, float c, float s)
{
    struct pair p = {x0 * c - x1 * s, x1 * c + x0 * s};
    return p;
}

/* Where the two of pair i stand in their head. */
static __device__ __forceinline__ int32_t pair_lo(bool interleaved, int32_t i)
{
    return interleaved ? 2 * i : i;
}

static __device__ __forceinline__ int32_t pair_hi(bool interleaved, int32_t i, int32_t half)
{
    return interleaved ? 2 * i + 1 : i + half;
}

static __device__ __forceinline__ void turn(const struct k_rope &a, int64_t r, int64_t head,
                                            int32_t i)
{
    int32_t half = a.d_rot / 2, i0 = pair_lo(a.interleaved, i),
            i1 = pair_hi(a.interleaved, i, half);
    const float *x = a.x + r * a.ld_x + head + a.at;
    float *y = a.y + r * a.ld_y + head + a.at;
    int64_t angle = (int64_t)a.pos[r] * half + i;
    float s = a.inverse ? -a.sin[angle] : a.sin[angle];
    struct pair p = turned(x[i0], x[i1], a.cos[angle], s);
    y[i0] = p.y0;
    y[i1] = p.y1;
}

/* Columns: of each head d_rot / 2 pairs, then what stands before those and behind. */
static __global__ void rope_kernel(struct k_rope a)
{
    int32_t half = a.d_rot / 2, each = a.d_head - half;
    for (int64_t r = each_row(); r < a.m; r += each_rows()) {
        for (int64_t j = each_col(); j < each_end((int64_t)a.n_head * each); j += EACH_X) {
            int32_t i = (int32_t)(j % each);
            int64_t head = j / each * a.d_head;
            if (i < half) {
                turn(a, r, head, i);
                continue;
            }
            head += i - half < a.at ? i - half : i + half;
            a.y[r * a.ld_y + head] = a.x[r * a.ld_x + head];
        }
    }
}

int rope_cuda(const void *args, void *stream)
{
    const struct k_rope *a = (const struct k_rope *)args;
    return launch_each(rope_kernel, a->m, (int64_t)a->n_head * (a->d_head - a->d_rot / 2), stream,
                       *a);
}

static __device__ __forceinline__ void cell_put(enum k_type type, void *cells, int64_t at, float x)
{
    if (type == K_BF16)
        ((k_bf16 *)cells)[at] = (k_bf16)bf16_bits(x);
    else
        ((float *)cells)[at] = x;
}

/* Where number j of row t of a head of k, or of v, stands in the cells. */
static __device__ __forceinline__ int64_t cell_at(const struct k_kv_write &w, int64_t t,
                                                  int64_t head, int64_t j)
{
    const struct k_ragged &b = w.batch;
    int64_t pos = b.pos[t], place = b.cell[b.seq_of[t] * b.cell_stride + pos / K_CELL];
    return (head * w.cache.n_cell + place) * K_CELL * w.cache.d_head +
           cuda_kv_at(w.cache.d_head, pos, j);
}

static __global__ void kv_write_kernel(struct k_kv_write a)
{
    const struct k_kv_cache &c = a.cache;
    int64_t width = (int64_t)c.n_kv_head * c.d_head;
    for (int64_t t = each_row(); t < a.batch.n_tok; t += each_rows()) {
        for (int64_t j = each_col(); j < each_end(width); j += EACH_X) {
            int64_t at = cell_at(a, t, j / c.d_head, j % c.d_head);
            cell_put(c.type, c.k, at, a.k[t * a.ld_k + j]);
            cell_put(c.type, c.v, at, a.v[t * a.ld_v + j]);
        }
    }
}

/* The block writes a head's numbers of row t, from `x`, to cells of codes. `shared` has a number
 * for each warp, and nobody reads it any more. */
static __device__ void codes_put(const struct k_kv_write &w, void *cells, int64_t t, int64_t head,
                                 const float *x, float *shared)
{
    const struct k_ragged &b = w.batch;
    int32_t d = w.cache.d_head, pos = b.pos[t];
    int64_t place = b.cell[b.seq_of[t] * b.cell_stride + pos / K_CELL];
    char *cell = (char *)cells + (head * w.cache.n_cell + place) * cuda_cell_bytes(w.cache.type, d);
    float most_x = 0;
    for (int32_t j = (int32_t)threadIdx.x; j < d; j += ROW_THREADS)
        most_x = fmaxf(most_x, fabsf(x[j]) < INFINITY ? fabsf(x[j]) : INFINITY);
    struct cell_scale s = cell_scale_of(block_max(most_x, shared));
    for (int32_t j = (int32_t)threadIdx.x; j < d; j += ROW_THREADS)
        ((int8_t *)cell)[cuda_kv_at(d, pos, j)] = cell_code_of(x[j], s);
    if (threadIdx.x == 0)
        ((float *)(cell + cell_scales_at(d)))[pos % K_CELL] = s.scale;
}

static __global__ void kv_write_codes_kernel(struct k_kv_write a)
{
    const struct k_kv_cache &c = a.cache;
    int64_t t = blockIdx.x / c.n_kv_head, head = blockIdx.x % c.n_kv_head;
    float *shared = (float *)shared_memory();
    codes_put(a, c.k, t, head, a.k + t * a.ld_k + head * c.d_head, shared);
    codes_put(a, c.v, t, head, a.v + t * a.ld_v + head * c.d_head, shared);
}

int kv_write_cuda(const void *args, void *stream)
{
    const struct k_kv_write *a = (const struct k_kv_write *)args;
    if (a->cache.type == K_INT8)
        return launch_rows(kv_write_codes_kernel, a->batch.n_tok * a->cache.n_kv_head, stream, *a);
    return launch_each(kv_write_kernel, a->batch.n_tok,
                       (int64_t)a->cache.n_kv_head * a->cache.d_head, stream, *a);
}

/* ---- all in one ---- */

/* Number j of a turned head: of q's to y, of k's to its cell. Heads are numbered through. */
static __device__ __forceinline__ void head_put(const struct k_rope_kv &a, int64_t t, int64_t head,
                                                int32_t j, float x)
{
    if (head < a.n_head)
        a.y[t * a.ld_y + head * a.kv.cache.d_head + j] = x;
    else
        cell_put(a.kv.cache.type, a.kv.cache.k, cell_at(a.kv, t, head - a.n_head, j), x);
}

static __device__ __forceinline__ const float *head_get(const struct k_rope_kv &a, int64_t t,
                                                        int64_t head)
{
    int32_t d = a.kv.cache.d_head;
    return head < a.n_head ? a.q + t * a.ld_q + head * d
                           : a.kv.k + t * a.kv.ld_k + (head - a.n_head) * d;
}

/* Pair i of a head, or, from d_rot / 2 on, a number that does not turn. */
static __device__ __forceinline__ void head_turn(const struct k_rope_kv &a, int64_t t, int64_t head,
                                                 const float *x, int32_t i)
{
    int32_t half = a.d_rot / 2;
    if (i >= half) {
        head_put(a, t, head, i + half, x[i + half]);
        return;
    }
    int32_t i0 = pair_lo(a.interleaved, i), i1 = pair_hi(a.interleaved, i, half);
    int64_t angle = (int64_t)a.turn[t] * half + i;
    struct pair p = turned(x[i0], x[i1], a.cos[angle], a.sin[angle]);
    head_put(a, t, head, i0, p.y0);
    head_put(a, t, head, i1, p.y1);
}

/* Columns: what turns and what is left of each head of q, then of k; then the numbers of v. */
static __global__ void rope_kv_kernel(struct k_rope_kv a)
{
    const struct k_kv_cache &c = a.kv.cache;
    int32_t each = c.d_head - a.d_rot / 2;
    int64_t n_turned = (int64_t)(a.n_head + c.n_kv_head) * each;
    int64_t n = n_turned + (int64_t)c.n_kv_head * c.d_head;
    for (int64_t t = each_row(); t < a.kv.batch.n_tok; t += each_rows()) {
        for (int64_t j = each_col(); j < each_end(n); j += EACH_X) {
            int64_t head = j / each, i = j - n_turned;
            if (i < 0)
                head_turn(a, t, head, head_get(a, t, head), (int32_t)(j % each));
            else
                cell_put(c.type, c.v, cell_at(a.kv, t, i / c.d_head, i % c.d_head),
                         a.kv.v[t * a.kv.ld_v + i]);
        }
    }
}

/* A block has a head of a row, as in rmsnorm, whose sums these are: one of q, or one of k with that
 * of v. */
static __global__ void rope_kv_norm_kernel(struct k_rope_kv a)
{
    const struct k_kv_cache &c = a.kv.cache;
    int64_t n_head = a.n_head + c.n_kv_head, t = blockIdx.x / n_head, head = blockIdx.x % n_head;
    float *x = (float *)shared_memory() + ROW_THREADS / FULL_WARP;
    const float *from = head_get(a, t, head), *weight = head < a.n_head ? a.q_weight : a.k_weight;
    float rstd = run_rstd(from, c.d_head, a.eps, (float *)shared_memory());
    for (int32_t j = (int32_t)threadIdx.x; j < c.d_head; j += ROW_THREADS)
        x[j] = from[j] * rstd * (a.plus_one ? 1 + weight[j] : weight[j]);
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < c.d_head - a.d_rot / 2; i += ROW_THREADS)
        head_turn(a, t, head, x, i);
    head -= a.n_head;
    for (int32_t j = (int32_t)threadIdx.x; j < c.d_head && head >= 0; j += ROW_THREADS)
        cell_put(c.type, c.v, cell_at(a.kv, t, head, j),
                 a.kv.v[t * a.kv.ld_v + head * c.d_head + j]);
}

/* The same over cells of codes, with weights or without. A head of k is turned in shared memory. */
static __global__ void rope_kv_codes_kernel(struct k_rope_kv a)
{
    const struct k_kv_cache &c = a.kv.cache;
    int64_t n_head = a.n_head + c.n_kv_head, t = blockIdx.x / n_head, head = blockIdx.x % n_head;
    float *sums = (float *)shared_memory(), *x = sums + ROW_THREADS / FULL_WARP, *y = x + c.d_head;
    const float *from = head_get(a, t, head), *weight = head < a.n_head ? a.q_weight : a.k_weight;
    float rstd = weight ? run_rstd(from, c.d_head, a.eps, sums) : 1;
    int32_t half = a.d_rot / 2;
    if (head < a.n_head)
        y = a.y + t * a.ld_y + head * c.d_head;
    for (int32_t j = (int32_t)threadIdx.x; j < c.d_head; j += ROW_THREADS)
        x[j] = !weight ? from[j] : from[j] * rstd * (a.plus_one ? 1 + weight[j] : weight[j]);
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < c.d_head - half; i += ROW_THREADS) {
        if (i >= half) {
            y[i + half] = x[i + half];
            continue;
        }
        int32_t i0 = pair_lo(a.interleaved, i), i1 = pair_hi(a.interleaved, i, half);
        int64_t angle = (int64_t)a.turn[t] * half + i;
        struct pair p = turned(x[i0], x[i1], a.cos[angle], a.sin[angle]);
        y[i0] = p.y0;
        y[i1] = p.y1;
    }
    head -= a.n_head;
    if (head < 0)
        return;
    __syncthreads();
    codes_put(a.kv, c.k, t, head, y, sums);
    codes_put(a.kv, c.v, t, head, a.kv.v + t * a.kv.ld_v + head * c.d_head, sums);
}

int rope_kv_cuda(const void *args, void *stream)
{
    const struct k_rope_kv *a = (const struct k_rope_kv *)args;
    const struct k_kv_cache *c = &a->kv.cache;
    int64_t n_tok = a->kv.batch.n_tok, n_head = (int64_t)a->n_head + c->n_kv_head;
    size_t shared = (ROW_THREADS / FULL_WARP + (size_t)c->d_head) * sizeof(float);
    if (c->type == K_INT8)
        return launch(rope_kv_codes_kernel, dim3((unsigned)(n_tok * n_head)), dim3(ROW_THREADS),
                      shared + (size_t)c->d_head * sizeof(float), stream, *a);
    if (!a->q_weight)
        return launch_each(rope_kv_kernel, n_tok,
                           n_head * (c->d_head - a->d_rot / 2) + (int64_t)c->n_kv_head * c->d_head,
                           stream, *a);
    return launch(rope_kv_norm_kernel, dim3((unsigned)(n_tok * n_head)), dim3(ROW_THREADS), shared,
                  stream, *a);
}
