/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of each head's columns with what all heads share behind it: keys whose turned part is one
 * for all heads, values brought to the width of keys by zeros, and what attention gave brought back
 * to theirs.
 */
#include "engine/op/ops.h"

#include <string.h>

static const struct op_heads_attr *attr_of(const struct op_node *n)
{
    return (const struct op_heads_attr *)(const void *)n->attr;
}

struct val op_heads(struct builder *b, struct val x, struct val tail,
                    const struct op_heads_attr *attr)
{
    struct op_node n = {.op = OP_heads, .n_in = tail.id < 0 ? 1 : 2, .in = {x.id, tail.id}};
    memcpy(n.attr, attr, sizeof *attr);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct op_heads_attr *a = attr_of(n);
    int64_t cols = (int64_t)a->n_head * a->d_head;
    if (in[0].blocked || in[0].cols != cols)
        return err_set(e, ERR_BAD_INPUT, "the input has %lld columns, %lld expected",
                       (long long)in[0].cols, (long long)cols);
    if (a->lo < 0 || a->n < 1 || a->lo + a->n > a->d_head || a->n_tail < 0)
        return err_set(e, ERR_BAD_INPUT, "columns %d to %d of heads of %d", a->lo, a->lo + a->n,
                       a->d_head);
    if (n->n_in == 2 && (in[1].blocked || in[1].rows != in[0].rows || in[1].cols != a->n_tail))
        return err_set(e, ERR_BAD_INPUT, "what heads share has %lld columns, %d expected",
                       (long long)in[1].cols, a->n_tail);
    out[0] = in[0];
    out[0].cols = (int64_t)a->n_head * (a->n + a->n_tail);
    return 0;
}

static struct k_heads args_of(const struct op_ctx *c, const struct op_view *y)
{
    const struct op_heads_attr *at = attr_of(c->node);
    return (struct k_heads){.y = y->p,
                            .ld_y = y->ld,
                            .m = op_rows(c, y->shape.rows),
                            .n_head = at->n_head,
                            .d_head = at->d_head,
                            .lo = at->lo,
                            .n = at->n,
                            .n_tail = at->n_tail};
}

static void forward(struct op_ctx *c)
{
    struct k_heads a = args_of(c, &c->out[0]);
    a.x = c->in[0].p;
    a.ld_x = c->in[0].ld;
    if (c->node->n_in == 2) {
        a.tail = c->in[1].p;
        a.ld_tail = c->in[1].ld;
    }
    OP_LAUNCH_M(c, K_heads, a, c->out[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_heads_bwd a = {.fwd = args_of(c, &g->dout[0]),
                            .dx = g->din[0].p,
                            .ld_dx = g->din[0].ld,
                            .m = op_rows(c, g->dout[0].shape.rows),
                            .add = g->din_add[0]};
    if (c->node->n_in == 2) {
        a.dtail = g->din[1].p;
        a.ld_dtail = g->din[1].ld;
        a.add_tail = g->din_add[1];
    }
    OP_LAUNCH_M(c, K_heads_bwd, a, g->dout[0].shape.rows);
}

static int64_t pieces(const struct op_node *n, const struct op_shape *in)
{
    (void)in;
    return attr_of(n)->n_head;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct op_heads_attr a = *attr_of(n);
    a.n_head = (int32_t)(l->in[0].cols / a.d_head);
    memcpy(n->attr, &a, sizeof a);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS, SPLIT_WHOLE}, .out = SPLIT_COLS},
                                        {.out = SPLIT_END}};

const struct op_def op_heads_def = {.shape = shape,
                                    .forward = forward,
                                    .backward = backward,
                                    .is_cheap = true,
                                    .pieces = pieces,
                                    .localise = localise,
                                    .shard = shard};
