/* SPDX-License-Identifier: Apache-2.0
 *
 * What each rank holds a part of becomes the sum that all of them have.
 */
#include <string.h>

#include "engine/op/collective.h"
#include "engine/op/ops.h"

struct val op_reduce(struct builder *b, struct val x, const struct op_reduce_attr *attr)
{
    struct op_node n = {.op = OP_reduce, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, attr, sizeof *attr);
    return builder_add(b, &n);
}

static void forward(struct op_ctx *c)
{
    const struct op_reduce_attr *at = (const struct op_reduce_attr *)(const void *)c->node->attr;
    struct op_collective a = {.ranks = at->ranks,
                              .kind = COMM_ALL_REDUCE,
                              .y = c->out[0].p,
                              .ld_y = c->out[0].ld,
                              .m = op_rows(c, c->in[0].shape.rows),
                              .n = c->in[0].shape.cols,
                              .pieces = at->ranks.size};
    if (c->in[0].p != c->out[0].p)
        op_copy(c, c->in[0], c->out[0]);
    c->sink->collective(c->sink, &a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_PARTIAL}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

/* Each rank's part of the sum has the sum's gradient. */
const struct op_def op_reduce_def = {.shape = op_shape_same,
                                     .forward = forward,
                                     .grad_same = 1,
                                     .may_overwrite = {1},
                                     .shard = shard};
