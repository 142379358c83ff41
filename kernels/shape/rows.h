/* SPDX-License-Identifier: Apache-2.0
 *
 * How the kernels on rows are cut. A unit is a row; where sums run over rows it is a run of
 * ROWS_COLS columns, so that every sum stays whole and in the order of the rows; of a flat array it
 * is K_SUM_CHUNK elements. Variants cut nothing else.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_SHAPE_ROWS_H
#define KERNELS_SHAPE_ROWS_H

#include "kernels/kernels.h"

enum {
    ROWS_COLS = 64, /* columns in a run: four vectors of 16 */
    ROWS_BLOCK = 32 /* rows of a partial sum, which then joins the total: keeps long sums exact */
};

static inline int64_t rows_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t rows_runs(int64_t d)
{
    return (d + ROWS_COLS - 1) / ROWS_COLS;
}

static inline int64_t rows_chunks(int64_t n)
{
    return (n + K_SUM_CHUNK - 1) / K_SUM_CHUNK;
}

/* Where run i of a norm's rows begins: a row is n_head runs of d (0 reads as 1). */
static inline int64_t rows_run_at(int64_t i, int64_t n_head, int64_t ld, int64_t d)
{
    return n_head > 1 ? i / n_head * ld + i % n_head * d : i * ld;
}

static inline int64_t rows_run_count(int64_t m, int64_t n_head)
{
    return n_head > 1 ? m * n_head : m;
}

/* A call on m rows of d numbers: `touched` of them read or written for each element, `more` bytes
 * besides. */
static inline struct k_shape rows_shape(int64_t m, int64_t d, double touched, double more,
                                        double flops)
{
    double n = (double)m * (double)d;
    return (struct k_shape){
        .n_unit = d > 0 ? m : 0, .bytes = 4 * touched * n + more, .flops = flops * n};
}

/* The same where units are runs of columns. */
static inline struct k_shape rows_shape_cols(int64_t m, int64_t d, double touched, double more,
                                             double flops)
{
    struct k_shape s = rows_shape(m, d, touched, more, flops);
    s.n_unit = m > 0 ? rows_runs(d) : 0;
    return s;
}

static inline struct k_shape rows_shape_flat(int64_t n, double bytes_each, double flops_each)
{
    return (struct k_shape){
        .n_unit = rows_chunks(n), .bytes = bytes_each * (double)n, .flops = flops_each * (double)n};
}

#endif
