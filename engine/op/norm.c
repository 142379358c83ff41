/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes and launches of the norms.
 */
#include "engine/op/norm.h"

#include <string.h>

static const struct norm_attr *attr_of(const struct op_node *n)
{
    return (const struct norm_attr *)(const void *)n->attr;
}

struct val norm_add(struct builder *b, enum op_id op, struct val x, const struct norm_attr *attr)
{
    struct op_node n = {.op = op, .n_in = 1, .in = {x.id}};
    /* Nodes are compared by their bytes: a copy of all of it would bring what lies in its gap. */
    struct norm_attr *to = (struct norm_attr *)(void *)n.attr;
    to->weight = attr->weight;
    to->bias = attr->bias;
    to->d = attr->d ? attr->d : attr->weight->n;
    to->eps = attr->eps;
    to->plus_one = attr->plus_one;
    return builder_add(b, &n);
}

int norm_shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
               struct err *e)
{
    if (op_shape_same(n, in, out, e))
        return -1;
    const struct norm_attr *a = attr_of(n);
    if (in[0].cols % a->d || (a->weight && a->weight->n != a->d && a->weight->n != in[0].cols))
        return err_set(e, ERR_BAD_INPUT, "%lld columns and a weight of %lld", (long long)in[0].cols,
                       (long long)(a->weight ? a->weight->n : a->d));
    out[1] = in[0];
    return 0;
}

size_t norm_save(const struct op_node *n, const struct op_shape *in, const int64_t *cap,
                 size_t n_stat)
{
    return (size_t)cap[in[0].rows] * (size_t)(in[0].cols / attr_of(n)->d) * n_stat * sizeof(float);
}

/* Columns that one launch has: all, or of a norm by groups one of these. */
static int64_t span_of(const struct op_ctx *c)
{
    const struct norm_attr *at = attr_of(c->node);
    return at->weight && at->weight->n > at->d ? at->d : c->in[0].shape.cols;
}

/* What is kept of the runs from column lo on. */
static float *stat_at(const struct op_ctx *c, int64_t lo)
{
    enum dim rows = c->in[0].shape.rows;
    return c->save ? (float *)c->save + lo / attr_of(c->node)->d * c->cap[rows] : NULL;
}

static void launch(struct op_ctx *c, enum kernel_id k, struct k_norm a)
{
    const struct norm_attr *at = attr_of(c->node);
    int64_t span = span_of(c);
    a.n_head = span / at->d;
    for (int64_t lo = 0; lo < c->in[0].shape.cols; lo += span) {
        struct k_norm part = a;
        part.x = a.x + lo;
        part.y = a.y + lo;
        part.weight = a.weight ? a.weight + lo : NULL;
        part.stat = stat_at(c, lo);
        OP_LAUNCH_M(c, k, part, c->in[0].shape.rows);
    }
}

void norm_forward(struct op_ctx *c, enum kernel_id k)
{
    const struct norm_attr *at = attr_of(c->node);
    bool fused = c->node->n_in == 2;
    struct k_norm a = {.x = c->in[0].p,
                       .residual = fused ? c->in[1].p : NULL,
                       .weight = at->weight ? at->weight->vec : NULL,
                       .bias = at->bias ? at->bias->vec : NULL,
                       .y = c->out[0].p,
                       .sum = fused ? c->out[1].p : NULL,
                       .ld_x = c->in[0].ld,
                       .ld_y = c->out[0].ld,
                       .ld_residual = fused ? c->in[1].ld : 0,
                       .ld_sum = fused ? c->out[1].ld : 0,
                       .m = op_rows(c, c->in[0].shape.rows),
                       .d = at->d,
                       .eps = at->eps,
                       .plus_one = at->plus_one};
    launch(c, k, a);
}

void norm_backward(struct op_ctx *c, const struct op_grad *g, enum kernel_id dx,
                   enum kernel_id dweight)
{
    const struct norm_attr *at = attr_of(c->node);
    struct k_norm_bwd a = {.x = c->in[0].p,
                           .weight = at->weight ? at->weight->vec : NULL,
                           .dy = g->dout[0].p,
                           .dx = g->din[0].p,
                           .dweight = at->weight ? at->weight->grad : NULL,
                           .dbias = at->bias ? at->bias->grad : NULL,
                           .ld_x = c->in[0].ld,
                           .ld_dy = g->dout[0].ld,
                           .ld_dx = g->din[0].ld,
                           .m = op_rows(c, c->in[0].shape.rows),
                           .d = at->d,
                           .n_head = span_of(c) / at->d,
                           .add = g->din_add[0],
                           .plus_one = at->plus_one};
    for (int64_t lo = 0; lo < c->in[0].shape.cols; lo += span_of(c)) {
        struct k_norm_bwd part = a;
        part.x = a.x + lo;
        part.dy = a.dy + lo;
        part.dx = a.dx ? a.dx + lo : NULL;
        part.weight = a.weight ? a.weight + lo : NULL;
        part.dweight = a.dweight ? a.dweight + lo : NULL;
        part.stat = stat_at(c, lo);
        if (a.dx)
            OP_LAUNCH_M(c, dx, part, c->in[0].shape.rows);
        if (a.dweight || a.dbias)
            OP_LAUNCH_M(c, dweight, part, c->in[0].shape.rows);
    }
}

const struct param *norm_param(const struct op_node *n, int i)
{
    return i == 0 ? attr_of(n)->weight : i == 1 ? attr_of(n)->bias : NULL;
}

int64_t norm_pieces(const struct op_node *n, const struct op_shape *in)
{
    const struct norm_attr *a = attr_of(n);
    return a->weight && a->weight->n > a->d ? 1 : in[0].cols / a->d;
}

void norm_localise(struct op_node *n, const struct op_local *l)
{
    struct norm_attr a = *attr_of(n);
    a.weight = op_part(l, a.weight);
    a.bias = op_part(l, a.bias);
    memcpy(n->attr, &a, sizeof a);
}

/* Heads that are normalised one by one can be split. */
const struct op_shard norm_shard[] = {
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
    {.in = {SPLIT_COLS, SPLIT_COLS}, .weight = SPLIT_WHOLE, .out = SPLIT_COLS},
    {.out = SPLIT_END}};
