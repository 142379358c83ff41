/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows times a number of their position, from a table of the model: queries that grow with it.
 */
#include "engine/op/ops.h"

#include <string.h>

struct row_scale_attr {
    const float *scale;
};

struct val op_row_scale(struct builder *b, struct val x, const float *scale)
{
    struct op_node n = {.op = OP_row_scale, .n_in = 1, .in = {x.id}};
    struct row_scale_attr a = {.scale = scale};
    memcpy(n.attr, &a, sizeof a);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    if (in[0].rows != DIM_TOK)
        return err_set(e, ERR_BAD_INPUT, "rows that are no tokens have no position");
    return op_shape_same(n, in, out, e);
}

static void scale(struct op_ctx *c, struct op_view x, struct op_view y)
{
    struct row_scale_attr at;
    memcpy(&at, c->node->attr, sizeof at);
    struct k_row_scale a = {.x = x.p,
                            .scale = at.scale,
                            .y = y.p,
                            .pos = c->batch->pos,
                            .ld_x = x.ld,
                            .ld_y = y.ld,
                            .m = op_rows(c, DIM_TOK),
                            .d = x.shape.cols};
    OP_LAUNCH_M(c, K_row_scale, a, DIM_TOK);
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
                                        {.out = SPLIT_END}};

const struct op_def op_row_scale_def = {.shape = shape,
                                        .forward = forward,
                                        .backward = backward,
                                        .only_overwrites = true,
                                        .may_overwrite = {1},
                                        .is_cheap = true,
                                        .shard = shard};
