/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplies by a number.
 */

#include "engine/op/scale.h"

#include <string.h>

#include "engine/op/ops.h"

struct scale_attr {
    float s;
};

float op_scale_factor(const struct op_node *n)
{
    return ((const struct scale_attr *)(const void *)n->attr)->s;
}

struct val op_scale(struct builder *b, struct val x, float s)
{
    struct op_node n = {.op = OP_scale, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct scale_attr){.s = s}, sizeof(struct scale_attr));
    return builder_add(b, &n);
}

/* Values of their own are contiguous; a slice would not be. */
static void scale(struct op_ctx *c, struct op_view x, struct op_view y)
{
    struct k_scale a = {.x = x.p,
                        .y = y.p,
                        .n = op_rows(c, x.shape.rows) * x.shape.cols,
                        .s = op_scale_factor(c->node)};
    ASSERT(x.ld == x.shape.cols && y.ld == y.shape.cols);
    op_launch(c, K_scale, &a, sizeof a,
              &(struct op_count){.offset = offsetof(struct k_scale, n),
                                 .dim = x.shape.rows,
                                 .times = x.shape.cols},
              1);
}

static void forward(struct op_ctx *c)
{
    scale(c, c->in[0], c->out[0]);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    scale(c, g->dout[0], g->din[0]);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.in = {SPLIT_PARTIAL}, .out = SPLIT_PARTIAL},
                                        {.out = SPLIT_END}};

const struct op_def op_scale_def = {.shape = op_shape_same,
                                    .forward = forward,
                                    .backward = backward,
                                    .only_overwrites = true,
                                    .may_overwrite = {1},
                                    .shard = shard};
