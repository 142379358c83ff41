/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums down the columns, for the width of kernels/x86/vec.h: the gradients of norm weights and of
 * biases. ROWS_BLOCK rows make a partial sum, which joins the total, so that a long sum loses no
 * more than a short one; the order is that of the rows. Rows are read a few at a time and along
 * their length, with the partial sums of COLS_SPAN columns in the first cache: rows that are a
 * power of two apart would push each other out if they were read down the columns.
 */
#ifndef KERNELS_X86_COLS_H
#define KERNELS_X86_COLS_H

#include <string.h>

#include "kernels/kernels.h"
#include "kernels/shape/rows.h"
#include "kernels/x86/vec.h"

/* What is summed: x; dy x rstd; dy (x - mean) rstd; dy. */
enum cols_term { COLS_X, COLS_RMS, COLS_LAYER, COLS_DY };

enum {
    COLS_SPAN = 1024, /* columns whose sums are kept at once: in the first cache */
    COLS_STRIP = 4    /* rows read side by side: few enough not to evict each other at any stride */
};

struct cols {
    const float *x, *dy, *stat;
    int64_t ld_x, ld_dy, m, d, n_head; /* m: of runs; n_head 0: rows */
};

__attribute__((always_inline)) static inline vf cols_at(const struct cols *c, enum cols_term term,
                                                        int64_t i, int64_t j, int n)
{
    if (term == COLS_DY)
        return vf_load(c->dy + rows_run_at(i, c->n_head, c->ld_dy, c->d) + j, n);
    vf x = vf_load(c->x + rows_run_at(i, c->n_head, c->ld_x, c->d) + j, n);
    if (term == COLS_X)
        return x;
    if (term == COLS_LAYER)
        x = vf_mul(vf_sub(x, vf_set(c->stat[2 * i])), vf_set(c->stat[2 * i + 1]));
    else
        x = vf_mul(x, vf_set(c->stat[i]));
    return vf_mul(x, vf_load(c->dy + rows_run_at(i, c->n_head, c->ld_dy, c->d) + j, n));
}

/* Adds rows [lo, hi) of columns j... to part; n: how many of each vector exist. */
__attribute__((always_inline)) static inline void cols_block(const struct cols *c,
                                                             enum cols_term term, int64_t lo,
                                                             int64_t hi, int64_t j, const int *n,
                                                             float *part)
{
    vf p0 = vf_load(part, VF), p1 = vf_load(part + VF, VF);
    vf p2 = vf_load(part + 2 * VF, VF), p3 = vf_load(part + 3 * VF, VF);
    for (int64_t i = lo; i < hi; i++) {
        p0 = vf_add(p0, cols_at(c, term, i, j, n[0]));
        p1 = vf_add(p1, cols_at(c, term, i, j + VF, n[1]));
        p2 = vf_add(p2, cols_at(c, term, i, j + 2 * VF, n[2]));
        p3 = vf_add(p3, cols_at(c, term, i, j + 3 * VF, n[3]));
    }
    vf_store(part, p0, VF);
    vf_store(part + VF, p1, VF);
    vf_store(part + 2 * VF, p2, VF);
    vf_store(part + 3 * VF, p3, VF);
}

/* The same for all columns of a span, [j, hi). */
__attribute__((always_inline)) static inline void cols_strip(const struct cols *c,
                                                             enum cols_term term, int64_t lo,
                                                             int64_t hi, int64_t j, int64_t col_hi,
                                                             float *part)
{
    static const int all[4] = {VF, VF, VF, VF};
    int64_t at = j;
    for (; at + 4 * VF <= col_hi; at += 4 * VF)
        cols_block(c, term, lo, hi, at, all, part + (at - j));
    if (at < col_hi) {
        int n[4];
        for (int t = 0; t < 4; t++)
            n[t] = at + t * VF < col_hi ? vf_count(col_hi, at + t * VF) : 0;
        cols_block(c, term, lo, hi, at, n, part + (at - j));
    }
}

/* The totals of the columns [j, hi) of a span, rounded up to four vectors. */
__attribute__((always_inline)) static inline void
cols_span(const struct cols *c, enum cols_term term, int64_t j, int64_t hi, float *total)
{
    float part[COLS_SPAN];
    memset(total, 0, COLS_SPAN * sizeof *total);
    for (int64_t i = 0; i < c->m; i += ROWS_BLOCK) {
        int64_t end = rows_min(i + ROWS_BLOCK, c->m);
        memset(part, 0, sizeof part);
        for (int64_t r = i; r < end; r += COLS_STRIP)
            cols_strip(c, term, r, rows_min(r + COLS_STRIP, end), j, hi, part);
        for (int64_t at = 0; at < hi - j; at += VF)
            vf_store(total + at, vf_add(vf_load(total + at, VF), vf_load(part + at, VF)), VF);
    }
}

/* out[j] += the sum of column j, for j in [lo, hi) */
__attribute__((always_inline)) static inline void
cols_sum(const struct cols *c, enum cols_term term, int64_t lo, int64_t hi, float *out)
{
    float total[COLS_SPAN];
    for (int64_t j = lo; j < hi; j += COLS_SPAN) {
        int64_t end = rows_min(j + COLS_SPAN, hi);
        cols_span(c, term, j, end, total);
        for (int64_t at = j; at < end; at += VF) {
            int n = vf_count(end, at);
            vf_store(out + at, vf_add(vf_load(out + at, n), vf_load(total + at - j, n)), n);
        }
    }
}

static inline void col_sum_runs(const struct k_col_sum *a, int64_t lo, int64_t hi)
{
    struct cols c = {.x = a->x, .ld_x = a->ld_x, .m = a->m, .d = a->d};
    cols_sum(&c, COLS_X, lo * ROWS_COLS, rows_min(hi * ROWS_COLS, a->d), a->y);
}

static inline struct cols cols_of_norm(const struct k_norm_bwd *a)
{
    return (struct cols){.x = a->x,
                         .dy = a->dy,
                         .stat = a->stat,
                         .ld_x = a->ld_x,
                         .ld_dy = a->ld_dy,
                         .m = rows_run_count(a->m, a->n_head),
                         .d = a->d,
                         .n_head = a->n_head};
}

static inline void rmsnorm_dw_runs(const struct k_norm_bwd *a, int64_t lo, int64_t hi)
{
    struct cols c = cols_of_norm(a);
    cols_sum(&c, COLS_RMS, lo * ROWS_COLS, rows_min(hi * ROWS_COLS, a->d), a->dweight);
}

static inline void layernorm_dw_runs(const struct k_norm_bwd *a, int64_t lo, int64_t hi)
{
    struct cols c = cols_of_norm(a);
    int64_t col_lo = lo * ROWS_COLS, col_hi = rows_min(hi * ROWS_COLS, a->d);
    cols_sum(&c, COLS_LAYER, col_lo, col_hi, a->dweight);
    if (a->dbias)
        cols_sum(&c, COLS_DY, col_lo, col_hi, a->dbias);
}

#endif
