/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as large as those of another value: x * rms(like) / rms(x).
 */
#include "engine/op/ops.h"

#include <string.h>

struct match_attr {
    float least;
};

struct val op_match(struct builder *b, struct val x, struct val like, float least)
{
    struct op_node n = {.op = OP_match, .n_in = 2, .in = {x.id, like.id}};
    memcpy(n.attr, &(struct match_attr){.least = least}, sizeof(struct match_attr));
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    (void)n;
    if (in[0].blocked || in[1].blocked || in[0].rows != in[1].rows || in[0].cols != in[1].cols)
        return err_set(e, ERR_BAD_INPUT, "%lld columns like %lld", (long long)in[0].cols,
                       (long long)in[1].cols);
    out[0] = in[0];
    return 0;
}

static struct k_match args_of(const struct op_ctx *c)
{
    return (struct k_match){.x = c->in[0].p,
                            .like = c->in[1].p,
                            .ld_x = c->in[0].ld,
                            .ld_like = c->in[1].ld,
                            .m = op_rows(c, c->in[0].shape.rows),
                            .d = c->in[0].shape.cols,
                            .least =
                                ((const struct match_attr *)(const void *)c->node->attr)->least};
}

static void forward(struct op_ctx *c)
{
    struct k_match a = args_of(c);
    a.y = c->out[0].p;
    a.ld_y = c->out[0].ld;
    OP_LAUNCH_M(c, K_match, a, c->in[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_match a = args_of(c);
    a.dy = g->dout[0].p;
    a.ld_dy = g->dout[0].ld;
    a.dx = g->din[0].p;
    a.ld_dx = g->din[0].ld;
    a.dlike = g->din[1].p;
    a.ld_dlike = g->din[1].ld;
    OP_LAUNCH_M(c, K_match_bwd, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.out = SPLIT_END}};

const struct op_def op_match_def = {.shape = shape,
                                    .forward = forward,
                                    .backward = backward,
                                    .need_in = 3,
                                    .only_overwrites = true,
                                    .shard = shard};
