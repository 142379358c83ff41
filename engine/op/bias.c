/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds a vector to every row. A pass folds it into the product before it.
 */
#include "engine/op/ops.h"

#include <string.h>

struct bias_attr {
    const struct param *bias;
};

static const struct param *bias_of(const struct op_node *n)
{
    return ((const struct bias_attr *)(const void *)n->attr)->bias;
}

struct val op_bias(struct builder *b, struct val x, const struct param *bias)
{
    struct op_node n = {.op = OP_bias, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct bias_attr){.bias = bias}, sizeof(struct bias_attr));
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    if (in[0].blocked || in[0].cols != bias_of(n)->n)
        return err_set(e, ERR_BAD_INPUT, "%lld columns and a bias of %lld", (long long)in[0].cols,
                       (long long)bias_of(n)->n);
    out[0] = in[0];
    return 0;
}

static void forward(struct op_ctx *c)
{
    struct k_binary a = {.a = c->in[0].p,
                         .b = bias_of(c->node)->vec,
                         .y = c->out[0].p,
                         .ld_a = c->in[0].ld,
                         .ld_b = 0,
                         .ld_y = c->out[0].ld,
                         .m = op_rows(c, c->in[0].shape.rows),
                         .d = c->in[0].shape.cols};
    OP_LAUNCH_M(c, K_add, a, c->in[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_col_sum a = {.x = g->dout[0].p,
                          .ld_x = g->dout[0].ld,
                          .m = op_rows(c, c->in[0].shape.rows),
                          .d = c->in[0].shape.cols,
                          .y = bias_of(c->node)->grad};
    if (a.y)
        OP_LAUNCH_M(c, K_col_sum, a, c->in[0].shape.rows);
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? bias_of(n) : NULL;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct bias_attr a = {.bias = op_part(l, bias_of(n))};
    memcpy(n->attr, &a, sizeof a);
}

/* To a sum that is still in parts the first rank adds it, and the others add nothing. */
static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
    {.in = {SPLIT_COLS}, .weight = SPLIT_COLS, .out = SPLIT_COLS},
    {.in = {SPLIT_PARTIAL}, .weight = SPLIT_PARTIAL, .out = SPLIT_PARTIAL},
    {.out = SPLIT_END}};

const struct op_def op_bias_def = {.shape = shape,
                                   .forward = forward,
                                   .backward = backward,
                                   .param = param,
                                   .grad_same = 1,
                                   .may_overwrite = {1},
                                   .localise = localise,
                                   .shard = shard};
