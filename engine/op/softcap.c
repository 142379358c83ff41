/* SPDX-License-Identifier: Apache-2.0
 *
 * A soft bound: cap * tanh(x / cap).
 */
#include "engine/op/ops.h"

#include <string.h>

struct softcap_attr {
    float cap;
};

static float cap_of(const struct op_node *n)
{
    return ((const struct softcap_attr *)(const void *)n->attr)->cap;
}

struct val op_softcap(struct builder *b, struct val x, float cap)
{
    struct op_node n = {.op = OP_softcap, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct softcap_attr){.cap = cap}, sizeof(struct softcap_attr));
    return builder_add(b, &n);
}

static void forward(struct op_ctx *c)
{
    struct k_softcap a = {.x = c->in[0].p,
                          .y = c->out[0].p,
                          .ld_x = c->in[0].ld,
                          .ld_y = c->out[0].ld,
                          .m = op_rows(c, c->in[0].shape.rows),
                          .d = c->in[0].shape.cols,
                          .cap = cap_of(c->node)};
    OP_LAUNCH_M(c, K_softcap, a, c->in[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_softcap a = {.x = c->out[0].p,
                          .dy = g->dout[0].p,
                          .y = g->din[0].p,
                          .ld_x = c->out[0].ld,
                          .ld_dy = g->dout[0].ld,
                          .ld_y = g->din[0].ld,
                          .m = op_rows(c, c->in[0].shape.rows),
                          .d = c->in[0].shape.cols,
                          .cap = cap_of(c->node)};
    OP_LAUNCH_M(c, K_softcap_bwd, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.out = SPLIT_END}};

const struct op_def op_softcap_def = {.shape = op_shape_same,
                                      .forward = forward,
                                      .backward = backward,
                                      .need_out = 1,
                                      .only_overwrites = true,
                                      .may_overwrite = {1},
                                      .shard = shard};
