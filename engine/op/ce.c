/* SPDX-License-Identifier: Apache-2.0
 *
 * Head and cross-entropy in one. The vocabulary is walked in chunks of K_CE_CHUNK: the logits of a
 * chunk are computed, folded into each row's running state, and forgotten; backward computes them
 * again. A row's log-probability is target_logit - k_ce_lse(state), and serving folds its logits by
 * the same kernel over the same chunks, so both report the same bits.
 *
 * The loss is sum over rows of -dloss * log-probability: the batch's dloss carries mask, weight and
 * normaliser, so there is no gradient from above.
 */
#include <string.h>

#include "engine/op/ops.h"

struct ce_attr {
    const struct param *head;
};

static const struct param *head_of(const struct op_node *n)
{
    return ((const struct ce_attr *)(const void *)n->attr)->head;
}

struct val op_ce(struct builder *b, struct val x, const struct param *head)
{
    struct op_node n = {.op = OP_ce, .n_in = 2, .in = {op_round(b, x, head->w.type).id, x.id}};
    memcpy(n.attr, &(struct ce_attr){.head = head}, sizeof(struct ce_attr));
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct param *head = head_of(n);
    if (!in[0].blocked || in[0].rows != DIM_OUT || in[0].cols != head->k)
        return err_set(e, ERR_BAD_INPUT, "%s: rows of %lld, the head takes %lld", head->name,
                       (long long)in[0].cols, (long long)head->k);
    out[0] = (struct op_shape){.rows = DIM_OUT, .cols = OP_CE_COLS};
    return 0;
}

static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    int64_t cols = head_of(n)->n < K_CE_CHUNK ? head_of(n)->n : K_CE_CHUNK;
    return (size_t)cap[in[0].rows] * (size_t)cols * sizeof(float);
}

static size_t logits_bytes(size_t work)
{
    return (work + 63) / 64 * 64;
}

/* Behind the logits: their gradient, rounded and blocked. */
static size_t work_back(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    int64_t cols = head_of(n)->n < K_CE_CHUNK ? head_of(n)->n : K_CE_CHUNK;
    return logits_bytes(work(n, in, cap)) + k_rows_bytes(head_of(n)->w.type, cap[in[0].rows], cols);
}

/* The logits of entries [lo, lo + n) into the work space. */
static struct k_ce chunk(struct op_ctx *c, int64_t lo)
{
    const struct param *head = head_of(c->node);
    int64_t n = head->n - lo < K_CE_CHUNK ? head->n - lo : K_CE_CHUNK;
    struct k_linear a = {.rows = c->in[0].p,
                         .w = head->w,
                         .y = c->work,
                         .ld_y = n,
                         .m = op_rows(c, DIM_OUT),
                         .panel_lo = lo / K_NR,
                         .panel_hi = (lo + n + K_NR - 1) / K_NR};
    enum kernel_id k = head->w.type == K_F32    ? K_linear_f32
                       : head->w.type == K_BF16 ? K_linear_bf16
                                                : K_linear_int8;
    OP_LAUNCH_M(c, k, a, DIM_OUT);
    return (struct k_ce){.logits = c->work,
                         .ld = n,
                         .m = a.m,
                         .lo = lo,
                         .n = n,
                         .target = c->batch->target,
                         .state = (struct k_ce_state *)(void *)c->out[0].p,
                         .dloss = c->batch->dloss};
}

static void forward(struct op_ctx *c)
{
    for (int64_t lo = 0; lo < head_of(c->node)->n; lo += K_CE_CHUNK) {
        struct k_ce a = chunk(c, lo); /* chunk 0 starts the state */
        OP_LAUNCH_M(c, K_ce_fwd, a, DIM_OUT);
    }
}

static void back_weight(struct op_ctx *c, const struct k_ce *a)
{
    const struct param *head = head_of(c->node);
    struct k_linear_dw dw = {.dy = a->logits,
                             .x = c->in[1].p,
                             .ld_dy = a->ld,
                             .ld_x = c->in[1].ld,
                             .m = a->m,
                             .n = a->n,
                             .k = head->k,
                             .dw = head->grad + a->lo * head->k,
                             .ld_dw = head->k};
    OP_LAUNCH_M(c, head->w.type == K_F32 ? K_linear_dw_f32 : K_linear_dw_bf16, dw, DIM_OUT);
}

static void back_input(struct op_ctx *c, const struct k_ce *a, struct op_view din, bool add)
{
    const struct param *head = head_of(c->node);
    size_t behind = logits_bytes((size_t)a->m * (size_t)a->ld * sizeof(float));
    struct k_rows_pack dy = {.x = a->logits,
                             .ld_x = a->ld,
                             .m = a->m,
                             .k = a->n,
                             .type = head->w.type,
                             .rows = (char *)c->work + behind};
    OP_LAUNCH_M(c, K_rows_pack, dy, DIM_OUT);
    struct k_linear_dx dx = {.rows = dy.rows,
                             .m = a->m,
                             .w = head->w,
                             .panel_lo = a->lo / K_NR,
                             .panel_hi = (a->lo + a->n + K_NR - 1) / K_NR,
                             .dx = din.p,
                             .ld_dx = din.ld,
                             .add = add};
    enum kernel_id k = head->w.type == K_F32    ? K_linear_dx_f32
                       : head->w.type == K_BF16 ? K_linear_dx_bf16
                                                : K_linear_dx_int8;
    OP_LAUNCH_M(c, k, dx, DIM_OUT);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    for (int64_t lo = 0; lo < head_of(c->node)->n; lo += K_CE_CHUNK) {
        struct k_ce a = chunk(c, lo);
        OP_LAUNCH_M(c, K_ce_bwd, a, DIM_OUT);
        if (head_of(c->node)->grad)
            back_weight(c, &a);
        if (g->din[0].p)
            back_input(c, &a, g->din[0], lo > 0 || g->din_add[0]);
    }
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? head_of(n) : NULL;
}

static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
    {.out = SPLIT_END}};

/* Input 1 is the unrounded rows, for the head's gradient. */
const struct op_def op_ce_def = {.shape = shape,
                                 .work = work,
                                 .work_back = work_back,
                                 .forward = forward,
                                 .backward = backward,
                                 .param = param,
                                 .is_loss = true,
                                 .need_in = 3,
                                 .no_grad = 2,
                                 .need_out = 1,
                                 .shard = shard};
