/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of what moves columns, of heads and of rows. Pointers are borrowed for the call. Part
 * of kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_COLS_H
#define KERNELS_ARGS_COLS_H

#include "kernels/types.h"

enum { K_REGROUP_PARTS = 4 };

/* Of x, each of n_head runs of columns has part[0] columns, then part[1], ...; of y all runs'
 * part[0] come first, then all runs' part[1]. inverse: x is such a y, y such an x. */
struct k_regroup {
    const float *x;
    float *y;
    int64_t ld_x, ld_y, m;
    int32_t n_head, n_part, part[K_REGROUP_PARTS];
    bool inverse;
};

/* y[i, j] = x[i, at[j]]; inverse: y[i, at[j]] = x[i, j] */
struct k_reorder {
    const float *x;
    float *y;
    const int32_t *at; /* [d]: each of 0 to d - 1 once */
    int64_t ld_x, ld_y, m, d;
    bool inverse;
};

/* heads: y[i, h] = x[i, h, lo .. lo + n), then tail[i], which all heads share, or zeros where there
 * is no tail. heads_bwd, with y for dy: dx[i, h, lo .. lo + n) = y's part, 0 in the rest of it;
 * dtail[i] = the sum over heads, first to last, of their tails. Either NULL: not wanted */
struct k_heads {
    const float *x, *tail; /* [m, n_head, d_head], [m, n_tail] */
    float *y;              /* [m, n_head, n + n_tail] */
    int64_t ld_x, ld_tail, ld_y, m;
    int32_t n_head, d_head, lo, n, n_tail;
};

struct k_heads_bwd {
    struct k_heads fwd; /* its x and tail are not read, y is */
    float *dx, *dtail;
    int64_t ld_dx, ld_dtail, m; /* m: fwd.m again */
    bool add, add_tail;         /* to what is there */
};

#endif
