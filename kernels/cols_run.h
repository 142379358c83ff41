/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns for a weight gradient, x[m, n]: runs of LINEAR_DW_ROWS rows, each as the blocked rows
 * [n, rows] or as the panels of a weight [n, rows] that its transpose would be.
 *
 * Thread: any.
 */
#ifndef KERNELS_COLS_RUN_H
#define KERNELS_COLS_RUN_H

#include "kernels/linear.h"

/* Rows of the run that begins at row `lo`, and where its numbers begin. */
static inline int64_t cols_run_rows(int64_t m, int64_t lo)
{
    return linear_min(m - lo, LINEAR_DW_ROWS);
}

static inline size_t cols_run_at(enum k_type type, int64_t n, bool is_panels, int64_t lo)
{
    int64_t wide = is_panels ? linear_panels(n) * K_NR : n;
    return (size_t)(lo * wide) * (type == K_F32 ? sizeof(float) : sizeof(k_bf16));
}

#endif
