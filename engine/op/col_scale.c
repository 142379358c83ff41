/* SPDX-License-Identifier: Apache-2.0
 *
 * Every row times a vector.
 */
#include "engine/op/ops.h"

#include <string.h>

struct col_scale_attr {
    const struct param *by;
};

static const struct param *by_of(const struct op_node *n)
{
    return ((const struct col_scale_attr *)(const void *)n->attr)->by;
}

struct val op_col_scale(struct builder *b, struct val x, const struct param *by)
{
    struct op_node n = {.op = OP_col_scale, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct col_scale_attr){.by = by}, sizeof(struct col_scale_attr));
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    if (in[0].blocked || in[0].cols != by_of(n)->n)
        return err_set(e, ERR_BAD_INPUT, "%lld columns and a vector of %lld", (long long)in[0].cols,
                       (long long)by_of(n)->n);
    out[0] = in[0];
    return 0;
}

static void multiply(struct op_ctx *c, const struct op_view *x, const float *by, int64_t ld_by,
                     const struct op_view *y)
{
    struct k_binary a = {.a = x->p,
                         .b = by,
                         .y = y->p,
                         .ld_a = x->ld,
                         .ld_b = ld_by,
                         .ld_y = y->ld,
                         .m = op_rows(c, c->in[0].shape.rows),
                         .d = c->in[0].shape.cols};
    OP_LAUNCH_M(c, K_mul, a, c->in[0].shape.rows);
}

static void forward(struct op_ctx *c)
{
    multiply(c, &c->in[0], by_of(c->node)->vec, 0, &c->out[0]);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct op_view each = {.p = c->work, .ld = c->in[0].shape.cols};
    struct k_col_sum sum = {.x = each.p,
                            .ld_x = each.ld,
                            .m = op_rows(c, c->in[0].shape.rows),
                            .d = c->in[0].shape.cols,
                            .y = by_of(c->node)->grad};
    if (sum.y) {
        multiply(c, &c->in[0], g->dout[0].p, g->dout[0].ld, &each);
        OP_LAUNCH_M(c, K_col_sum, sum, c->in[0].shape.rows);
    }
    if (g->din[0].p)
        multiply(c, &g->dout[0], by_of(c->node)->vec, 0, &g->din[0]);
}

static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    (void)n;
    return op_shape_bytes(in[0], cap[in[0].rows]);
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? by_of(n) : NULL;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct col_scale_attr a = {.by = op_part(l, by_of(n))};
    memcpy(n->attr, &a, sizeof a);
}

static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE}, {.out = SPLIT_END}};

const struct op_def op_col_scale_def = {.shape = shape,
                                        .work_back = work,
                                        .forward = forward,
                                        .backward = backward,
                                        .param = param,
                                        .need_in = 1,
                                        .only_overwrites = true,
                                        .localise = localise,
                                        .shard = shard};
