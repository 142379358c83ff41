/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropout whose draws are a pure function of (seed, site, example, position, column): a row is
 * dropped alike whatever it is packed with, and recomputing it in the backward drops it again.
 */
#include <string.h>

#include "engine/op/ops.h"

struct dropout_attr {
    float p;
    uint32_t site; /* tells the places of a model apart */
};

static const struct dropout_attr *attr_of(const struct op_node *n)
{
    return (const struct dropout_attr *)(const void *)n->attr;
}

struct val op_dropout(struct builder *b, struct val x, float p, uint32_t site)
{
    struct op_node n = {.op = OP_dropout, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct dropout_attr){.p = p, .site = site}, sizeof(struct dropout_attr));
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    float p = attr_of(n)->p;
    if (!(p >= 0 && p < 1))
        return err_set(e, ERR_BAD_INPUT, "a probability of %g is not in [0, 1)", (double)p);
    return op_shape_same(n, in, out, e);
}

static void drop(struct op_ctx *c, struct op_view x, struct op_view y)
{
    struct k_dropout a = {.x = x.p,
                          .y = y.p,
                          .row_key = c->batch->dropout_key,
                          .ld_x = x.ld,
                          .ld_y = y.ld,
                          .m = op_rows(c, x.shape.rows),
                          .d = x.shape.cols,
                          .seed = c->batch->dropout_seed,
                          .site = attr_of(c->node)->site,
                          .p = attr_of(c->node)->p};
    OP_LAUNCH_M(c, K_dropout, a, x.shape.rows);
}

static void forward(struct op_ctx *c)
{
    drop(c, c->in[0], c->out[0]);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    drop(c, g->dout[0], g->din[0]);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_dropout_def = {.shape = shape,
                                      .forward = forward,
                                      .backward = backward,
                                      .only_overwrites = true,
                                      .may_overwrite = {1},
                                      .shard = shard};
