/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the kernels that add up rows, for the width of kernels/x86/vec.h. Moving rows as
 * they are is memcpy, and the reference of it stays.
 */
#ifndef KERNELS_X86_MOVE_H
#define KERNELS_X86_MOVE_H

#include <string.h>

#include "kernels/x86/cols.h"

static inline void row_add(float *y, const float *x, int64_t lo, int64_t hi)
{
    for (int64_t j = lo; j < hi; j += VF) {
        int n = vf_count(hi, j);
        vf_store(y + j, vf_add(vf_load(y + j, n), vf_load(x + j, n)), n);
    }
}

static inline void embed_bwd_runs(const struct k_embed_bwd *a, int64_t lo, int64_t hi)
{
    int64_t end = rows_min(hi * ROWS_COLS, a->k);
    for (int64_t i = 0; i < a->m; i++) {
        int64_t at = a->token[i] - a->lo;
        if (at >= 0 && at < a->n)
            row_add(a->dtable + at * a->k, a->dy + i * a->ld_dy, lo * ROWS_COLS, end);
    }
}

static inline void scatter_add_runs(const struct k_gather *a, int64_t lo, int64_t hi)
{
    int64_t end = rows_min(hi * ROWS_COLS, a->d);
    for (int64_t i = 0; i < a->m; i++)
        row_add(a->y + a->index[i] * a->ld_y, a->x + i * a->ld_x, lo * ROWS_COLS, end);
}

/* y = x / n over columns [lo, hi) */
static inline void row_div(float *y, const float *x, float n, int64_t lo, int64_t hi)
{
    vf by = vf_set(n);
    for (int64_t j = lo; j < hi; j += VF) {
        int count = vf_count(hi, j);
        vf_store(y + j, vf_div(vf_load(x + j, count), by), count);
    }
}

static inline void mean_pool_runs(const struct k_pool *a, int64_t lo, int64_t hi)
{
    int64_t runs = rows_runs(a->d);
    for (int64_t u = lo; u < hi; u++) {
        int64_t seq = u / runs, from = u % runs * ROWS_COLS;
        int64_t to = rows_min(from + ROWS_COLS, a->d);
        struct cols c = {.x = a->x + a->start[seq] * a->ld_x,
                         .ld_x = a->ld_x,
                         .m = a->start[seq + 1] - a->start[seq],
                         .d = a->d};
        float *y = a->y + seq * a->ld_y;
        memset(y + from, 0, (size_t)(to - from) * sizeof *y);
        if (c.m > 0) {
            cols_sum(&c, COLS_X, from, to, y);
            row_div(y, y, (float)c.m, from, to);
        }
    }
}

static inline void mean_pool_bwd_runs(const struct k_pool *a, int64_t lo, int64_t hi)
{
    int64_t runs = rows_runs(a->d);
    for (int64_t u = lo; u < hi; u++) {
        int64_t seq = u / runs, from = u % runs * ROWS_COLS;
        int64_t to = rows_min(from + ROWS_COLS, a->d);
        float n = (float)(a->start[seq + 1] - a->start[seq]);
        for (int64_t i = a->start[seq]; i < a->start[seq + 1]; i++)
            row_div(a->y + i * a->ld_y, a->x + seq * a->ld_x, n, from, to);
    }
}

#endif
