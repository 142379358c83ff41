/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of DoRA: outputs of a product whose weight's rows an adapter gives other lengths.
 * y = gain (w x + scale b a x), gain = magnitude / length of the row w + scale b a; a bias stays as
 * it is. The lengths are constants to a gradient. Pointers are borrowed for the call. Part of
 * kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_DORA_H
#define KERNELS_ARGS_DORA_H

#include "kernels/types.h"

struct k_lora_group;

enum { K_DORA_ROWS = 4 }; /* rows of a weight that share what is read of a */

struct k_dora_gain { /* unit: K_DORA_ROWS rows */
    const float *w;  /* [n, k], of weight_unpack */
    int64_t ld_w, n, k, rank;
    const float *a, *b; /* [rank, k], [n, rank] */
    float scale;
    const float *magnitude; /* [n]; NULL: no gain is wanted */
    float *norm, *gain;     /* [n]; the gain of a row of zeros is 0 */
};

/* Rows of the groups that have gains: y = gain y + (1 - gain) bias, of a y that holds the bias. */
struct k_dora { /* unit: a row */
    float *y;
    int64_t ld_y, m, n;
    const float *bias;                /* [n]; NULL: there is none in y */
    const struct k_lora_group *group; /* disjoint, ascending rows */
    int64_t n_group;
};

/* dmagnitude += the sum over its group's rows of dy (x - bias) / norm, x as y was before dora. */
struct k_dora_dw { /* unit: a run of columns */
    const float *x, *dy;
    int64_t ld_x, ld_dy, m, n;
    const float *bias;
    const struct k_lora_group *group;
    int64_t n_group;
};

#endif
