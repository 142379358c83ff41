/* SPDX-License-Identifier: Apache-2.0
 *
 * A value that all ranks have and each reads for columns of its own: on the way back what ranks
 * have of its gradient is summed. It is in the graphs of training only.
 */
#include <string.h>

#include "engine/op/collective.h"
#include "engine/op/ops.h"

struct val op_spread(struct builder *b, struct val x, const struct op_spread_attr *attr)
{
    struct op_node n = {.op = OP_spread, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, attr, sizeof *attr);
    return builder_add(b, &n);
}

static void forward(struct op_ctx *c)
{
    if (c->in[0].p != c->out[0].p)
        op_copy(c, c->in[0], c->out[0]);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    const struct op_spread_attr *at = (const struct op_spread_attr *)(const void *)c->node->attr;
    struct op_collective a = {.ranks = at->ranks,
                              .kind = COMM_ALL_REDUCE,
                              .y = g->din[0].p,
                              .ld_y = g->din[0].ld,
                              .m = op_rows(c, c->in[0].shape.rows),
                              .n = c->in[0].shape.cols,
                              .pieces = at->ranks.size};
    if (!a.y)
        return;
    op_copy(c, g->dout[0], g->din[0]);
    c->sink->collective(c->sink, &a, c->in[0].shape.rows);
}

/* Made behind the choice of layouts; every reader of it takes it whole. */
static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_spread_def = {.shape = op_shape_same,
                                     .forward = forward,
                                     .backward = backward,
                                     .only_overwrites = true,
                                     .may_overwrite = {1},
                                     .is_cheap = true,
                                     .shard = shard};
