/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor's forward: run each node, keep what the backward will read.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eager/tape.h"
#include "engine/op/collective.h"

static struct eager *of_sink(struct op_sink *s)
{
    return (struct eager *)(void *)((char *)s - offsetof(struct eager, sink));
}

static void run_launch(struct op_sink *s, enum kernel_id k, const void *args, size_t bytes,
                       const struct op_count *count, int n_count)
{
    (void)count, (void)n_count; /* the arguments hold this step's counts already */
    stream_launch(of_sink(s)->stream, k, args, bytes);
}

static void run_collective(struct op_sink *s, const struct op_collective *a, enum dim dim)
{
    (void)dim;
    op_collective_run(a, of_sink(s)->stream);
}

static struct op_shape shape_of(const struct builder *b, struct val v)
{
    return ((const struct eager *)(const void *)b)->value.at[v.id].shape;
}

void eager_fill_ctx(struct eager *g, size_t i, struct op_ctx *c)
{
    const struct eager_node *n = &g->node.at[i];
    *c = (struct op_ctx){.node = &n->op, .batch = g->batch, .cap = g->batch->n, .sink = &g->sink};
    for (int j = 0; j < n->op.n_in; j++)
        c->in[j] = g->value.at[n->op.in[j]].view;
    for (int o = 0; o < n->op.n_out; o++)
        c->out[o] = g->value.at[n->op.out[o]].view;
    c->save = n->save ? n->save->p : NULL;
}

void eager_drop_value(struct eager *g, int32_t v)
{
    struct eager_value *val = &g->value.at[v];
    eager_buf_unref(&g->cache, val->buf);
    val->buf = NULL;
    val->view.p = NULL;
}

/* The memory of an input that nobody reads behind this node, for output o. */
static struct eager_buf *taken(struct eager *g, const struct op_node *n, int o)
{
    const struct eager_value *to = &g->value.at[n->out[o]];
    for (int j = 0; j < n->n_in; j++) {
        struct eager_value *v = &g->value.at[n->in[j]];
        struct eager_buf *b = v->buf;
        if (!(n->takes & op_get(n->op)->may_overwrite[o] & (1u << j)) || !b || b->n_ref != 1 ||
            v->root != n->in[j] || v->is_kept || v->lasts || v->shape.rows != to->shape.rows ||
            v->shape.cols != to->shape.cols)
            continue;
        v->buf = NULL;
        return b;
    }
    return NULL;
}

static int give_memory(struct eager *g, const struct op_node *n, int o, struct err *e)
{
    struct eager_value *v = &g->value.at[n->out[o]];
    size_t bytes = op_shape_bytes(v->shape, g->batch->n[v->shape.rows]);
    v->buf = taken(g, n, o);
    if (!v->buf)
        v->buf = eager_buf_new(&g->cache, bytes, e);
    if (!v->buf)
        return -1;
    v->view = (struct op_view){.shape = v->shape, .p = v->buf->p, .ld = v->shape.cols};
    return 0;
}

/* Inputs whose memory was taken can't be read again. */
static void forget_taken(struct eager *g, const struct op_node *n)
{
    for (int j = 0; j < n->n_in; j++)
        if ((n->takes & (1u << j)) && !g->value.at[n->in[j]].buf)
            g->value.at[n->in[j]].view.p = NULL;
}

static void see_through(struct eager *g, const struct op_node *n)
{
    struct eager_value *from = &g->value.at[n->in[0]], *to = &g->value.at[n->out[0]];
    to->view = op_get(n->op)->view(n, from->view);
    to->root = from->root;
    to->buf = eager_buf_ref(from->buf);
}

static int give_grad(struct eager *g, const struct param *p, struct err *e)
{
    if (!p->late || p->grad)
        return 0;
    size_t bytes = (size_t)(p->n * p->k) * sizeof(float);
    struct eager_buf *b = eager_buf_new_lasting(&g->cache, bytes, e);
    if (!b)
        return -1;
    p->late->memory = b;
    p->late->is_blank = true;
    p->late->of->grad = b->p;
    return 0;
}

static void zero_blank(struct eager *g, const struct param *p)
{
    struct k_copy zero = {.y = p->grad, .m = p->n, .d = p->k, .ld_y = p->k};
    if (param_fills_grad(p))
        stream_launch(g->stream, K_copy, &zero, sizeof zero);
}

int eager_grad_begin(struct eager *g, const struct param *p, struct err *e)
{
    if (give_grad(g, p, e))
        return -1;
    zero_blank(g, p);
    return 0;
}

void eager_grad_end(struct eager *g, const struct param *p)
{
    if (!p->late || !p->late->memory)
        return;
    eager_buf_unref(&g->cache, p->late->memory);
    p->late->memory = NULL;
    p->late->is_blank = false;
    p->late->of->grad = NULL;
}

int eager_begin_grads(struct eager *g, const struct op_node *n, struct err *e)
{
    const struct op_def *def = op_get(n->op);
    const struct param *p;
    for (int i = 0; def->param && (p = def->param(n, i)); i++)
        if (def->fills_grad ? give_grad(g, p, e) : eager_grad_begin(g, p, e))
            return -1;
    return 0;
}

void eager_end_grads(struct eager *g, const struct op_node *n)
{
    const struct op_def *def = op_get(n->op);
    const struct param *p;
    for (int i = 0; def->param && (p = def->param(n, i)); i++)
        zero_blank(g, p);
}

int eager_run_node(struct eager *g, size_t i, struct err *e)
{
    struct eager_node *n = &g->node.at[i];
    const struct op_def *def = op_get(n->op.op);
    struct op_shape in[OP_IN_MAX];
    struct eager_buf *work = NULL;
    struct op_ctx c;
    int rc = -1;
    if (def->view) {
        see_through(g, &n->op);
        return 0;
    }
    for (int j = 0; j < n->op.n_in; j++)
        in[j] = g->value.at[n->op.in[j]].shape;
    for (int o = 0; o < n->op.n_out; o++)
        if (give_memory(g, &n->op, o, e))
            return -1;
    if (n->on_tape && def->save && !n->save) {
        n->save = eager_buf_new(&g->cache, def->save(&n->op, in, g->batch->n), e);
        if (!n->save)
            return -1;
    }
    if (n->on_tape && def->is_loss && eager_begin_grads(g, &n->op, e))
        return -1;
    eager_fill_ctx(g, i, &c);
    if (def->work) {
        work = eager_buf_new(&g->cache, def->work(&n->op, in, g->batch->n), e);
        if (!work)
            goto done;
        c.work = work->p;
    }
    def->forward(&c);
    if (n->on_tape && def->is_loss)
        eager_end_grads(g, &n->op);
    forget_taken(g, &n->op);
    rc = 0;
done:
    eager_buf_unref(&g->cache, work);
    return rc;
}

/* True when the node leads to something that is trained. */
static bool needs_backward(const struct eager *g, const struct op_node *n)
{
    const struct op_def *def = op_get(n->op);
    const struct param *p;
    if (!g->opt.wants_grad)
        return false;
    for (int j = 0; j < n->n_in; j++)
        if (g->value.at[n->in[j]].needs_grad)
            return true;
    for (int i = 0; def->param && (p = def->param(n, i)); i++)
        if (param_is_trained(p))
            return true;
    return def->trains;
}

static void keep_for_backward(struct eager *g, const struct op_node *n)
{
    const struct op_def *def = op_get(n->op);
    for (int j = 0; j < n->n_in; j++)
        if (def->need_in & (1u << j))
            g->value.at[g->value.at[n->in[j]].root].is_kept = true;
    for (int o = 0; o < n->n_out; o++)
        if (def->need_out & (1u << o))
            g->value.at[n->out[o]].is_kept = true;
}

/* What else than its shape makes a rounding what it is: nothing. So a second one of the same value
 * is the first; -1: there is none in this block. */
static int32_t rounded_before(const struct eager *g, const struct op_node *op,
                              const struct op_shape *out)
{
    size_t lo = g->block.n ? g->block.at[g->block.n - 1].node_lo : 0;
    for (size_t i = g->node.n; op->op == OP_round && i-- > lo;) {
        const struct op_node *n = &g->node.at[i].op;
        if (n->op == OP_round && n->in[0] == op->in[0] &&
            g->value.at[n->out[0]].shape.type == out[0].type)
            return n->out[0];
    }
    return -1;
}

/* A gradient that passes through an op which does nothing with it. */
static int32_t grad_of(const struct eager *g, const struct op_node *n, int32_t out)
{
    const struct op_def *def = op_get(n->op);
    bool passes = def->grad_same == 1 && n->n_in == 1 && !def->backward;
    return passes ? g->value.at[n->in[0]].grad_of : out;
}

static int add(struct builder *b, struct op_node *op, const struct op_shape *out)
{
    struct eager *g = (struct eager *)(void *)b;
    bool on_tape = needs_backward(g, op);
    int32_t before = rounded_before(g, op, out);
    if (before >= 0) {
        op->out[0] = before;
        return 0;
    }
    for (int j = 0; j < op->n_in; j++)
        if (!g->value.at[op->in[j]].view.p)
            return err_set(&b->err, ERR_BAD_INPUT, "input %d was given back at a block's mark", j);
    for (int o = 0; o < op->n_out; o++) {
        op->out[o] = (int32_t)g->value.n;
        vec_push(&g->value, (struct eager_value){.shape = out[o],
                                                 .def = (int32_t)g->node.n,
                                                 .root = op->out[o],
                                                 .grad_of = grad_of(g, op, op->out[o]),
                                                 .needs_grad = on_tape});
    }
    vec_push(&g->node, (struct eager_node){.op = *op, .on_tape = on_tape});
    if (on_tape)
        keep_for_backward(g, op);
    return eager_run_node(g, g->node.n - 1, &b->err);
}

/* A node that the backward may run again: a cheap one, all of whose inputs are kept, or made by
 * such a node themselves. */
static bool is_remade(const struct eager *g, const struct eager_node *n)
{
    const struct op_def *def = op_get(n->op.op);
    if (!n->on_tape || !def->is_cheap)
        return false;
    for (int j = 0; j < n->op.n_in; j++)
        if (!(def->need_in & (1u << j)) && !is_remade(g, &g->node.at[g->value.at[n->op.in[j]].def]))
            return false;
    return true;
}

/* What the backward reads is kept, unless it is made again then: with checkpointing all of a block,
 * else what is cheap. */
static bool stays(const struct eager *g, const struct eager_node *n, int32_t v)
{
    bool is_kept = g->value.at[g->value.at[v].root].is_kept && g->opt.wants_grad;
    return is_kept && !is_remade(g, n) && !(g->opt.checkpoint && g->block.n);
}

/* Gives back what was made since the last mark and is not wanted any more. */
static void enter_block(struct builder *b, int layer)
{
    struct eager *g = (struct eager *)(void *)b;
    size_t lo = g->block.n ? g->block.at[g->block.n - 1].node_lo : 0;
    int32_t last = (int32_t)g->value.n - 1;
    for (size_t i = lo; i < g->node.n; i++) {
        const struct op_node *n = &g->node.at[i].op;
        for (int o = 0; o < n->n_out; o++) {
            int32_t v = n->out[o];
            if (v != last && !g->value.at[v].lasts && !stays(g, &g->node.at[i], v))
                eager_drop_value(g, v);
        }
        if (g->opt.checkpoint && g->block.n) {
            eager_buf_unref(&g->cache, g->node.at[i].save);
            g->node.at[i].save = NULL;
        }
    }
    vec_push(&g->block,
             (struct eager_block){.node_lo = g->node.n, .value_in = last, .layer = layer});
}

static void keep_value(struct builder *b, struct val v)
{
    struct eager *g = (struct eager *)(void *)b;
    g->value.at[g->value.at[v.id].root].lasts = true;
    g->value.at[v.id].lasts = true;
}

struct eager *eager_new(struct stream *s, struct err *e)
{
    struct eager *g = xcalloc(1, sizeof *g);
    (void)e;
    g->stream = s;
    g->sink = (struct op_sink){.launch = run_launch, .collective = run_collective};
    eager_cache_init(&g->cache, stream_device(s));
    return g;
}

void eager_free(struct eager *g)
{
    if (!g)
        return;
    eager_end(g);
    eager_cache_release(&g->cache);
    vec_release(&g->node);
    vec_release(&g->value);
    vec_release(&g->block);
    free(g);
}

void eager_limit(struct eager *g, size_t bytes)
{
    g->cache.most_bytes = bytes;
}

void eager_trim(struct eager *g)
{
    eager_cache_trim(&g->cache);
}

void eager_begin(struct eager *g, const struct batch *batch, const struct eager_options *o)
{
    ASSERT(g->node.n == 0 && !g->shared.buf);
    g->batch = batch;
    g->opt = *o;
    g->b = (struct builder){.add = add,
                            .shape_of = shape_of,
                            .block = enter_block,
                            .keep = keep_value,
                            .wants_grad = o->wants_grad,
                            .has_lora = o->has_lora,
                            .lora_rank_max = o->lora_rank_max,
                            .has_dora = o->has_dora,
                            .has_saved = o->has_saved,
                            .dropout = o->dropout,
                            .noise = o->noise};
    memcpy(g->b.saved, o->saved, sizeof g->b.saved);
}

struct builder *eager_builder(struct eager *g)
{
    return &g->b;
}

struct op_view eager_view(const struct eager *g, struct val v)
{
    return v.id < 0 ? (struct op_view){0} : g->value.at[v.id].view;
}

void eager_end(struct eager *g)
{
    for (size_t v = 0; v < g->value.n; v++) {
        eager_drop_value(g, (int32_t)v);
        eager_buf_unref(&g->cache, g->value.at[v].grad);
    }
    for (size_t i = 0; i < g->node.n; i++)
        eager_buf_unref(&g->cache, g->node.at[i].save);
    g->value.n = g->node.n = g->block.n = 0;
    g->batch = NULL;
}

size_t eager_bytes(const struct eager *g)
{
    return g->cache.held_bytes;
}

size_t eager_peak_bytes(const struct eager *g)
{
    return g->cache.peak_bytes;
}

size_t eager_n_tape(const struct eager *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->node.n; i++)
        n += g->node.at[i].on_tape;
    return n;
}
