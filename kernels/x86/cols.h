/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums down the columns, for the width of kernels/x86/vec.h: the gradients of norm weights and of
 * biases. Four vectors of columns at a time walk all rows; ROWS_BLOCK rows make a partial sum,
 * which joins the total, so that a long sum loses no more than a short one. The order is that of
 * the rows.
 */
#ifndef KERNELS_X86_COLS_H
#define KERNELS_X86_COLS_H

#include "kernels/kernels.h"
#include "kernels/shape/rows.h"
#include "kernels/x86/vec.h"

/* What is summed: x; dy x rstd; dy (x - mean) rstd; dy. */
enum cols_term { COLS_X, COLS_RMS, COLS_LAYER, COLS_DY };

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

/* Adds rows [lo, hi) of columns j... to sum; n: how many of each vector exist. */
__attribute__((always_inline)) static inline void cols_block(const struct cols *c,
                                                             enum cols_term term, int64_t lo,
                                                             int64_t hi, int64_t j, const int *n,
                                                             vf *sum)
{
    vf p0 = vf_zero(), p1 = p0, p2 = p0, p3 = p0;
    for (int64_t i = lo; i < hi; i++) {
        p0 = vf_add(p0, cols_at(c, term, i, j, n[0]));
        p1 = vf_add(p1, cols_at(c, term, i, j + VF, n[1]));
        p2 = vf_add(p2, cols_at(c, term, i, j + 2 * VF, n[2]));
        p3 = vf_add(p3, cols_at(c, term, i, j + 3 * VF, n[3]));
    }
    sum[0] = vf_add(sum[0], p0);
    sum[1] = vf_add(sum[1], p1);
    sum[2] = vf_add(sum[2], p2);
    sum[3] = vf_add(sum[3], p3);
}

/* out[j] += the sum of column j, for j in [lo, hi) */
__attribute__((always_inline)) static inline void
cols_sum(const struct cols *c, enum cols_term term, int64_t lo, int64_t hi, float *out)
{
    for (int64_t j = lo; j < hi; j += 4 * VF) {
        vf sum[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
        static const int all[4] = {VF, VF, VF, VF};
        int n[4];
        for (int t = 0; t < 4; t++)
            n[t] = j + t * VF < hi ? vf_count(hi, j + t * VF) : 0;
        for (int64_t i = 0; i < c->m; i += ROWS_BLOCK) {
            if (n[3] == VF)
                cols_block(c, term, i, rows_min(i + ROWS_BLOCK, c->m), j, all, sum);
            else
                cols_block(c, term, i, rows_min(i + ROWS_BLOCK, c->m), j, n, sum);
        }
        for (int t = 0; t < 4 && n[t] > 0; t++) {
            float *o = out + j + t * VF;
            vf_store(o, vf_add(vf_load(o, n[t]), sum[t]), n[t]);
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
