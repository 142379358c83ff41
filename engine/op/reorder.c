/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns in the order in which a weight has its inputs (param.h): files whose groups of inputs are
 * not side by side are packed with them brought together, and what multiplies such a weight is
 * brought into its order first. The gradient goes back to where each column came from.
 */
#include "engine/op/ops.h"

#include <string.h>

struct reorder_attr {
    const struct param_order *order;
};

static const struct param_order *order_of(const struct op_node *n)
{
    return ((const struct reorder_attr *)(const void *)n->attr)->order;
}

struct val op_reorder(struct builder *b, struct val x, const struct param_order *order)
{
    struct op_node n = {.op = OP_reorder, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct reorder_attr){.order = order}, sizeof(struct reorder_attr));
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    int64_t cols = order_of(n)->k;
    if (in[0].blocked || in[0].cols != cols)
        return err_set(e, ERR_BAD_INPUT, "the input has %lld columns, %lld expected",
                       (long long)in[0].cols, (long long)cols);
    out[0] = in[0];
    return 0;
}

static void reorder(struct op_ctx *c, struct op_view x, struct op_view y, bool inverse)
{
    struct k_reorder a = {.x = x.p,
                          .y = y.p,
                          .at = order_of(c->node)->at,
                          .ld_x = x.ld,
                          .ld_y = y.ld,
                          .m = op_rows(c, x.shape.rows),
                          .d = x.shape.cols,
                          .inverse = inverse};
    OP_LAUNCH_M(c, K_reorder, a, x.shape.rows);
}

static void forward(struct op_ctx *c)
{
    reorder(c, c->in[0], c->out[0], false);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    reorder(c, g->dout[0], g->din[0], true);
}

/* A rank's columns would come from those of all. */
static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_reorder_def = {.shape = shape,
                                      .forward = forward,
                                      .backward = backward,
                                      .only_overwrites = true,
                                      .is_cheap = true,
                                      .shard = shard};
