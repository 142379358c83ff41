/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of tokens that the batch wants an answer for: a prompt chunk that is not the last wants
 * none, a decode step wants each sequence's only row.
 */
#include "engine/op/ops.h"

struct val op_gather(struct builder *b, struct val x)
{
    struct op_node n = {.op = OP_gather, .n_in = 1, .in = {x.id}};
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    (void)n;
    if (in[0].blocked || in[0].rows != DIM_TOK)
        return err_set(e, ERR_BAD_INPUT, "the input is not one row per token");
    out[0] = (struct op_shape){.rows = DIM_OUT, .cols = in[0].cols};
    return 0;
}

static void forward(struct op_ctx *c)
{
    struct k_gather a = {.x = c->in[0].p,
                         .index = c->batch->out_row,
                         .y = c->out[0].p,
                         .ld_x = c->in[0].ld,
                         .ld_y = c->out[0].ld,
                         .m = op_rows(c, DIM_OUT),
                         .d = c->in[0].shape.cols};
    OP_LAUNCH_M(c, K_gather, a, DIM_OUT);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_gather a = {.x = g->dout[0].p,
                         .index = c->batch->out_row,
                         .y = g->din[0].p,
                         .ld_x = g->dout[0].ld,
                         .ld_y = g->din[0].ld,
                         .m = op_rows(c, DIM_OUT),
                         .d = c->in[0].shape.cols};
    if (!g->din_add[0])
        op_zero(c, g->din[0]);
    OP_LAUNCH_M(c, K_scatter_add, a, DIM_OUT);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.in = {SPLIT_PARTIAL}, .out = SPLIT_PARTIAL},
                                        {.out = SPLIT_END}};

const struct op_def op_gather_def = {
    .shape = shape, .forward = forward, .backward = backward, .shard = shard};
