/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding, and the writing of keys and values into their cells. A thread has one
 * pair of one head, or one number past those that turn. Both products of a result are rounded
 * before they are added. Rows past the last sequence's end are nobody's: they write nothing.
 */
#include "kernels/cuda/rows.cuh"

static __device__ __forceinline__ void turn(const struct k_rope &a, int64_t r, int64_t head,
                                            int32_t i)
{
    int32_t half = a.d_rot / 2, i0 = a.interleaved ? 2 * i : i,
            i1 = a.interleaved ? i0 + 1 : i + half;
    const float *x = a.x + r * a.ld_x + head;
    float *y = a.y + r * a.ld_y + head;
    int64_t angle = (int64_t)a.pos[r] * half + i;
    float c = a.cos[angle], s = a.inverse ? -a.sin[angle] : a.sin[angle], x0 = x[i0], x1 = x[i1];
    y[i0] = x0 * c - x1 * s;
    y[i1] = x1 * c + x0 * s;
}

/* Columns: of each head d_rot / 2 pairs, then what does not turn. */
static __global__ void rope_kernel(struct k_rope a)
{
    int32_t half = a.d_rot / 2, each = a.d_head - half;
    for (int64_t r = each_row(); r < a.m; r += each_rows()) {
        for (int64_t j = each_col(); j < each_end((int64_t)a.n_head * each); j += EACH_X) {
            int32_t i = (int32_t)(j % each);
            int64_t head = j / each * a.d_head;
            if (i < half)
                turn(a, r, head, i);
            else
                a.y[r * a.ld_y + head + i + half] = a.x[r * a.ld_x + head + i + half];
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

static __global__ void kv_write_kernel(struct k_kv_write a)
{
    const struct k_kv_cache &c = a.cache;
    const struct k_ragged &b = a.batch;
    int64_t width = (int64_t)c.n_kv_head * c.d_head, n_tok = least(b.n_tok, b.q_start[b.n_seq]);
    for (int64_t t = each_row(); t < n_tok; t += each_rows()) {
        int64_t pos = b.pos[t], place = b.cell[b.seq_of[t] * b.cell_stride + pos / K_CELL];
        for (int64_t j = each_col(); j < each_end(width); j += EACH_X) {
            int64_t cell = (j / c.d_head * c.n_cell + place) * K_CELL * c.d_head;
            int64_t at = cell + cuda_kv_at(c.d_head, pos, j % c.d_head);
            cell_put(c.type, c.k, at, a.k[t * a.ld_k + j]);
            cell_put(c.type, c.v, at, a.v[t * a.ld_v + j]);
        }
    }
}

int kv_write_cuda(const void *args, void *stream)
{
    const struct k_kv_write *a = (const struct k_kv_write *)args;
    return launch_each(kv_write_kernel, a->batch.n_tok,
                       (int64_t)a->cache.n_kv_head * a->cache.d_head, stream, *a);
}
