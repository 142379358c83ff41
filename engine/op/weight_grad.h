/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a trained matrix, dw = dy^T x: both sides' columns are packed, and multiplied
 * from there. Matrices that read the same x share its.
 */
#ifndef ENGINE_OP_WEIGHT_GRAD_H
#define ENGINE_OP_WEIGHT_GRAD_H

#include "engine/op/op.h"

struct op_weight_grad {
    const struct param *w; /* its grad: added to, or filled */
    const float *dy, *x;   /* [m, w->n], [m, w->k] */
    int64_t ld_dy, ld_x, m;
    void *dy_cols, *x_cols; /* room for either, 64-aligned: op_weight_grad_dy_bytes, _x_bytes */
    bool has_x_cols;        /* x is there, of another gradient */
};

size_t op_weight_grad_dy_bytes(const struct param *w, int64_t m);
size_t op_weight_grad_x_bytes(const struct param *w, int64_t m);

/* For steps that run at once: m is no count of the batch's. */
void op_weight_grad(struct op_ctx *c, const struct op_weight_grad *g);

#endif
