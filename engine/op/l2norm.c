/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows to unit length (sentence embeddings).
 */
#include "engine/op/ops.h"

#include <string.h>

struct l2norm_attr {
    float eps;
};

struct val op_l2norm(struct builder *b, struct val x, float eps)
{
    struct op_node n = {.op = OP_l2norm, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct l2norm_attr){.eps = eps}, sizeof(struct l2norm_attr));
    return builder_add(b, &n);
}

static struct k_l2norm args_of(const struct op_ctx *c, struct op_view y)
{
    return (struct k_l2norm){.x = c->in[0].p,
                             .y = y.p,
                             .ld_x = c->in[0].ld,
                             .ld_y = y.ld,
                             .m = op_rows(c, c->in[0].shape.rows),
                             .d = c->in[0].shape.cols,
                             .eps = ((const struct l2norm_attr *)(const void *)c->node->attr)->eps};
}

static void forward(struct op_ctx *c)
{
    struct k_l2norm a = args_of(c, c->out[0]);
    OP_LAUNCH_M(c, K_l2norm, a, c->in[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_l2norm a = args_of(c, g->din[0]);
    a.dy = g->dout[0].p;
    a.ld_dy = g->dout[0].ld;
    OP_LAUNCH_M(c, K_l2norm_bwd, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_l2norm_def = {.shape = op_shape_same,
                                     .forward = forward,
                                     .backward = backward,
                                     .need_in = 1,
                                     .only_overwrites = true,
                                     .may_overwrite = {1},
                                     .shard = shard};
