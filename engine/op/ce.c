/* SPDX-License-Identifier: Apache-2.0
 *
 * Head and cross-entropy in one. The loss is the sum over rows of -dloss * log-probability: the
 * batch's dloss carries mask, weight and normaliser, so there is no gradient from above, and a
 * row's gradient is known as soon as its logits are. So the rows are walked in runs of which the
 * logits take CE_BYTES: each run's logits are computed once, folded into the rows' states and, on a
 * tape, turned into their gradients and taken on to the lm_head's and the input's. Nothing is
 * computed twice, and the logits of a long row of text never exist whole.
 *
 * A loss that weighs its rows by what all of them got (of a pair of texts, say, by how much more
 * likely one is) is known behind the forward alone. Its gradient is linear in these weights, so the
 * forward makes it with dloss, and backward multiplies the rows by the batch's scale. The lm_head's
 * own gradient is summed over the rows by then, so such losses are for lm_heads that are frozen.
 *
 * What backward does is to hand the input's gradient on. The lm_head's own stands after the
 * forward, so a node of this op must not run twice on one tape: it stands behind a model's last
 * block, which checkpointing does not drop.
 *
 * A row's log-probability is target_logit - k_ce_lse(state), and serving folds its logits by the
 * same kernel over the same chunks of the vocabulary (K_CE_CHUNK), so both report the same bits.
 * The input's rounding is op round's, a run at a time.
 *
 * A row's loss may be shares of tokens that a teacher names, and of all others together (struct
 * batch_top). These tokens are taken out of the logits, once they are folded, so that what is left
 * is folded by itself: the others' sum has all its digits even where they are a millionth of it.
 *
 * Ranks that share the model have a part of the lm_head each: of a run every rank computes its part
 * of the logits, all gather them and fold them whole, as serving does, and each takes the gradients
 * of its own part on; those of the input are parts of a sum.
 *
 * Rejected: walking the vocabulary for all rows at once, which has to compute the logits again when
 * the rows' sums are known: a tenth of a step where the vocabulary is large for the model.
 */
#include <string.h>

#include "engine/op/collective.h"
#include "engine/op/ops.h"
#include "engine/op/weight_grad.h"
#include "kernels/format.h"

enum { CE_BYTES = 24 << 20, CE_ROWS_LEAST = 48 };

struct ce_attr {
    const struct param *lm_head; /* what is here of it */
    int64_t n_vocab, pieces;     /* of the whole; pieces 0: all of it is here */
    struct op_ranks ranks;
    float cap; /* of the logits; 0: none */
};

static const struct ce_attr *attr_of(const struct op_node *n)
{
    return (const struct ce_attr *)(const void *)n->attr;
}

static const struct param *lm_head_of(const struct op_node *n)
{
    return attr_of(n)->lm_head;
}

struct val op_ce(struct builder *b, struct val x, const struct param *lm_head, float cap)
{
    struct op_node n = {.op = OP_ce, .n_in = 1, .in = {x.id}};
    struct ce_attr *a = (struct ce_attr *)(void *)n.attr; /* whose gaps stay zero */
    a->lm_head = lm_head;
    a->n_vocab = lm_head->n;
    a->cap = cap;
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct param *lm_head = lm_head_of(n);
    if (in[0].blocked || in[0].rows != DIM_OUT || in[0].cols != lm_head->k)
        return err_set(e, ERR_BAD_INPUT, "%s: rows of %lld, the lm_head takes %lld", lm_head->name,
                       (long long)in[0].cols, (long long)lm_head->k);
    out[0] = (struct op_shape){.rows = DIM_OUT, .cols = OP_CE_COLS};
    return 0;
}

/* Rows of a run, of n_row. */
static int64_t run_rows(int64_t n_vocab, int64_t n_row)
{
    int64_t fit = CE_BYTES / ((int64_t)sizeof(float) * n_vocab);
    fit = fit < CE_ROWS_LEAST ? CE_ROWS_LEAST : fit;
    return fit < n_row ? fit : n_row;
}

/* Floats from a row of logits to the next: an odd number of cache lines. Rows a multiple of 4 KB
 * apart would share their places in the first cache, where a block of them has no room. */
static int64_t logits_ld(int64_t n_vocab)
{
    return ((n_vocab + 15) / 16 | 1) * 16;
}

static size_t floats_bytes(int64_t rows, int64_t cols)
{
    return ((size_t)(rows * cols) * sizeof(float) + 63) / 64 * 64;
}

/* What ranks gather a run's logits in, by way of blocks of equal width. */
static int64_t gather_cols(const struct ce_attr *at)
{
    return at->pieces ? at->ranks.size * op_collective_widest(&at->ranks, at->n_vocab, at->pieces)
                      : 0;
}

/* A run's rows, rounded; of an lm_head that is trained, the operands of its gradient. */
static size_t rows_bytes(const struct param *lm_head, int64_t rows)
{
    size_t packed =
        k_rows_bytes(lm_head->w.type, rows, lm_head->n > lm_head->k ? lm_head->n : lm_head->k);
    size_t q8 = lm_head->reads_q8 ? k_rows_bytes(K_Q8, rows, lm_head->k) : 0;
    packed = packed > q8 ? packed : q8;
    size_t own = op_weight_grad_dy_bytes(lm_head, rows) + op_weight_grad_x_bytes(lm_head, rows);
    return param_is_trained(lm_head) && own > packed ? own : packed;
}

/* A run's logits; its rows, rounded: first the input's, then the gradient's; and where the lm_head
 * is shared this rank's part of the logits and the room to gather them. */
static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    const struct ce_attr *at = attr_of(n);
    const struct param *lm_head = at->lm_head;
    int64_t rows = run_rows(at->n_vocab, cap[in[0].rows]);
    size_t bytes = floats_bytes(rows, logits_ld(at->n_vocab));
    if (at->pieces)
        bytes += floats_bytes(rows, lm_head->n) + floats_bytes(rows, gather_cols(at));
    return bytes + rows_bytes(lm_head, rows);
}

size_t op_ce_work_bytes(const struct param *lm_head, int64_t n_row)
{
    return floats_bytes(run_rows(lm_head->n, n_row), logits_ld(lm_head->n));
}

/* The gradient of the input. */
static size_t save(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    (void)n;
    return op_shape_bytes(in[0], cap[in[0].rows]);
}

/* Rows [lo, lo + m). */
struct run {
    const struct ce_attr *at;
    const struct param *lm_head;
    int64_t lo, m;
    float *logits; /* [m, n_vocab], rows ld apart */
    int64_t ld;
    float *own;  /* [m, lm_head->n]: of them those of this rank, dense; NULL: all are */
    float *room; /* [m, gather_cols] */
    void *rows;
};

/* Where this rank's part of the logits begins. */
static float *part_of(const struct run *r)
{
    return r->logits + (r->at->pieces ? r->lm_head->lo : 0);
}

/* Runs are no count of the batch's: this op is for steps that run at once. */
static void launch(struct op_ctx *c, enum kernel_id k, const void *args, size_t bytes)
{
    op_launch(c, k, args, bytes, NULL, 0);
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
                            .k = r->lm_head->k,
                            .type = param_reads(r->lm_head),
                            .rows = r->rows};
    struct k_linear a = {.rows = r->rows,
                         .w = r->lm_head->w,
                         .y = r->own ? r->own : r->logits,
                         .ld_y = r->own ? r->lm_head->n : r->ld,
                         .m = r->m,
                         .panel_hi = (r->lm_head->n + K_NR - 1) / K_NR};
    launch(c, x.type == K_Q8 ? K_rows_q8 : K_rows_pack, &x, sizeof x);
    launch(c, param_linear(r->lm_head), &a, sizeof a);
}

/* All ranks' parts of the run's logits. */
static void gather_logits(struct op_ctx *c, const struct run *r)
{
    struct op_collective a = {.ranks = r->at->ranks,
                              .kind = COMM_ALL_GATHER,
                              .x = r->own,
                              .y = r->logits,
                              .work = r->room,
                              .ld_x = r->lm_head->n,
                              .ld_y = r->ld,
                              .m = r->m,
                              .n = r->at->n_vocab,
                              .pieces = r->at->pieces};
    c->sink->collective(c->sink, &a, DIM_OUT);
}

static void cap_logits(struct op_ctx *c, const struct run *r)
{
    struct k_softcap a = {.x = r->logits,
                          .y = r->logits,
                          .ld_x = r->ld,
                          .ld_y = r->ld,
                          .m = r->m,
                          .d = r->at->n_vocab,
                          .cap = r->at->cap};
    launch(c, K_softcap, &a, sizeof a);
}

/* Kernel k over the run's logits, chunk by chunk; chunk 0 starts the state, of the first row. */
static void over_chunks(struct op_ctx *c, const struct run *r, enum kernel_id k,
                        struct k_ce_state *state)
{
    int64_t n = r->at->n_vocab;
    for (int64_t lo = 0; lo < n; lo += K_CE_CHUNK) {
        struct k_ce a = {.logits = r->logits + lo,
                         .ld = r->ld,
                         .m = r->m,
                         .lo = lo,
                         .n = n - lo < K_CE_CHUNK ? n - lo : K_CE_CHUNK,
                         .target = c->batch->target + r->lo,
                         .state = state + r->lo,
                         .dloss = c->batch->dloss + r->lo,
                         .cap = r->at->cap};
        launch(c, k, &a, sizeof a);
    }
}

/* Of tokens that are named: kernel k over whole rows. */
static void over_named(struct op_ctx *c, const struct run *r, enum kernel_id k,
                       const struct k_ce_state *state)
{
    const struct batch_top *top = &c->batch->top;
    struct k_ce_top a = {.logits = r->logits,
                         .ld = r->ld,
                         .m = r->m,
                         .n = r->at->n_vocab,
                         .n_top = top->n_top,
                         .id = top->id + r->lo * top->n_top,
                         .share = top->share + r->lo * top->n_top,
                         .rest = top->rest + r->lo,
                         .logit = top->logit + r->lo * top->n_top,
                         .state = state + r->lo,
                         .others = top->others + r->lo,
                         .dloss = c->batch->dloss + r->lo,
                         .cap = r->at->cap};
    launch(c, k, &a, sizeof a);
}

/* Logits [m, n_vocab] -> the rows' sums. */
static void fold(struct op_ctx *c, const struct run *r, struct k_ce_state *state)
{
    over_chunks(c, r, K_ce_fwd, state);
    if (!c->batch->top.n_top)
        return;
    over_named(c, r, K_ce_take, state);
    over_chunks(c, r, K_ce_fwd, c->batch->top.others);
}

/* Logits -> their gradients. */
static void differ(struct op_ctx *c, const struct run *r, struct k_ce_state *state)
{
    over_chunks(c, r, K_ce_bwd, state);
    if (c->batch->top.n_top)
        over_named(c, r, K_ce_put, state);
}

static void weight_gradient(struct op_ctx *c, const struct run *r)
{
    size_t dy_bytes = op_weight_grad_dy_bytes(r->lm_head, r->m);
    op_weight_grad(c, &(struct op_weight_grad){.w = r->lm_head,
                                               .dy = part_of(r),
                                               .x = input_at(c, r),
                                               .ld_dy = r->ld,
                                               .ld_x = c->in[0].ld,
                                               .m = r->m,
                                               .dy_cols = r->rows,
                                               .x_cols = (char *)r->rows + dy_bytes});
}

static void input_gradient(struct op_ctx *c, const struct run *r)
{
    struct k_rows_pack dy = {.x = part_of(r),
                             .ld_x = r->ld,
                             .m = r->m,
                             .k = r->lm_head->n,
                             .type = r->lm_head->w.type,
                             .rows = r->rows};
    struct k_linear_dx a = {.rows = r->rows,
                            .m = r->m,
                            .w = r->lm_head->w,
                            .panel_hi = (r->lm_head->n + K_NR - 1) / K_NR,
                            .dx = (float *)c->save + r->lo * r->lm_head->k,
                            .ld_dx = r->lm_head->k};
    launch(c, K_rows_pack, &dy, sizeof dy);
    launch(c, k_format(r->lm_head->w.type)->dx, &a, sizeof a);
}

/* The run's places in the op's work. */
static struct run first_run(const struct op_ctx *c, int64_t step)
{
    const struct ce_attr *at = attr_of(c->node);
    struct run r = {
        .at = at, .lm_head = at->lm_head, .logits = c->work, .ld = logits_ld(at->n_vocab)};
    char *free_at = (char *)c->work + floats_bytes(step, r.ld);
    if (at->pieces) {
        r.own = (float *)(void *)free_at;
        free_at += floats_bytes(step, at->lm_head->n);
        r.room = (float *)(void *)free_at;
        free_at += floats_bytes(step, gather_cols(at));
    }
    r.rows = free_at;
    return r;
}

static void forward(struct op_ctx *c)
{
    const struct param *lm_head = lm_head_of(c->node);
    int64_t m = op_rows(c, DIM_OUT), step = run_rows(attr_of(c->node)->n_vocab, m);
    struct k_ce_state *state = (struct k_ce_state *)(void *)c->out[0].p;
    struct run r = first_run(c, step);
    for (; r.lo < m; r.lo += step) {
        r.m = m - r.lo < step ? m - r.lo : step;
        fill_logits(c, &r);
        if (r.own)
            gather_logits(c, &r);
        if (r.at->cap > 0)
            cap_logits(c, &r);
        fold(c, &r, state);
        if (!c->save)
            continue;
        differ(c, &r, state);
        if (lm_head->grad)
            weight_gradient(c, &r);
        input_gradient(c, &r);
    }
}

/* Behind the forward the rows are told what they count. */
static void scale_rows(struct op_ctx *c, int64_t k)
{
    for (int64_t i = 0; i < c->batch->n_scale; i++) {
        const struct batch_scale *s = &c->batch->scale[i];
        float *at = (float *)c->save + s->lo * k;
        struct k_scale a = {.x = at, .y = at, .n = (s->hi - s->lo) * k, .s = s->by};
        if (a.n > 0)
            launch(c, K_scale, &a, sizeof a);
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
    scale_rows(c, a.d);
    if (g->din_add[0])
        OP_LAUNCH_M(c, K_add, a, DIM_OUT);
    else
        op_copy(c, (struct op_view){.shape = g->din[0].shape, .p = c->save, .ld = a.ld_a},
                g->din[0]);
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? lm_head_of(n) : NULL;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct ce_attr a = *attr_of(n);
    const struct param_share *s = &l->share[a.lm_head->index];
    a.lm_head = op_part(l, a.lm_head);
    a.ranks = *l->ranks;
    a.pieces = s->cut == PARAM_OUTPUTS ? s->pieces : 0;
    memcpy(n->attr, &a, sizeof a);
}

static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
    {.in = {SPLIT_WHOLE}, .weight = SPLIT_COLS, .out = SPLIT_WHOLE},
    {.out = SPLIT_END}};

const struct op_def op_ce_def = {.shape = shape,
                                 .work = work,
                                 .save = save,
                                 .forward = forward,
                                 .backward = backward,
                                 .param = param,
                                 .localise = localise,
                                 .is_loss = true,
                                 .fills_grad = true,
                                 .shard = shard};
