/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: writes the step's keys and values to the layer's cells, then attends over the cells.
 * Training uses the same cells and the same kernel, so a trained row sees the rounding that a
 * served one sees. With queries alone for an input (behind op rope_kv) the cells stand already.
 *
 * Sinks are scores that a head's sums have besides, without values: they scale what attention gave
 * and join the log of its sum, behind it, and the backwards need no more than these two.
 */
#include "engine/op/ops.h"

#include <string.h>

static const struct op_attn_attr *attr_of(const struct op_node *n)
{
    return (const struct op_attn_attr *)(const void *)n->attr;
}

struct val op_attn(struct builder *b, struct val q, struct val k, struct val v,
                   const struct op_attn_attr *attr)
{
    struct op_node n = {.op = OP_attn, .n_in = 3, .in = {q.id, k.id, v.id}};
    memcpy(n.attr, attr, sizeof *attr);
    return builder_add(b, &n);
}

static int shape(const struct op_node *n, const struct op_shape *in, struct op_shape *out,
                 struct err *e)
{
    const struct op_attn_attr *a = attr_of(n);
    for (int i = 0; i < n->n_in; i++) {
        int64_t want = (int64_t)(i ? a->n_kv_head : a->n_head) * a->d_head;
        if (in[i].blocked || in[i].rows != DIM_TOK || in[i].cols != want)
            return err_set(e, ERR_BAD_INPUT, "input %d has %lld columns, %lld expected", i,
                           (long long)in[i].cols, (long long)want);
    }
    if (a->n_head % a->n_kv_head)
        return err_set(e, ERR_BAD_INPUT, "%d heads over %d key heads", a->n_head, a->n_kv_head);
    out[0] = in[0];
    return 0;
}

static size_t save(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    (void)in;
    return (size_t)cap[DIM_TOK] * (size_t)attr_of(n)->n_head * sizeof(float);
}

/* The logs of sums, where nobody keeps them. */
static size_t work(const struct op_node *n, const struct op_shape *in, const int64_t *cap)
{
    return attr_of(n)->sink ? save(n, in, cap) : 0;
}

static const struct op_count write_count[] = {
    {.offset = offsetof(struct k_kv_write, batch) + offsetof(struct k_ragged, n_seq),
     .dim = DIM_SEQ},
    {.offset = offsetof(struct k_kv_write, batch) + offsetof(struct k_ragged, n_tok),
     .dim = DIM_TOK}};

static const struct op_count back_count[] = {
    {.offset = offsetof(struct k_attn_bwd, fwd) + offsetof(struct k_attn, batch) +
               offsetof(struct k_ragged, n_seq),
     .dim = DIM_SEQ},
    {.offset = offsetof(struct k_attn_bwd, fwd) + offsetof(struct k_attn, batch) +
               offsetof(struct k_ragged, n_tok),
     .dim = DIM_TOK}};

static struct k_attn args_of(const struct op_ctx *c)
{
    const struct op_attn_attr *at = attr_of(c->node);
    return (struct k_attn){.batch = batch_ragged(c->batch),
                           .cache = c->batch->kv[at->layer],
                           .q = c->in[0].p,
                           .y = c->out[0].p,
                           .lse = c->save || !at->sink ? c->save : c->work,
                           .ld_q = c->in[0].ld,
                           .ld_y = c->out[0].ld,
                           .n_head = at->n_head,
                           .window = at->window,
                           .scale = at->scale,
                           .softcap = at->softcap,
                           .causal = at->causal};
}

/* The launch of a kernel whose ragged batch stands `at` in its arguments, in steps of tok_lo to
 * tok_hi tokens. */
static void launch_ragged(struct op_ctx *c, enum kernel_id k, void *args, size_t bytes, size_t at,
                          int64_t tok_lo, int64_t tok_hi)
{
    struct k_ragged *r = (struct k_ragged *)(void *)((char *)args + at);
    struct op_count n[] = {{.offset = (uint16_t)(at + offsetof(struct k_ragged, n_seq)),
                            .dim = DIM_SEQ,
                            .tok_lo = tok_lo,
                            .tok_hi = tok_hi},
                           {.offset = (uint16_t)(at + offsetof(struct k_ragged, n_tok)),
                            .dim = DIM_TOK,
                            .tok_lo = tok_lo,
                            .tok_hi = tok_hi}};
    r->n_seq = op_count_of(&n[0], c->batch->n);
    r->n_tok = op_count_of(&n[1], c->batch->n);
    op_launch(c, k, args, bytes, n, 2);
}

/* Attention in one call, or for steps of few tokens chunk by chunk: the same bits. */
static void attend(struct op_ctx *c, struct k_attn *a)
{
    const struct batch_parts *p = &c->batch->part;
    struct k_attn_part part = {.fwd = *a, .part = p->at, .n_chunk = p->n_chunk};
    size_t at = offsetof(struct k_attn_part, fwd) + offsetof(struct k_attn, batch);
    launch_ragged(c, K_attn, a, sizeof *a, offsetof(struct k_attn, batch), p->n_row + 1, 0);
    if (!p->n_row)
        return;
    launch_ragged(c, K_attn_part, &part, sizeof part, at, 0, p->n_row);
    launch_ragged(c, K_attn_merge, &part, sizeof part, at, 0, p->n_row);
}

static struct k_attn_sink sink_of(const struct op_ctx *c, const struct k_attn *a)
{
    const struct op_attn_attr *at = attr_of(c->node);
    return (struct k_attn_sink){.sink = at->sink->vec,
                                .y = a->y,
                                .lse = a->lse,
                                .ld_y = a->ld_y,
                                .m = op_rows(c, DIM_TOK),
                                .n_head = at->n_head,
                                .d_head = at->d_head};
}

static void forward(struct op_ctx *c)
{
    struct k_attn a = args_of(c);
    struct k_kv_write w = {.batch = a.batch,
                           .cache = a.cache,
                           .k = c->in[1].p,
                           .v = c->in[2].p,
                           .ld_k = c->in[1].ld,
                           .ld_v = c->in[2].ld};
    if (c->node->n_in == 3)
        op_launch(c, K_kv_write, &w, sizeof w, write_count, 2);
    attend(c, &a);
    if (attr_of(c->node)->sink) {
        struct k_attn_sink s = sink_of(c, &a);
        OP_LAUNCH_M(c, K_attn_sink, s, DIM_TOK);
    }
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_attn_bwd a = {.fwd = args_of(c),
                           .dy = g->dout[0].p,
                           .ld_dy = g->dout[0].ld,
                           .dq = g->din[0].p,
                           .dk = g->din[1].p,
                           .dv = g->din[2].p,
                           .ld_dq = g->din[0].ld,
                           .ld_dk = g->din[1].ld,
                           .ld_dv = g->din[2].ld,
                           .part = c->batch->dq_part};
    op_launch(c, K_attn_bwd_kv, &a, sizeof a, back_count, 2);
    op_launch(c, K_attn_bwd_q, &a, sizeof a, back_count, 2);
    const struct param *sink = attr_of(c->node)->sink;
    if (sink && sink->grad) {
        struct k_attn_sink s = sink_of(c, &a.fwd);
        s.dy = a.dy;
        s.ld_dy = a.ld_dy;
        s.dsink = sink->grad;
        OP_LAUNCH_M(c, K_attn_sink_dw, s, DIM_TOK);
    }
}

static const struct param *param(const struct op_node *n, int i)
{
    return i == 0 ? attr_of(n)->sink : NULL;
}

static int64_t pieces(const struct op_node *n, const struct op_shape *in)
{
    (void)in;
    return attr_of(n)->n_kv_head;
}

static void localise(struct op_node *n, const struct op_local *l)
{
    struct op_attn_attr a = *attr_of(n);
    a.n_head = (int32_t)(l->in[0].cols / a.d_head);
    a.n_kv_head = (int32_t)(l->in[1].cols / a.d_head);
    a.sink = op_part(l, a.sink);
    memcpy(n->attr, &a, sizeof a);
}

static const struct op_shard shard[] = {
    {.in = {SPLIT_WHOLE, SPLIT_WHOLE, SPLIT_WHOLE}, .weight = SPLIT_WHOLE, .out = SPLIT_WHOLE},
    {.in = {SPLIT_COLS, SPLIT_COLS, SPLIT_COLS}, .weight = SPLIT_COLS, .out = SPLIT_COLS},
    {.out = SPLIT_END}};

const struct op_def op_attn_def = {.shape = shape,
                                   .work = work,
                                   .save = save,
                                   .forward = forward,
                                   .backward = backward,
                                   .param = param,
                                   .need_in = 1,
                                   .need_out = 1,
                                   .only_overwrites = true,
                                   .has_effect = true,
                                   .pieces = pieces,
                                   .localise = localise,
                                   .shard = shard};
