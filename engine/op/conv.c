/* SPDX-License-Identifier: Apache-2.0
 *
 * A short convolution along a sequence, each column by itself: y = bias + sum of weight * x over
 * the row and the few before it. Rows of steps before lie in the layer's cells, as keys do
 * (kernels/conv.h); what a row reads follows from its place alone, so its bits don't depend on how
 * the sequence was cut into steps.
 */
#include "engine/op/ops.h"

#include <string.h>

static const struct op_conv_attr *attr_of(const struct op_node *n)
{
    return (const struct op_conv_attr *)(const void *)n->attr;
}

struct val op_conv(struct builder *b, struct val x, const struct op_conv_attr *attr)
{
    struct op_node n = {.op = OP_conv, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, attr, sizeof *attr);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct param *w = attr_of(n)->weight;
    if (in[0].blocked || in[0].rows != DIM_TOK || in[0].cols * w->n_tap != w->n)
        return err_set(e, ERR_BAD_INPUT, "%lld columns and %lld weights of %d taps",
                       (long long)in[0].cols, (long long)w->n, (int)w->n_tap);
    out[0] = in[0];
    return 0;
}

static struct k_conv args_of(const struct op_ctx *c)
{
    const struct op_conv_attr *at = attr_of(c->node);
    return (struct k_conv){.batch = batch_ragged(c->batch),
                           .cache = c->batch->kv[at->layer],
                           .x = c->in[0].p,
                           .weight = at->weight->vec,
                           .bias = at->bias ? at->bias->vec : NULL,
                           .y = c->out[0].p,
                           .ld_x = c->in[0].ld,
                           .ld_y = c->out[0].ld,
                           .d = c->in[0].shape.cols,
                           .n_tap = at->weight->n_tap};
}

static const struct op_count count[] = {
    {.offset = offsetof(struct k_conv, batch) + offsetof(struct k_ragged, n_seq), .dim = DIM_SEQ},
    {.offset = offsetof(struct k_conv, batch) + offsetof(struct k_ragged, n_tok), .dim = DIM_TOK}};

_Static_assert(offsetof(struct k_conv_bwd, fwd) == 0, "the same counts");

static void forward(struct op_ctx *c)
{
    struct k_conv a = args_of(c);
    op_launch(c, K_conv, &a, sizeof a, count, 2);
    op_launch(c, K_conv_keep, &a, sizeof a, count, 2);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    const struct op_conv_attr *at = attr_of(c->node);
    struct k_conv_bwd a = {.fwd = args_of(c),
                           .dy = g->dout[0].p,
                           .dx = g->din[0].p,
                           .dweight = at->weight->grad,
                           .ld_dy = g->dout[0].ld,
                           .ld_dx = g->din[0].ld};
    struct k_col_sum bias = {.x = g->dout[0].p,
                             .ld_x = g->dout[0].ld,
                             .m = op_rows(c, DIM_TOK),
                             .d = c->in[0].shape.cols,
                             .y = at->bias ? at->bias->grad : NULL};
    if (a.dx)
        op_launch(c, K_conv_bwd, &a, sizeof a, count, 2);
    if (a.dweight)
        op_launch(c, K_conv_dw, &a, sizeof a, count, 2);
    if (bias.y)
        OP_LAUNCH_M(c, K_col_sum, bias, DIM_TOK);
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? attr_of(n)->weight : i == 1 ? attr_of(n)->bias : NULL;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct op_conv_attr a = *attr_of(n);
    a.weight = op_part(l, a.weight);
    a.bias = op_part(l, a.bias);
    memcpy(n->attr, &a, sizeof a);
}

static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
    {.in = {SPLIT_COLS}, .weight = SPLIT_COLS, .out = SPLIT_COLS},
    {.out = SPLIT_END}};

const struct op_def op_conv_def = {.shape = shape,
                                   .forward = forward,
                                   .backward = backward,
                                   .param = param,
                                   .need_in = 1,
                                   .only_overwrites = true,
                                   .has_effect = true,
                                   .localise = localise,
                                   .shard = shard};
