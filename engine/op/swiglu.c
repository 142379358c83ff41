/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate of Llama's feed-forward: silu(gate) * up.
 */
#include "engine/op/ops.h"

struct val op_swiglu(struct builder *b, struct val gate, struct val up)
{
    struct op_node n = {.op = OP_swiglu, .n_in = 2, .in = {gate.id, up.id}};
    return builder_add(b, &n);
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
    OP_LAUNCH_M(c, K_swiglu, a, c->in[0].shape.rows);
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
    OP_LAUNCH_M(c, K_swiglu_bwd, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS, SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.out = SPLIT_END}};

const struct op_def op_swiglu_def = {.shape = op_shape_same,
                                     .forward = forward,
                                     .backward = backward,
                                     .need_in = 3,
                                     .only_overwrites = true,
                                     .may_overwrite = {3},
                                     .is_cheap = true,
                                     .shard = shard};
