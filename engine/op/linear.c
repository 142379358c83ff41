/* SPDX-License-Identifier: Apache-2.0
 *
 * The product with a packed weight, and op_linear, the whole of a linear layer: the weight's order
 * of inputs where it has one, rounding, product, bias, adapters. Passes fold more into the product:
 * neighbours that read the same rows become one weight (`n` outputs), a bias behind it, and a
 * residual (a second input, which the output takes the place of); or the gate that is between it
 * and the next product, with the rounding (the output is rows as of op round). Each folds exactly
 * what the separate ops would compute: the whole sum, then the bias, then what was there.
 *
 * On a tape the unrounded rows come as the second input for the weight's gradient.
 */
#include "engine/op/linear.h"

#include <string.h>

#include "engine/op/ops.h"
#include "engine/op/weight_grad.h"
#include "kernels/format.h"

struct op_linear_attr *op_linear_attr(struct op_node *n)
{
    return (struct op_linear_attr *)(void *)n->attr;
}

const struct op_linear_attr *op_linear_attr_get(const struct op_node *n)
{
    return (const struct op_linear_attr *)(const void *)n->attr;
}

static struct val product(struct builder *b, struct val rows, struct val x, const struct param *w)
{
    struct op_node n = {.op = OP_linear, .n_in = 1, .in = {rows.id}};
    struct op_linear_attr a = {.w = w, .n = w->n, .is_adapted = b->has_lora && w->lora >= 0};
    ASSERT(!w->order || !param_is_trained(w)); /* x is not in it */
    if (b->wants_grad && param_is_trained(w)) {
        n.in[n.n_in++] = x.id;
        a.second = OP_LINEAR_UNROUNDED;
    }
    memcpy(n.attr, &a, sizeof a);
    return builder_add(b, &n);
}

struct val op_linear(struct builder *b, struct val x, const struct param *w,
                     const struct param *bias)
{
    struct val rows = w->order ? op_reorder(b, x, w->order) : x;
    struct val y = product(b, op_round(b, rows, param_reads(w)), x, w);
    if (bias)
        y = op_bias(b, y, bias);
    if (!b->has_lora || w->lora < 0)
        return y;
    if (b->wants_grad && b->dropout > 0)
        x = op_dropout(b, x, b->dropout, (uint32_t)w->index);
    y = op_lora(b, y, x, w);
    return b->has_dora ? op_dora(b, y, w, bias) : y;
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct op_linear_attr *a = op_linear_attr_get(n);
    if (!in[0].blocked || in[0].type != param_reads(a->w))
        return err_set(e, ERR_BAD_INPUT, "%s: the rows are not rounded for it", a->w->name);
    if (in[0].cols != a->w->k)
        return err_set(e, ERR_BAD_INPUT, "%s: rows of %lld, the weight takes %lld", a->w->name,
                       (long long)in[0].cols, (long long)a->w->k);
    out[0] = (struct op_shape){.rows = in[0].rows, .cols = a->n};
    if (a->is_gated) {
        out[0].cols = a->n / 2;
        out[0].blocked = true;
        out[0].type = (enum k_type)a->gated_type;
    }
    return 0;
}

struct k_weight op_linear_weight(const struct op_node *n)
{
    struct k_weight w = op_linear_attr_get(n)->w->w;
    w.n = op_linear_attr_get(n)->n;
    return w;
}

/* The adapters that are applied behind the product, which asks memory for them. */
static struct k_prefetch soon_of(const struct op_ctx *c)
{
    const struct op_linear_attr *at = op_linear_attr_get(c->node);
    if (!at->is_adapted)
        return (struct k_prefetch){0};
    return (struct k_prefetch){.group = c->batch->lora + at->w->lora * c->batch->lora_stride,
                               .n_group = op_rows(c, DIM_GROUP),
                               .n_table = at->n_joined + 1,
                               .stride = c->batch->lora_stride};
}

static void forward(struct op_ctx *c)
{
    const struct op_linear_attr *at = op_linear_attr_get(c->node);
    bool residual = at->second == OP_LINEAR_RESIDUAL;
    bool in_place = residual && c->in[1].p == c->out[0].p;
    enum dim rows = c->in[0].shape.rows;
    struct k_linear a = {.rows = c->in[0].p,
                         .w = op_linear_weight(c->node),
                         .bias = at->bias ? at->bias->vec : NULL,
                         .y = at->is_gated ? NULL : c->out[0].p,
                         .gated = at->is_gated ? c->out[0].p : NULL,
                         .ld_y = c->out[0].ld,
                         .m = op_rows(c, rows),
                         .add = in_place,
                         .prefetch = soon_of(c)};
    const struct op_count count[] = {
        {.offset = offsetof(struct k_linear, m), .dim = rows},
        {.offset = offsetof(struct k_linear, prefetch) + offsetof(struct k_prefetch, n_group),
         .dim = DIM_GROUP}};
    a.panel_hi = (a.w.n + K_NR - 1) / K_NR;
    op_launch(c, param_linear(at->w), &a, sizeof a, count, a.prefetch.group ? 2 : 1);
    if (residual && !in_place) {
        struct k_binary sum = {.a = c->in[1].p,
                               .b = c->out[0].p,
                               .y = c->out[0].p,
                               .ld_a = c->in[1].ld,
                               .ld_b = c->out[0].ld,
                               .ld_y = c->out[0].ld,
                               .m = a.m,
                               .d = at->n};
        OP_LAUNCH_M(c, K_add, sum, rows);
    }
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    const struct op_linear_attr *at = op_linear_attr_get(c->node);
    enum dim rows = c->in[0].shape.rows;
    struct k_weight w = op_linear_weight(c->node);
    ASSERT(at->second != OP_LINEAR_RESIDUAL && !at->bias && !at->is_gated);
    if (g->din[0].p) {
        struct k_rows_pack dy = {.x = g->dout[0].p,
                                 .ld_x = g->dout[0].ld,
                                 .m = op_rows(c, rows),
                                 .k = w.n,
                                 .type = k_format(w.type)->rows,
                                 .rows = c->work};
        OP_LAUNCH_M(c, K_rows_pack, dy, rows);
        struct k_linear_dx a = {.rows = dy.rows,
                                .m = dy.m,
                                .w = w,
                                .panel_hi = (w.n + K_NR - 1) / K_NR,
                                .dx = g->din[0].p,
                                .ld_dx = g->din[0].ld,
                                .add = g->din_add[0]};
        OP_LAUNCH_M(c, k_format(w.type)->dx, a, rows);
    }
    if (at->w->grad)
        op_weight_grad(c, &(struct op_weight_grad){.w = at->w,
                                                   .dy = g->dout[0].p,
                                                   .x = c->in[1].p,
                                                   .ld_dy = g->dout[0].ld,
                                                   .ld_x = c->in[1].ld,
                                                   .m = op_rows(c, rows),
                                                   .dy_cols = c->work,
                                                   .x_cols = c->shared,
                                                   .has_x_cols = c->has_shared});
}

/* The gradient from above, rounded and blocked; then its columns, for the weight's own. */
static size_t work_back(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    const struct op_linear_attr *at = op_linear_attr_get(n);
    size_t rows = k_rows_bytes(at->w->w.type, cap[in[0].rows], at->n), own = 0;
    if (param_is_trained(at->w))
        own = op_weight_grad_dy_bytes(at->w, cap[in[0].rows]);
    return rows > own ? rows : own;
}

static size_t shared_back(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    const struct param *w = op_linear_attr_get(n)->w;
    return param_is_trained(w) ? op_weight_grad_x_bytes(w, cap[in[0].rows]) : 0;
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? op_linear_attr_get(n)->w : i == 1 ? op_linear_attr_get(n)->bias : NULL;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct op_linear_attr *a = op_linear_attr(n);
    a->w = op_part(l, a->w);
    a->bias = op_part(l, a->bias);
    a->n = a->w->n;
}

/* The second input is the first before it was rounded. */
static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .weight = SPLIT_COLS, .out = SPLIT_COLS},
    {.in = {SPLIT_COLS, SPLIT_COLS}, .weight = SPLIT_PARTIAL, .out = SPLIT_PARTIAL},
    {.out = SPLIT_END}};

const struct op_def op_linear_def = {.shape = shape,
                                     .forward = forward,
                                     .backward = backward,
                                     .work_back = work_back,
                                     .shared_back = shared_back,
                                     .param = param,
                                     .fills_grad = true,
                                     .need_in = 2,
                                     .no_grad = 2,
                                     .may_overwrite = {2},
                                     .localise = localise,
                                     .shard = shard};
