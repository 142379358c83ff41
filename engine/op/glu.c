/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated linear units: silu(gate) * up, the gate of Llama's feed-forward, and x * sigmoid(gate), by
 * which attention's output is held back where a model does that; with one value for both it is
 * SiLU.
 */
#include "engine/op/ops.h"

static struct val gated(struct builder *b, enum op_id op, struct val gate, struct val x)
{
    struct op_node n = {.op = op, .n_in = 2, .in = {gate.id, x.id}};
    return builder_add(b, &n);
}

struct val op_swiglu(struct builder *b, struct val gate, struct val up)
{
    return gated(b, OP_swiglu, gate, up);
}

struct val op_glu(struct builder *b, struct val x, struct val gate)
{
    return gated(b, OP_glu, gate, x);
}

static void forward(struct op_ctx *c)
{
    struct k_swiglu a = {.gate = c->in[0].p,
                         .up = c->in[1].p,
                         .y = c->out[0].p,
                         .ld_gate = c->in[0].ld,
                         .ld_up = c->in[1].ld,
                         .ld_y = c->out[0].ld,
                         .m = op_rows(c, c->in[0].shape.rows),
                         .d = c->in[0].shape.cols};
    OP_LAUNCH_M(c, c->node->op == OP_glu ? K_glu : K_swiglu, a, c->in[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_swiglu_bwd a = {.gate = c->in[0].p,
                             .up = c->in[1].p,
                             .dy = g->dout[0].p,
                             .dgate = g->din[0].p,
                             .dup = g->din[1].p,
                             .ld_gate = c->in[0].ld,
                             .ld_up = c->in[1].ld,
                             .ld_dy = g->dout[0].ld,
                             .ld_dgate = g->din[0].ld,
                             .ld_dup = g->din[1].ld,
                             .m = op_rows(c, c->in[0].shape.rows),
                             .d = c->in[0].shape.cols};
    OP_LAUNCH_M(c, c->node->op == OP_glu ? K_glu_bwd : K_swiglu_bwd, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS, SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.out = SPLIT_END}};

#define GATED                                                                                      \
    {                                                                                              \
        .shape = op_shape_same, .forward = forward, .backward = backward, .need_in = 3,            \
        .only_overwrites = true, .may_overwrite = {3}, .is_cheap = true, .shard = shard            \
    }

const struct op_def op_swiglu_def = GATED;
const struct op_def op_glu_def = GATED;
