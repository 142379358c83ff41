/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of rows that go through a model on several tracks at once, side by side in their
 * columns (AltUp, of Gemma 3n). Pointers are borrowed for the call. Part of kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_TRACKS_H
#define KERNELS_ARGS_TRACKS_H

#include <stdbool.h>
#include <stdint.h>

/* Of each row, of n runs of d columns: y_i = base_i + sum over j of (c[i * step_i + j * step_j] +
 * plus) x_j, j ascending; no base: zeros, no c: plus alone. y may be base, and no other. */
struct k_mix {
    const float *base; /* [m, n * d] */
    const float *x;    /* [m, k * d] */
    const float *c;    /* [m, n * k] */
    float *y;          /* [m, n * d] */
    int64_t ld_base, ld_x, ld_c, ld_y, m, d;
    int32_t n, k, step_i, step_j;
    float plus;
};

/* y[i * k + j] = a_i . b_j: dc of mix, of dy and x. */
struct k_mix_dot {
    const float *a; /* [m, n * d] */
    const float *b; /* [m, k * d] */
    float *y;       /* [m, n * k] */
    int64_t ld_a, ld_b, ld_y, m, d;
    int32_t n, k;
};

/* y = x * rms(like) / max(rms(x), least): rows as large as others. match_bwd: dx and dlike. */
struct k_match {
    const float *x, *like, *dy; /* [m, d] */
    float *y, *dx, *dlike;      /* dx, dlike: NULL where not wanted */
    int64_t ld_x, ld_like, ld_dy, ld_y, ld_dx, ld_dlike, m, d;
    float least;
};

/* y = max(x - mean - times * std, 0), both of the row: the few numbers of it that are far above
 * the others. cutoff_bwd: dx, in y, from dy. */
struct k_cutoff {
    const float *x, *dy; /* [m, d] */
    float *y;            /* may be x, or dy */
    int64_t ld_x, ld_dy, ld_y, m, d;
    float times;
};

#endif
