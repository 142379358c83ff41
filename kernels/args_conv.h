/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of the short convolution over a ragged batch. Pointers are borrowed for the call. Part
 * of kernels/kernels.h.
 */
#ifndef KERNELS_ARGS_CONV_H
#define KERNELS_ARGS_CONV_H

#include "kernels/args_attn.h"

/* conv: y = bias + sum over taps of weight * x, where the last tap is the row's own and those
 * before it are of the places before it in its sequence: rows of this call from x, rounded as the
 * cells would round them, others from the cells. Before place 0 there is nothing. conv_keep, behind
 * it: x into the cells (kernels/conv.h). Unit: a row */
struct k_conv {
    struct k_ragged batch;
    struct k_kv_cache cache; /* k: the rows that are kept; one head of d; v is not read */
    const float *x;          /* [n_tok, d] */
    const float *weight;     /* [d, n_tap] */
    const float *bias;       /* [d], or NULL */
    float *y;                /* [n_tok, d] */
    int64_t ld_x, ld_y, d;
    int32_t n_tap;
};

/* Of sequences whose rows are all in the call. conv_bwd: dx = , unit: a row. conv_dw: dweight += ,
 * unit: a run of columns */
struct k_conv_bwd {
    struct k_conv fwd; /* bias and y are not read */
    const float *dy;   /* [n_tok, d] */
    float *dx, *dweight;
    int64_t ld_dy, ld_dx;
};

#endif
