/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two norms share: everything but their kernels and what they keep of a row.
 *
 * With a second input, x + residual is normalised and comes out as the second output. The weight
 * may be shorter than the row: then each run of its length is normalised by itself (heads). Or it
 * is as long, and runs of d are, each by its own part of it (groups).
 *
 * Thread: as ops.
 */
#ifndef ENGINE_OP_NORM_H
#define ENGINE_OP_NORM_H

#include "engine/op/ops.h"

struct norm_attr {
    const struct param *weight, *bias; /* bias NULL: none; weight NULL (rmsnorm): ones */
    int64_t d; /* numbers of a run that is normalised by itself; to norm_add 0: the weight's */
    float eps;
    int32_t plus_one; /* rmsnorm by 1 + weight */
};

struct val norm_add(struct builder *b, enum op_id op, struct val x, const struct norm_attr *attr);

int norm_shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
               struct err *e);
size_t norm_save(const struct op_node *n, const struct op_shape *in, const int64_t *cap,
                 size_t n_stat); /* numbers kept of each normalised run */
void norm_forward(struct op_ctx *c, enum kernel_id k);
void norm_backward(struct op_ctx *c, const struct op_grad *g, enum kernel_id dx,
                   enum kernel_id dweight);
const struct param *norm_param(const struct op_node *n, int i);

int64_t norm_pieces(const struct op_node *n, const struct op_shape *in);
void norm_localise(struct op_node *n, const struct op_local *l);

extern const struct op_shard norm_shard[];

#endif
