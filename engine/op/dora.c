/* SPDX-License-Identifier: Apache-2.0
 *
 * DoRA: outputs of a product and its low-rank adapter times the gains that the adapter has, a
 * number for each, which engine/model/dora.h finds. What is multiplied is the product's: the bias,
 * which is in y by now, stays as it is, and so does the order in which all adapters are added.
 * Groups whose adapter has no gains are not touched, and a step without any launches what has
 * nothing to do.
 *
 * Backward: gains are constants, so y's gradient is multiplied by them; what a magnitude gets is
 * the sum of what its output gave. A bias is frozen where there are adapters: its own gradient
 * would be another.
 */
#include <string.h>

#include "engine/op/ops.h"

struct dora_attr {
    const struct param *w, *bias;
};

static const struct dora_attr *attr_of(const struct op_node *n)
{
    return (const struct dora_attr *)(const void *)n->attr;
}

struct val op_dora(struct builder *b, struct val y, const struct param *w, const struct param *bias)
{
    struct op_node n = {.op = OP_dora, .n_in = 1, .in = {y.id}, .takes = 1};
    memcpy(n.attr, &(struct dora_attr){.w = w, .bias = bias}, sizeof(struct dora_attr));
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct param *w = attr_of(n)->w;
    if (in[0].blocked || in[0].cols != w->n)
        return err_set(e, ERR_BAD_INPUT, "%s: an input of %lld columns", w->name,
                       (long long)in[0].cols);
    out[0] = in[0];
    return 0;
}

static const struct k_lora_group *group_of(const struct op_ctx *c)
{
    return c->batch->lora + attr_of(c->node)->w->lora * c->batch->lora_stride;
}

/* x times gains, to y. */
static void multiply(struct op_ctx *c, struct op_view x, struct op_view y, const float *bias)
{
    const struct op_count count[] = {{.offset = offsetof(struct k_dora, m), .dim = x.shape.rows},
                                     {.offset = offsetof(struct k_dora, n_group), .dim = DIM_DORA}};
    struct k_dora a = {.y = y.p,
                       .ld_y = y.ld,
                       .m = op_rows(c, x.shape.rows),
                       .n = x.shape.cols,
                       .bias = bias,
                       .group = group_of(c),
                       .n_group = op_rows(c, DIM_DORA)};
    if (x.p != y.p)
        op_copy(c, x, y);
    op_launch(c, K_dora, &a, sizeof a, count, 2);
}

static const float *bias_of(const struct op_ctx *c)
{
    const struct param *bias = attr_of(c->node)->bias;
    return bias ? bias->vec : NULL;
}

static void forward(struct op_ctx *c)
{
    multiply(c, c->in[0], c->out[0], bias_of(c));
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    enum dim rows = c->in[0].shape.rows;
    const struct op_count count[] = {
        {.offset = offsetof(struct k_dora_dw, m), .dim = rows},
        {.offset = offsetof(struct k_dora_dw, n_group), .dim = DIM_DORA}};
    struct k_dora_dw a = {.x = c->in[0].p,
                          .dy = g->dout[0].p,
                          .ld_x = c->in[0].ld,
                          .ld_dy = g->dout[0].ld,
                          .m = op_rows(c, rows),
                          .n = c->in[0].shape.cols,
                          .bias = bias_of(c),
                          .group = group_of(c),
                          .n_group = op_rows(c, DIM_DORA)};
    op_launch(c, K_dora_dw, &a, sizeof a, count, 2);
    if (g->din[0].p)
        multiply(c, g->dout[0], g->din[0], NULL);
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? attr_of(n)->w : i == 1 ? attr_of(n)->bias : NULL;
}

/* Where ranks share the model no adapter has gains (engine/model/dora.h). */
static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE}, {.out = SPLIT_END}};

const struct op_def op_dora_def = {.shape = shape,
                                   .forward = forward,
                                   .backward = backward,
                                   .param = param,
                                   .trains = true,
                                   .need_in = 1,
                                   .only_overwrites = true,
                                   .may_overwrite = {1},
                                   .shard = shard};
