/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows held back as wholes: x * sigmoid(gate), where a row has one number for a gate. So a
 * mixture's shared expert is weighed.
 */
#include "engine/op/ops.h"

struct val op_row_gate(struct builder *b, struct val x, struct val gate)
{
    struct op_node n = {.op = OP_row_gate, .n_in = 2, .in = {x.id, gate.id}};
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    (void)n;
    if (in[0].blocked || in[1].blocked || in[0].rows != in[1].rows || in[1].cols != 1)
        return err_set(e, ERR_BAD_INPUT, "a gate of %lld columns, 1 expected",
                       (long long)in[1].cols);
    out[0] = in[0];
    return 0;
}

static void forward(struct op_ctx *c)
{
    struct k_row_gate a = {.x = c->in[0].p,
                           .gate = c->in[1].p,
                           .y = c->out[0].p,
                           .ld_x = c->in[0].ld,
                           .ld_gate = c->in[1].ld,
                           .ld_y = c->out[0].ld,
                           .m = op_rows(c, c->in[0].shape.rows),
                           .d = c->in[0].shape.cols};
    OP_LAUNCH_M(c, K_row_gate, a, c->in[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_row_gate_bwd a = {.x = c->in[0].p,
                               .gate = c->in[1].p,
                               .dy = g->dout[0].p,
                               .dx = g->din[0].p,
                               .dgate = g->din[1].p,
                               .ld_x = c->in[0].ld,
                               .ld_gate = c->in[1].ld,
                               .ld_dy = g->dout[0].ld,
                               .ld_dx = g->din[0].ld,
                               .ld_dgate = g->din[1].ld,
                               .m = op_rows(c, c->in[0].shape.rows),
                               .d = c->in[0].shape.cols};
    OP_LAUNCH_M(c, K_row_gate_bwd, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_row_gate_def = {.shape = shape,
                                       .forward = forward,
                                       .backward = backward,
                                       .need_in = 3,
                                       .only_overwrites = true,
                                       .may_overwrite = {1},
                                       .is_cheap = true,
                                       .shard = shard};
