/* SPDX-License-Identifier: Apache-2.0
 *
 * What the delta rule and the scan share: rows q, k and v as inputs 0 to 2, which kernel delta runs
 * down their sequences, and rates of each row that a kernel of the op's own has made of the rest.
 *
 * Backward makes states again: nothing of the forward is kept but the inputs. Trained rows are
 * whole sequences, which begin from zeros.
 *
 * Thread: that of the op's context.
 */
#ifndef ENGINE_OP_RECURRENCE_H
#define ENGINE_OP_RECURRENCE_H

#include "engine/base/carve.h"
#include "engine/op/ops.h"

/* Columns of q, k and v, then [n_v] of each input behind them; vectors of n_v. */
int recurrence_shape(const struct op_node *n, const struct op_shape *in,
                     const struct op_state_heads *h, const struct param *const *vec, int n_vec,
                     struct err *e);

float *recurrence_floats(struct carve *at, int64_t m, int64_t d);
float *recurrence_rates_at(struct carve *at, const struct op_state_heads *h, const int64_t *cap);

/* Room of a backward. */
struct recurrence_back {
    float *rate, *part, *border, *dv;
};

struct recurrence_back recurrence_back_at(struct carve *at, const struct op_state_heads *h,
                                          const int64_t *cap);

/* skip: as in struct k_delta. */
void recurrence_forward(struct op_ctx *c, const struct op_state_heads *h, const float *rate,
                        const float *skip);
/* dv, and `part` of the room. */
void recurrence_backward(struct op_ctx *c, const struct op_grad *g, const struct op_state_heads *h,
                         const struct recurrence_back *b, const float *skip);
/* What rows add to the gradient of a vector. */
void recurrence_sum_rows(struct op_ctx *c, const struct param *p, const float *x, int64_t ld);

/* This rank's heads, by its columns of k and v. */
void recurrence_localise(struct op_state_heads *h, const struct op_local *l);

#endif
