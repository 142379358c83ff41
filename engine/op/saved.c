/* SPDX-License-Identifier: Apache-2.0
 *
 * An lm_head that an adapter has whole: its rows of the logits are computed again, by that one, in
 * the place of those by the model's. It has the model's format and shape, and its product the bits
 * that op linear gives it, since it is made by the same kernels; the groups of the batch are what
 * experts are to a mixture. A step in which nobody has one launches what has nothing to do.
 *
 * For serving: in training all rows have one adapter, and the model is built with its matrices
 * (struct builder, `saved`).
 */
#include <string.h>

#include "engine/op/ops.h"
#include "kernels/format.h"

static const struct param *lm_head_of(const struct op_node *n)
{
    return *(const struct param *const *)(const void *)n->attr;
}

struct val op_saved(struct builder *b, struct val y, struct val x, const struct param *lm_head)
{
    struct op_node n = {.op = OP_saved, .n_in = 2, .in = {y.id, x.id}, .takes = 1};
    memcpy(n.attr, &lm_head, sizeof lm_head);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct param *w = lm_head_of(n);
    if (in[0].rows != DIM_OUT || in[1].rows != DIM_OUT || in[0].cols != w->n || in[1].cols != w->k)
        return err_set(e, ERR_BAD_INPUT, "%s: logits of %lld columns, rows of %lld", w->name,
                       (long long)in[0].cols, (long long)in[1].cols);
    out[0] = in[0];
    return 0;
}

/* The rows, rounded. */
static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    return k_rows_bytes(lm_head_of(n)->w.type, cap[in[1].rows], lm_head_of(n)->k);
}

static void forward(struct op_ctx *c)
{
    const struct batch *b = c->batch;
    const struct param *w = lm_head_of(c->node);
    struct k_experts_pack x = {.x = c->in[1].p,
                               .ld_x = c->in[1].ld,
                               .m = op_rows(c, DIM_OUT),
                               .k = w->k,
                               .top = 1,
                               .start = b->saved_out,
                               .n_expert = op_rows(c, DIM_SAVED),
                               .type = k_format(w->w.type)->rows,
                               .rows = c->work};
    struct k_experts a = {.rows = c->work,
                          .stack = {.w = w->w,
                                    .saved = b->saved[SAVED_HEAD],
                                    .start = b->saved_out,
                                    .n_expert = op_rows(c, DIM_SAVED)},
                          .y = c->out[0].p,
                          .ld_y = c->out[0].ld,
                          .m = op_rows(c, DIM_OUT)};
    const struct op_count pack[] = {
        {.offset = offsetof(struct k_experts_pack, m), .dim = DIM_OUT},
        {.offset = offsetof(struct k_experts_pack, n_expert), .dim = DIM_SAVED}};
    const struct op_count multiply[] = {
        {.offset = offsetof(struct k_experts, m), .dim = DIM_OUT},
        {.offset = offsetof(struct k_experts, stack) + offsetof(struct k_stack, n_expert),
         .dim = DIM_SAVED}};
    if (c->in[0].p != c->out[0].p)
        op_copy(c, c->in[0], c->out[0]);
    op_launch(c, K_experts_pack, &x, sizeof x, pack, 2);
    op_launch(c, K_experts, &a, sizeof a, multiply, 2);
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? lm_head_of(n) : NULL;
}

/* Where ranks share the model adapters have no such matrices (engine/model/adapter.c). */
static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
    {.out = SPLIT_END}};

const struct op_def op_saved_def = {.shape = shape,
                                    .work = work,
                                    .forward = forward,
                                    .param = param,
                                    .may_overwrite = {1},
                                    .shard = shard};
