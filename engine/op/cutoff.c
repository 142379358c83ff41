/* SPDX-License-Identifier: Apache-2.0
 *
 * What is so many standard deviations above its row's mean, less that; all else is zero. So a gate
 * lets few of its columns through (Gemma 3n).
 */
#include "engine/op/ops.h"

#include <string.h>

struct cutoff_attr {
    float times;
};

struct val op_cutoff(struct builder *b, struct val x, float times)
{
    struct op_node n = {.op = OP_cutoff, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct cutoff_attr){.times = times}, sizeof(struct cutoff_attr));
    return builder_add(b, &n);
}

static struct k_cutoff args_of(const struct op_ctx *c, const struct op_view *y)
{
    return (struct k_cutoff){.x = c->in[0].p,
                             .y = y->p,
                             .ld_x = c->in[0].ld,
                             .ld_y = y->ld,
                             .m = op_rows(c, c->in[0].shape.rows),
                             .d = c->in[0].shape.cols,
                             .times =
                                 ((const struct cutoff_attr *)(const void *)c->node->attr)->times};
}

static void forward(struct op_ctx *c)
{
    struct k_cutoff a = args_of(c, &c->out[0]);
    OP_LAUNCH_M(c, K_cutoff, a, c->in[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_cutoff a = args_of(c, &g->din[0]);
    a.dy = g->dout[0].p;
    a.ld_dy = g->dout[0].ld;
    OP_LAUNCH_M(c, K_cutoff_bwd, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_cutoff_def = {.shape = op_shape_same,
                                     .forward = forward,
                                     .backward = backward,
                                     .need_in = 1,
                                     .only_overwrites = true,
                                     .shard = shard};
