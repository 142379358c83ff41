/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum of two values: the residual stream.
 */
#include "engine/op/ops.h"

struct val op_add(struct builder *b, struct val x, struct val y)
{
    struct op_node n = {.op = OP_add, .n_in = 2, .in = {x.id, y.id}};
    return builder_add(b, &n);
}

static void forward(struct op_ctx *c)
{
    struct k_binary a = {.a = c->in[0].p,
                         .b = c->in[1].p,
                         .y = c->out[0].p,
                         .ld_a = c->in[0].ld,
                         .ld_b = c->in[1].ld,
                         .ld_y = c->out[0].ld,
                         .m = op_rows(c, c->in[0].shape.rows),
                         .d = c->in[0].shape.cols};
    OP_LAUNCH_M(c, K_add, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .out = SPLIT_WHOLE},
    {.in = {SPLIT_COLS, SPLIT_COLS}, .out = SPLIT_COLS},
    {.in = {SPLIT_PARTIAL, SPLIT_PARTIAL}, .out = SPLIT_PARTIAL},
    {.out = SPLIT_END}};

const struct op_def op_add_def = {.shape = op_shape_same,
                                  .forward = forward,
                                  .grad_same = 3,
                                  .may_overwrite = {3},
                                  .shard = shard};
