/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that go on several tracks, side by side in their columns: each track and a sum of others by
 * weights that a row has of its own (AltUp).
 */
#include "engine/op/ops.h"

#include <string.h>

static const struct op_mix_attr *attr_of(const struct op_node *n)
{
    return (const struct op_mix_attr *)(const void *)n->attr;
}

struct val op_mix(struct builder *b, struct val base, struct val x, struct val c,
                  const struct op_mix_attr *attr)
{
    struct op_node n = {
        .op = OP_mix, .n_in = c.id < 0 ? 2 : 3, .in = {base.id, x.id, c.id < 0 ? 0 : c.id}};
    memcpy(n.attr, attr, sizeof *attr);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct op_mix_attr *a = attr_of(n);
    bool is_blocked = in[0].blocked || in[1].blocked || (n->n_in == 3 && in[2].blocked);
    if (is_blocked || in[0].rows != in[1].rows || in[0].cols % a->n ||
        in[0].cols / a->n * a->k != in[1].cols)
        return err_set(e, ERR_BAD_INPUT, "%d runs in %lld columns, %d in %lld", a->n,
                       (long long)in[0].cols, a->k, (long long)in[1].cols);
    if (n->n_in == 3 && (in[2].rows != in[0].rows || in[2].cols != a->n * a->k))
        return err_set(e, ERR_BAD_INPUT, "%lld weights, %d expected", (long long)in[2].cols,
                       a->n * a->k);
    out[0] = in[0];
    return 0;
}

static struct k_mix args_of(const struct op_ctx *c)
{
    const struct op_mix_attr *a = attr_of(c->node);
    bool has_c = c->node->n_in == 3;
    return (struct k_mix){.c = has_c ? c->in[2].p : NULL,
                          .ld_c = has_c ? c->in[2].ld : 0,
                          .m = op_rows(c, c->in[0].shape.rows),
                          .d = c->in[0].shape.cols / a->n,
                          .n = a->n,
                          .k = a->k,
                          .step_i = a->k,
                          .step_j = 1,
                          .plus = a->plus};
}

static void forward(struct op_ctx *c)
{
    struct k_mix a = args_of(c);
    a.base = c->in[0].p;
    a.ld_base = c->in[0].ld;
    a.x = c->in[1].p;
    a.ld_x = c->in[1].ld;
    a.y = c->out[0].p;
    a.ld_y = c->out[0].ld;
    OP_LAUNCH_M(c, K_mix, a, c->in[0].shape.rows);
}

/* dx is a mix of dy by the same weights, the other way round. */
static void backward(struct op_ctx *c, const struct op_grad *g)
{
    const struct op_mix_attr *at = attr_of(c->node);
    struct k_mix a = args_of(c);
    a.x = g->dout[0].p;
    a.ld_x = g->dout[0].ld;
    a.y = g->din[1].p;
    a.ld_y = g->din[1].ld;
    a.n = at->k, a.k = at->n;
    a.step_i = 1, a.step_j = at->k;
    if (a.y)
        OP_LAUNCH_M(c, K_mix, a, c->in[0].shape.rows);
    if (c->node->n_in < 3 || !g->din[2].p)
        return;
    struct k_mix_dot dot = {.a = g->dout[0].p,
                            .b = c->in[1].p,
                            .y = g->din[2].p,
                            .ld_a = g->dout[0].ld,
                            .ld_b = c->in[1].ld,
                            .ld_y = g->din[2].ld,
                            .m = a.m,
                            .d = a.d,
                            .n = at->n,
                            .k = at->k};
    OP_LAUNCH_M(c, K_mix_dot, dot, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE, SPLIT_WHOLE}, .out = SPLIT_WHOLE}, {.out = SPLIT_END}};

const struct op_def op_mix_def = {.shape = shape,
                                  .forward = forward,
                                  .backward = backward,
                                  .need_in = 6,
                                  .grad_same = 1,
                                  .only_overwrites = true,
                                  .shard = shard};
