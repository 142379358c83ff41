/* SPDX-License-Identifier: Apache-2.0
 *
 * GELU: exact (BERT) or by tanh (GPT-2).
 */
#include "engine/op/ops.h"

#include <string.h>

struct gelu_attr {
    int64_t tanh;
};

static bool is_tanh(const struct op_node *n)
{
    return ((const struct gelu_attr *)(const void *)n->attr)->tanh != 0;
}

struct val op_gelu(struct builder *b, struct val x, bool tanh)
{
    struct op_node n = {.op = OP_gelu, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct gelu_attr){.tanh = tanh}, sizeof(struct gelu_attr));
    return builder_add(b, &n);
}

static void forward(struct op_ctx *c)
{
    struct k_gelu a = {.x = c->in[0].p,
                       .y = c->out[0].p,
                       .ld_x = c->in[0].ld,
                       .ld_y = c->out[0].ld,
                       .m = op_rows(c, c->in[0].shape.rows),
                       .d = c->in[0].shape.cols,
                       .tanh = is_tanh(c->node)};
    OP_LAUNCH_M(c, K_gelu, a, c->in[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_gelu a = {.x = c->in[0].p,
                       .dy = g->dout[0].p,
                       .y = g->din[0].p,
                       .ld_x = c->in[0].ld,
                       .ld_dy = g->dout[0].ld,
                       .ld_y = g->din[0].ld,
                       .m = op_rows(c, c->in[0].shape.rows),
                       .d = c->in[0].shape.cols,
                       .tanh = is_tanh(c->node)};
    OP_LAUNCH_M(c, K_gelu_bwd, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.out = SPLIT_END}};

const struct op_def op_gelu_def = {.shape = op_shape_same,
                                   .forward = forward,
                                   .backward = backward,
                                   .need_in = 1,
                                   .only_overwrites = true,
                                   .may_overwrite = {1},
                                   .is_cheap = true,
                                   .shard = shard};
