/* SPDX-License-Identifier: Apache-2.0
 *
 * Head and cross-entropy in one. The loss is the sum over rows of -dloss * log-probability: the
 * batch's dloss carries mask, weight and normaliser, so there is no gradient from above, and a
 * row's gradient is known as soon as its logits are. So the rows are walked in runs of which the
 * logits take CE_BYTES: each run's logits are computed once, folded into the rows' states and, on a
 * tape, turned into their gradients and taken on to the head's and the input's. Nothing is computed
 * twice, and the logits of a long row of text never exist whole.
 *
 * What backward does is to hand the input's gradient on. The head's own stands after the forward,
 * so a node of this op must not run twice on one tape: it stands behind a model's last block, which
 * checkpointing does not drop.
 *
 * A row's log-probability is target_logit - k_ce_lse(state), and serving folds its logits by the
 * same kernel over the same chunks of the vocabulary (K_CE_CHUNK), so both report the same bits.
 * The input's rounding is op round's, a run at a time.
 *
 * Rejected: walking the vocabulary for all rows at once, which has to compute the logits again when
 * the rows' sums are known: a tenth of a step where the vocabulary is large for the model.
 */
#include <string.h>

#include "engine/op/ops.h"

enum { CE_BYTES = 24 << 20, CE_ROWS_LEAST = 48 };

struct ce_attr {
    const struct param *head;
};

static const struct param *head_of(const struct op_node *n)
{
    return ((const struct ce_attr *)(const void *)n->attr)->head;
}

struct val op_ce(struct builder *b, struct val x, const struct param *head)
{
    struct op_node n = {.op = OP_ce, .n_in = 1, .in = {x.id}};
    memcpy(n.attr, &(struct ce_attr){.head = head}, sizeof(struct ce_attr));
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct param *head = head_of(n);
    if (in[0].blocked || in[0].rows != DIM_OUT || in[0].cols != head->k)
        return err_set(e, ERR_BAD_INPUT, "%s: rows of %lld, the head takes %lld", head->name,
                       (long long)in[0].cols, (long long)head->k);
    out[0] = (struct op_shape){.rows = DIM_OUT, .cols = OP_CE_COLS};
    return 0;
}

/* Rows of a run, of n_row. */
static int64_t run_rows(const struct param *head, int64_t n_row)
{
    int64_t fit = CE_BYTES / ((int64_t)sizeof(float) * head->n);
    fit = fit < CE_ROWS_LEAST ? CE_ROWS_LEAST : fit;
    return fit < n_row ? fit : n_row;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* A run's logits, behind them its rows, rounded: first the input's, then the gradient's. */
static size_t logits_bytes(const struct param *head, int64_t rows)
{
    return aligned((size_t)rows * (size_t)head->n * sizeof(float));
}

static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    const struct param *head = head_of(n);
    int64_t rows = run_rows(head, cap[in[0].rows]), most = head->n > head->k ? head->n : head->k;
    return logits_bytes(head, rows) + k_rows_bytes(head->w.type, rows, most);
}

size_t op_ce_work_bytes(const struct param *head, int64_t n_row)
{
    return logits_bytes(head, run_rows(head, n_row));
}

/* The gradient of the input. */
static size_t save(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    (void)n;
    return op_shape_bytes(in[0], cap[in[0].rows]);
}

/* Rows [lo, lo + m). */
struct run {
    const struct param *head;
    int64_t lo, m;
    float *logits; /* [m, head->n] */
    void *rows;
};

/* Runs are no count of the batch's: this op is for steps that run at once. */
static void launch(struct op_ctx *c, enum kernel_id k, const void *args, size_t bytes)
{
    op_launch(c, k, args, bytes, NULL, 0);
}

static enum kernel_id by_type(const struct param *head, enum kernel_id f32, enum kernel_id bf16,
                              enum kernel_id int8)
{
    return head->w.type == K_F32 ? f32 : head->w.type == K_BF16 ? bf16 : int8;
}

static const float *input_at(const struct op_ctx *c, const struct run *r)
{
    return c->in[0].p + r->lo * c->in[0].ld;
}

static void fill_logits(struct op_ctx *c, const struct run *r)
{
    struct k_rows_pack x = {.x = input_at(c, r),
                            .ld_x = c->in[0].ld,
                            .m = r->m,
                            .k = r->head->k,
                            .type = r->head->w.type,
                            .rows = r->rows};
    struct k_linear a = {.rows = r->rows,
                         .w = r->head->w,
                         .y = r->logits,
                         .ld_y = r->head->n,
                         .m = r->m,
                         .panel_hi = (r->head->n + K_NR - 1) / K_NR};
    launch(c, K_rows_pack, &x, sizeof x);
    launch(c, by_type(r->head, K_linear_f32, K_linear_bf16, K_linear_int8), &a, sizeof a);
}

/* Kernel k over the run's logits, chunk by chunk; chunk 0 starts the state. */
static void over_chunks(struct op_ctx *c, const struct run *r, enum kernel_id k)
{
    for (int64_t lo = 0; lo < r->head->n; lo += K_CE_CHUNK) {
        struct k_ce a = {.logits = r->logits + lo,
                         .ld = r->head->n,
                         .m = r->m,
                         .lo = lo,
                         .n = r->head->n - lo < K_CE_CHUNK ? r->head->n - lo : K_CE_CHUNK,
                         .target = c->batch->target + r->lo,
                         .state = (struct k_ce_state *)(void *)c->out[0].p + r->lo,
                         .dloss = c->batch->dloss + r->lo};
        launch(c, k, &a, sizeof a);
    }
}

static void weight_gradient(struct op_ctx *c, const struct run *r)
{
    struct k_linear_dw a = {.dy = r->logits,
                            .x = input_at(c, r),
                            .ld_dy = r->head->n,
                            .ld_x = c->in[0].ld,
                            .m = r->m,
                            .n = r->head->n,
                            .k = r->head->k,
                            .dw = r->head->grad,
                            .ld_dw = r->head->k};
    launch(c, r->head->w.type == K_F32 ? K_linear_dw_f32 : K_linear_dw_bf16, &a, sizeof a);
}

static void input_gradient(struct op_ctx *c, const struct run *r)
{
    struct k_rows_pack dy = {.x = r->logits,
                             .ld_x = r->head->n,
                             .m = r->m,
                             .k = r->head->n,
                             .type = r->head->w.type,
                             .rows = r->rows};
    struct k_linear_dx a = {.rows = r->rows,
                            .m = r->m,
                            .w = r->head->w,
                            .panel_hi = (r->head->n + K_NR - 1) / K_NR,
                            .dx = (float *)c->save + r->lo * r->head->k,
                            .ld_dx = r->head->k};
    launch(c, K_rows_pack, &dy, sizeof dy);
    launch(c, by_type(r->head, K_linear_dx_f32, K_linear_dx_bf16, K_linear_dx_int8), &a, sizeof a);
}

static void forward(struct op_ctx *c)
{
    const struct param *head = head_of(c->node);
    int64_t m = op_rows(c, DIM_OUT), step = run_rows(head, m);
    struct run r = {.head = head, .logits = c->work};
    r.rows = (char *)c->work + logits_bytes(head, step);
    for (; r.lo < m; r.lo += step) {
        r.m = m - r.lo < step ? m - r.lo : step;
        fill_logits(c, &r);
        over_chunks(c, &r, K_ce_fwd);
        if (!c->save)
            continue;
        over_chunks(c, &r, K_ce_bwd);
        if (head->grad)
            weight_gradient(c, &r);
        input_gradient(c, &r);
    }
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_binary a = {.a = c->save,
                         .b = g->din[0].p,
                         .y = g->din[0].p,
                         .ld_a = g->din[0].shape.cols,
                         .ld_b = g->din[0].ld,
                         .ld_y = g->din[0].ld,
                         .m = op_rows(c, DIM_OUT),
                         .d = g->din[0].shape.cols};
    if (!g->din[0].p)
        return;
    if (g->din_add[0])
        OP_LAUNCH_M(c, K_add, a, DIM_OUT);
    else
        op_copy(c, (struct op_view){.shape = g->din[0].shape, .p = c->save, .ld = a.ld_a},
                g->din[0]);
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? head_of(n) : NULL;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    memcpy(n->attr, &(struct ce_attr){.head = op_part(l, head_of(n))}, sizeof(struct ce_attr));
}

/* Every rank has the whole head: a row's sum over the vocabulary has one order, that of serving. */
static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE}, {.out = SPLIT_END}};

const struct op_def op_ce_def = {.shape = shape,
                                 .work = work,
                                 .save = save,
                                 .forward = forward,
                                 .backward = backward,
                                 .param = param,
                                 .localise = localise,
                                 .is_loss = true,
                                 .shard = shard};
