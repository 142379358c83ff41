/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums over the long side of an adapter: twelve vectors of sums at a time, which two
 * multipliers keep busy. A tail is loaded masked, so that a sum is the same tree whatever the
 * length.
 */
#include <string.h>

#include "kernels/x86/block_avx2.h"
#include "kernels/x86/vec.h"

#define TILE_INLINE static inline __attribute__((always_inline))

enum {
    DOT_ROWS = 6,
    DOT_RANKS = 32, /* whose sums wait in memory */
    DOT_RUN = 512,  /* inputs, of which the rows stay in the first cache while the ranks pass */
    DOT_SUMS = 12,
    DOT_KEEP = 3,
    AXPY_ROWS = 6, /* of two vectors of ranks; of one, twice as many */
};

/* ---- t = x a^T ---------------------------------------------------------------------------- */

/* Some rows by up to DOT_RANKS ranks, from `row` and `rank` on. */
struct dot {
    const struct k_lora *a;
    const struct k_lora_group *g;
    int64_t row, rank, n_rank;
    vf *sum; /* [][DOT_RANKS] */
};

TILE_INLINE vf widened(__m128i x)
{
    return vf_from_bits(vi_shl(_mm256_cvtepu16_epi32(x), 16));
}

/* a[at..], n numbers. */
TILE_INLINE vf a_at(bool is_bf16, const struct k_lora_group *g, int64_t at, int n)
{
    return is_bf16 ? widened(half_load(g->a_bf16 + at, n)) : vf_load(g->a + at, n);
}

/* x[i..] of row j, n numbers. */
TILE_INLINE vf x_at(const struct dot *d, int j, int64_t i, int n)
{
    return vf_load(d->a->x + (d->row + j) * d->a->ld_x + i, n);
}

/* Inputs [i, i + n) of `rows` rows and `ranks` ranks from q on. There are registers for the fewer
 * of rows and ranks; the others come one by one. */
TILE_INLINE void dot_step(bool is_bf16, int rows, int ranks, const struct dot *d, int64_t q,
                          int64_t i, int n, vf *sum)
{
    const int fewer = rows < ranks ? rows : ranks;
    vf keep[DOT_KEEP];
#pragma GCC unroll 3
    for (int j = 0; j < fewer; j++)
        keep[j] = rows < ranks ? x_at(d, j, i, n)
                               : a_at(is_bf16, d->g, (d->rank + q + j) * d->a->k + i, n);
#pragma GCC unroll 8
    for (int p = 0; p < (rows < ranks ? ranks : rows); p++) {
        vf v = rows < ranks ? a_at(is_bf16, d->g, (d->rank + q + p) * d->a->k + i, n)
                            : x_at(d, p, i, n);
#pragma GCC unroll 3
        for (int j = 0; j < fewer; j++) {
            int at = rows < ranks ? j * ranks + p : p * ranks + j;
            sum[at] = vf_fma(keep[j], v, sum[at]);
        }
    }
}

/* Inputs [lo, hi): sums from memory and back. */
TILE_INLINE void dot_run(bool is_bf16, int rows, int ranks, const struct dot *d, int64_t q,
                         int64_t lo, int64_t hi)
{
    vf sum[DOT_SUMS];
    int64_t i = lo;
#pragma GCC unroll 12
    for (int j = 0; j < rows * ranks; j++)
        sum[j] = lo ? d->sum[j / ranks * DOT_RANKS + q + j % ranks] : vf_zero();
    for (; i + VF <= hi; i += VF)
        dot_step(is_bf16, rows, ranks, d, q, i, VF, sum);
    if (i < hi)
        dot_step(is_bf16, rows, ranks, d, q, i, (int)(hi - i), sum);
#pragma GCC unroll 12
    for (int j = 0; j < rows * ranks; j++)
        d->sum[j / ranks * DOT_RANKS + q + j % ranks] = sum[j];
}

/* The totals of eight vectors, each by vf_sum's tree. */
TILE_INLINE vf totals(const vf v[8])
{
    vf h[4], p[2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        h[i] = vf_add(_mm256_permute2f128_ps(v[i], v[i + 4], 0x20),
                      _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        p[i] = vf_add(_mm256_shuffle_ps(h[2 * i], h[2 * i + 1], 0x44),
                      _mm256_shuffle_ps(h[2 * i], h[2 * i + 1], 0xee));
    return vf_add(_mm256_shuffle_ps(p[0], p[1], 0x88), _mm256_shuffle_ps(p[0], p[1], 0xdd));
}

static void dot_put(const struct dot *d, int rows)
{
    for (int j = 0; j < rows; j++) {
        float *t = d->a->t + (d->row + j) * d->a->rank_max + d->rank;
        for (int64_t q = 0; q < d->n_rank; q += VF)
            vf_store(t + q, totals(d->sum + j * DOT_RANKS + q), vf_count(d->n_rank, q));
    }
}

/* `rows` rows; `ranks` of them at a time. */
TILE_INLINE void dot_rows(bool is_bf16, int rows, int ranks, const struct k_lora *a,
                          const struct k_lora_group *g, int64_t row)
{
    vf sum[DOT_ROWS * DOT_RANKS];
    struct dot d = {.a = a, .g = g, .row = row, .sum = sum};
    for (; d.rank < g->rank; d.rank += DOT_RANKS) {
        d.n_rank = linear_min(g->rank - d.rank, DOT_RANKS);
        int64_t lo = 0;
        do { /* without inputs, too: sums begin there */
            int64_t q = 0, hi = linear_min(a->k, lo + DOT_RUN);
            for (; q + ranks <= d.n_rank; q += ranks)
                dot_run(is_bf16, rows, ranks, &d, q, lo, hi);
            for (; q < d.n_rank; q++)
                dot_run(is_bf16, rows, 1, &d, q, lo, hi);
            lo += DOT_RUN;
        } while (lo < a->k);
        dot_put(&d, rows);
    }
}

TILE_INLINE void inner(bool is_bf16, const struct k_lora *a, const struct lora_rows *rows)
{
    int64_t row = rows->row_lo;
    for (; row + DOT_ROWS <= rows->row_hi; row += DOT_ROWS)
        dot_rows(is_bf16, DOT_ROWS, 2, a, rows->group, row);
    for (; row + 3 <= rows->row_hi; row += 3)
        dot_rows(is_bf16, 3, 4, a, rows->group, row);
    for (; row < rows->row_hi; row++)
        dot_rows(is_bf16, 1, 8, a, rows->group, row);
}

void lora_inner_avx2(const struct k_lora *a, const struct lora_rows *rows)
{
    if (rows->group->a_bf16)
        inner(true, a, rows);
    else
        inner(false, a, rows);
}

/* ---- dt = scale (dy b) -------------------------------------------------------------------- */

/* dt of `rows` rows, `vecs` vectors of ranks from r on, n numbers in the last one: a chain over the
 * outputs each. */
TILE_INLINE void axpy(int rows, int vecs, const struct k_lora_bwd *a, const struct k_lora_group *g,
                      int64_t row, int64_t r, int n)
{
    vf sum[DOT_SUMS];
    const float *dy = a->dy + row * a->ld_dy, *b = g->b + r;
#pragma GCC unroll 12
    for (int i = 0; i < rows * vecs; i++)
        sum[i] = vf_zero();
    for (int64_t o = 0; o < a->fwd.n; o++, b += g->rank) {
        vf last = vf_load(b + (vecs - 1) * VF, n), first = vecs > 1 ? vf_load(b, VF) : last;
#pragma GCC unroll 12
        for (int j = 0; j < rows; j++) {
            vf d = vf_set(dy[j * a->ld_dy + o]);
            sum[j * vecs] = vf_fma(d, first, sum[j * vecs]);
            if (vecs > 1)
                sum[j * vecs + 1] = vf_fma(d, last, sum[j * vecs + 1]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows * vecs; i++) {
        float *dt = a->dt + (row + i / vecs) * a->fwd.rank_max + r + i % vecs * VF;
        vf_store(dt, vf_mul(vf_set(g->scale), sum[i]), i % vecs == vecs - 1 ? n : VF);
    }
}

TILE_INLINE void axpy_rows(int vecs, const struct k_lora_bwd *a, const struct lora_rows *rows,
                           int64_t r, int n)
{
    const int most = vecs > 1 ? AXPY_ROWS : 2 * AXPY_ROWS;
    int64_t row = rows->row_lo;
    for (; row + most <= rows->row_hi; row += most)
        axpy(most, vecs, a, rows->group, row, r, n);
    for (; row + 4 <= rows->row_hi; row += 4)
        axpy(4, vecs, a, rows->group, row, r, n);
    for (; row < rows->row_hi; row++)
        axpy(1, vecs, a, rows->group, row, r, n);
}

void lora_inner_bwd_avx2(const struct k_lora_bwd *a, const struct lora_rows *rows)
{
    int64_t rank = rows->group->rank, r = 0;
    for (; r + 2 * VF <= rank; r += 2 * VF)
        axpy_rows(2, a, rows, r, VF);
    for (; r + VF <= rank; r += VF)
        axpy_rows(1, a, rows, r, VF);
    if (r < rank)
        axpy_rows(1, a, rows, r, (int)(rank - r));
}
