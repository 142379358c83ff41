/* SPDX-License-Identifier: Apache-2.0
 *
 * Low-rank adapters on a product: y + scale (x a^T) b^T, for each group of rows its own adapter.
 * Serving sorts a batch's sequences by adapter, so a group is a run of rows; training has one.
 * The adapters' pointers come with the batch, so one plan serves any mix of them.
 */
#include <string.h>

#include "engine/op/ops.h"
#include "kernels/format.h"

struct lora_attr {
    const struct param *w;
    int64_t rank_max;
};

static const struct lora_attr *attr_of(const struct op_node *n)
{
    return (const struct lora_attr *)(const void *)n->attr;
}

struct val op_lora(struct builder *b, struct val y, struct val x, const struct param *w)
{
    struct op_node n = {.op = OP_lora, .n_in = 2, .in = {y.id, x.id}, .takes = 1};
    memcpy(n.attr, &(struct lora_attr){.w = w, .rank_max = b->lora_rank_max},
           sizeof(struct lora_attr));
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct param *w = attr_of(n)->w;
    if (in[0].blocked || in[1].blocked || in[0].cols != w->n || in[1].cols != w->k)
        return err_set(e, ERR_BAD_INPUT, "%s: inputs of %lld and %lld columns", w->name,
                       (long long)in[0].cols, (long long)in[1].cols);
    out[0] = in[0];
    return 0;
}

static size_t product_bytes(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    return (size_t)cap[in[0].rows] * (size_t)attr_of(n)->rank_max * sizeof(float);
}

static struct k_lora args_of(const struct op_ctx *c)
{
    const struct lora_attr *at = attr_of(c->node);
    return (struct k_lora){.x = c->in[1].p,
                           .ld_x = c->in[1].ld,
                           .m = op_rows(c, c->in[0].shape.rows),
                           .k = at->w->k,
                           .n = at->w->n,
                           .group = c->batch->lora + at->w->lora * c->batch->lora_stride,
                           .n_group = op_rows(c, DIM_GROUP),
                           .t = c->save ? c->save : c->work,
                           .rank_max = at->rank_max,
                           .y = c->out[0].p,
                           .ld_y = c->out[0].ld};
}

static void forward(struct op_ctx *c)
{
    const struct op_count count[] = {
        {.offset = offsetof(struct k_lora, m), .dim = c->in[0].shape.rows},
        {.offset = offsetof(struct k_lora, n_group), .dim = DIM_GROUP}};
    struct k_lora a = args_of(c);
    if (c->in[0].p != c->out[0].p)
        op_copy(c, c->in[0], c->out[0]);
    op_launch(c, K_lora, &a, sizeof a, count, 2);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    const struct op_count count[] = {
        {.offset = offsetof(struct k_lora_bwd, fwd) + offsetof(struct k_lora, m),
         .dim = c->in[0].shape.rows},
        {.offset = offsetof(struct k_lora_bwd, fwd) + offsetof(struct k_lora, n_group),
         .dim = DIM_GROUP}};
    struct k_lora_bwd a = {.fwd = args_of(c),
                           .dy = g->dout[0].p,
                           .ld_dy = g->dout[0].ld,
                           .dt = c->work,
                           .dx = g->din[1].p,
                           .ld_dx = g->din[1].ld,
                           .rounds = k_format(attr_of(c->node)->w->w.type)->rows != K_F32};
    a.fwd.t = c->save;
    if (a.dx && !g->din_add[1])
        op_zero(c, g->din[1]);
    op_launch(c, K_lora_bwd, &a, sizeof a, count, 2);
    op_launch(c, K_lora_dw, &a, sizeof a, count, 2);
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct lora_attr a = *attr_of(n);
    a.w = op_part(l, a.w);
    memcpy(n->attr, &a, sizeof a);
}

static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
    {.in = {SPLIT_COLS, SPLIT_WHOLE}, .weight = SPLIT_COLS, .out = SPLIT_COLS},
    {.in = {SPLIT_PARTIAL, SPLIT_COLS}, .weight = SPLIT_PARTIAL, .out = SPLIT_PARTIAL},
    {.out = SPLIT_END}};

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? attr_of(n)->w : NULL;
}

/* The gradient of y passes as it is: input 0 shares it, input 1 has its own. */
const struct op_def op_lora_def = {.shape = shape,
                                   .work = product_bytes,
                                   .save = product_bytes,
                                   .work_back = product_bytes,
                                   .forward = forward,
                                   .backward = backward,
                                   .param = param,
                                   .trains = true,
                                   .backs_second = true,
                                   .need_in = 2,
                                   .grad_same = 1,
                                   .may_overwrite = {1},
                                   .localise = localise,
                                   .shard = shard};
