/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk back. Gradients are counted buffers: where an op's input has the gradient of its output
 * (a sum, a bias, a rounding) both hold the same one, and whoever wants to add to a shared one
 * makes its own first.
 *
 * The order in which gradients meet at a value is the reverse order of its readers: fixed by the
 * model, so the bits are too.
 */
#include "engine/eager/tape.h"

static size_t rows_of(const struct eager *g, struct op_shape s)
{
    return (size_t)g->batch->n[s.rows];
}

/* The gradient of a rounded value is plain f32 rows. */
static struct op_shape grad_shape(struct op_shape s)
{
    return (struct op_shape){.rows = s.rows, .cols = s.cols};
}

static struct op_view root_view(const struct eager *g, int32_t root, struct eager_buf *b)
{
    struct op_shape s = grad_shape(g->value.at[root].shape);
    return (struct op_view){.shape = s, .p = b ? b->p : NULL, .ld = s.cols};
}

/* What v is of its root, of which w is given: a view, or a view of one. */
static struct op_view view_within(const struct eager *g, int32_t v, struct op_view w)
{
    if (v == g->value.at[v].root || !w.p)
        return w;
    const struct op_node *n = &g->node.at[g->value.at[v].def].op;
    return op_get(n->op)->view(n, view_within(g, n->in[0], w));
}

/* The gradient of a value inside its root's. */
static struct op_view grad_view(const struct eager *g, int32_t value)
{
    int32_t v = g->value.at[value].grad_of, root = g->value.at[v].root;
    return view_within(g, v, root_view(g, root, g->value.at[root].grad));
}

static struct eager_buf *new_grad(struct eager *g, int32_t root, struct err *e)
{
    struct op_shape s = grad_shape(g->value.at[root].shape);
    return eager_buf_new(&g->cache, op_shape_bytes(s, (int64_t)rows_of(g, s)), e);
}

static void add_views(struct eager *g, struct op_view a, struct op_view b, struct op_view y)
{
    struct k_binary k = {.a = a.p,
                         .b = b.p,
                         .y = y.p,
                         .ld_a = a.ld,
                         .ld_b = b.ld,
                         .ld_y = y.ld,
                         .m = (int64_t)rows_of(g, y.shape),
                         .d = y.shape.cols};
    stream_launch(g->stream, K_add, &k, sizeof k);
}

static void copy_view(struct eager *g, struct op_view x, struct op_view y)
{
    struct k_copy k = {.x = x.p,
                       .y = y.p,
                       .ld_x = x.ld,
                       .ld_y = y.ld,
                       .m = (int64_t)rows_of(g, y.shape),
                       .d = y.shape.cols};
    stream_launch(g->stream, K_copy, &k, sizeof k);
}

/* Makes the root's gradient its own, so that it can be added to: a shared one is copied, a missing
 * one (wanted for a slice) begins with zeros. */
static int own_grad(struct eager *g, int32_t root, struct err *e)
{
    struct eager_value *v = &g->value.at[root];
    struct eager_buf *mine;
    if (v->grad && v->grad->n_ref == 1)
        return 0;
    mine = new_grad(g, root, e);
    if (!mine)
        return -1;
    copy_view(g, root_view(g, root, v->grad), root_view(g, root, mine));
    eager_buf_unref(&g->cache, v->grad);
    v->grad = mine;
    return 0;
}

/* The gradient of `to` is dout's, held by `from`, the root of the value dout belongs to. */
static int share_grad(struct eager *g, int32_t to, int32_t from, struct op_view dout, struct err *e)
{
    int32_t v = g->value.at[to].grad_of;
    struct eager_value *val = &g->value.at[v];
    if (!val->needs_grad || v == g->value.at[from].grad_of)
        return 0;
    if (val->root == v && !val->grad && dout.ld == dout.shape.cols) {
        val->grad = eager_buf_ref(g->value.at[from].grad);
        return 0;
    }
    if (own_grad(g, val->root, e))
        return -1;
    add_views(g, grad_view(g, v), dout, grad_view(g, v));
    return 0;
}

struct target {
    int32_t v;
    struct eager_buf *part; /* counted: written first, then summed; NULL: written in place */
};

/* Where the op is to put the gradient of input j. */
static int aim(struct eager *g, const struct op_node *n, int j, struct op_grad *gr,
               struct target *t, struct err *e)
{
    const struct op_def *def = op_get(n->op);
    int32_t v = g->value.at[n->in[j]].grad_of, root = g->value.at[v].root;
    *t = (struct target){.v = -1};
    gr->din[j] = (struct op_view){.shape = grad_shape(g->value.at[v].shape)};
    if (!g->value.at[v].needs_grad || ((def->grad_same | def->no_grad) & (1u << j)))
        return 0;
    t->v = v;
    if (v == root && !g->value.at[v].grad) {
        g->value.at[v].grad = new_grad(g, v, e);
        gr->din[j] = grad_view(g, v);
        return g->value.at[v].grad ? 0 : -1;
    }
    if (own_grad(g, root, e))
        return -1;
    gr->din[j] = grad_view(g, v);
    gr->din_add[j] = true;
    if (!def->only_overwrites)
        return 0;
    t->part = new_grad(g, v, e);
    gr->din[j] = (struct op_view){
        .shape = gr->din[j].shape, .p = t->part ? t->part->p : NULL, .ld = gr->din[j].shape.cols};
    gr->din_add[j] = false;
    return t->part ? 0 : -1;
}

static int make_value(struct eager *g, int32_t v, struct err *e)
{
    size_t def = (size_t)g->value.at[v].def;
    if (g->value.at[v].view.p)
        return 0;
    for (int j = 0; j < g->node.at[def].op.n_in; j++)
        if (make_value(g, g->node.at[def].op.in[j], e))
            return -1;
    return eager_run_node(g, def, e);
}

/* What node i's backward reads and was cheap enough not to be kept. */
static int make_again(struct eager *g, const struct op_node *n, struct err *e)
{
    for (int j = 0; j < n->n_in; j++)
        if ((op_get(n->op)->need_in & (1u << j)) && make_value(g, n->in[j], e))
            return -1;
    return 0;
}

static void drop_shared(struct eager *g)
{
    eager_buf_unref(&g->cache, g->shared.buf);
    g->shared.buf = NULL;
}

/* The room that node n's backward shares with others of input 1, as they left it. */
static int find_shared(struct eager *g, const struct op_node *n, const struct op_shape *in,
                       struct op_ctx *c, struct err *e)
{
    const struct op_def *def = op_get(n->op);
    struct eager_shared *s = &g->shared;
    size_t bytes = def->shared_back ? def->shared_back(n, in, g->batch->n) : 0;
    if (bytes == 0)
        return 0;
    c->has_shared = s->buf && s->value == n->in[1] && s->bytes == bytes;
    if (!c->has_shared) {
        drop_shared(g);
        *s = (struct eager_shared){.bytes = bytes, .value = n->in[1]};
        s->buf = eager_buf_new(&g->cache, bytes, e);
    }
    c->shared = s->buf ? s->buf->p : NULL;
    return s->buf ? 0 : -1;
}

static int run_backward(struct eager *g, size_t i, struct op_grad *gr, struct err *e)
{
    const struct op_node *n = &g->node.at[i].op;
    const struct op_def *def = op_get(n->op);
    struct op_shape in[OP_IN_MAX];
    struct eager_buf *work = NULL;
    struct op_ctx c;
    if (make_again(g, n, e) || eager_begin_grads(g, n, e))
        return -1;
    eager_fill_ctx(g, i, &c);
    for (int j = 0; j < n->n_in; j++)
        in[j] = g->value.at[n->in[j]].shape;
    if (find_shared(g, n, in, &c, e))
        return -1;
    if (def->work_back) {
        work = eager_buf_new(&g->cache, def->work_back(n, in, g->batch->n), e);
        if (!work)
            return -1;
        c.work = work->p;
    }
    def->backward(&c, gr);
    eager_end_grads(g, n);
    eager_buf_unref(&g->cache, work);
    return 0;
}

/* The gradients of node i's outputs; false: none has arrived. */
static bool find_grads(const struct eager *g, size_t i, struct op_grad *gr)
{
    const struct op_node *n = &g->node.at[i].op;
    bool arrived = op_get(n->op)->is_loss;
    *gr = (struct op_grad){0};
    for (int o = 0; o < n->n_out; o++) {
        gr->dout[o] = grad_view(g, n->out[o]);
        arrived |= gr->dout[o].p != NULL;
    }
    return arrived && !op_get(n->op)->view;
}

/* The inputs whose gradient is that of node i's output get it. */
static int pass_grads(struct eager *g, size_t i, struct err *e)
{
    const struct op_node *n = &g->node.at[i].op;
    struct op_grad gr;
    if (!find_grads(g, i, &gr))
        return 0;
    for (int j = 0; j < n->n_in; j++)
        if ((op_get(n->op)->grad_same & (1u << j)) &&
            share_grad(g, n->in[j], g->value.at[n->out[0]].root, gr.dout[0], e))
            return -1;
    return 0;
}

/* Two inputs of one node may be the same value: then the second is aimed after the first is done,
 * by giving it a part of its own. */
static int make_grads(struct eager *g, size_t i, struct err *e)
{
    const struct op_node *n = &g->node.at[i].op;
    struct target t[OP_IN_MAX];
    struct op_grad gr;
    int rc = -1, n_aimed = 0;
    if (!op_get(n->op)->backward || !find_grads(g, i, &gr))
        return 0;
    for (; n_aimed < n->n_in; n_aimed++)
        if (aim(g, n, n_aimed, &gr, &t[n_aimed], e))
            goto done;
    if (run_backward(g, i, &gr, e))
        goto done;
    for (int j = 0; j < n->n_in; j++)
        if (t[j].part)
            add_views(g, grad_view(g, t[j].v), gr.din[j], grad_view(g, t[j].v));
    rc = 0;
done:
    for (int j = 0; j < n_aimed; j++)
        eager_buf_unref(&g->cache, t[j].part);
    return rc;
}

/* Nobody needs what node i made any more. */
static void forget_node(struct eager *g, size_t i)
{
    struct eager_node *n = &g->node.at[i];
    for (int o = 0; o < n->op.n_out; o++) {
        struct eager_value *v = &g->value.at[n->op.out[o]];
        eager_drop_value(g, n->op.out[o]);
        eager_buf_unref(&g->cache, v->grad);
        v->grad = NULL;
    }
    eager_buf_unref(&g->cache, n->save);
    n->save = NULL;
}

/* Runs a checkpointed block's forward again, all but its last value, which was never dropped. */
static int restore_block(struct eager *g, size_t lo, size_t hi, struct err *e)
{
    for (size_t i = lo; i < hi; i++) {
        struct eager_node *n = &g->node.at[i];
        for (int o = 0; o < n->op.n_out; o++)
            eager_drop_value(g, n->op.out[o]);
        if (eager_run_node(g, i, e))
            return err_wrap(e, "running %s again", op_name(n->op.op));
    }
    return 0;
}

/* Whether the node before i, which made its input 0, goes first. */
static bool is_second(const struct eager *g, size_t lo, size_t i)
{
    const struct op_node *n = &g->node.at[i].op;
    return op_get(n->op)->backs_second && i > lo && g->node.at[i].on_tape &&
           g->node.at[i - 1].on_tape && g->value.at[n->in[0]].def == (int32_t)(i - 1);
}

static int backward_node(struct eager *g, size_t i, bool passes, bool makes, struct err *e)
{
    if (!g->node.at[i].on_tape ||
        !((passes && pass_grads(g, i, e)) || (makes && make_grads(g, i, e))))
        return 0;
    return err_wrap(e, "backward of %s", op_name(g->node.at[i].op.op));
}

static int backward_range(struct eager *g, size_t lo, size_t hi, struct err *e)
{
    for (size_t i = hi, first; i-- > lo; i = first) {
        bool is_pair = is_second(g, lo, i);
        first = is_pair ? i - 1 : i;
        if (backward_node(g, i, true, !is_pair, e) ||
            (is_pair &&
             (backward_node(g, first, true, true, e) || backward_node(g, i, false, true, e))))
            return -1;
        for (size_t k = i + 1; lo > 0 && k-- > first;) /* before the first block the caller reads */
            forget_node(g, k);
    }
    return 0;
}

int eager_backward(struct eager *g, struct err *e)
{
    size_t hi = g->node.n;
    ASSERT(g->opt.wants_grad);
    for (size_t b = g->block.n + 1; b-- > 0;) {
        size_t lo = b ? g->block.at[b - 1].node_lo : 0;
        bool was_dropped = b > 0 && b < g->block.n && g->opt.checkpoint;
        if (was_dropped && restore_block(g, lo, hi, e))
            return -1;
        int rc = backward_range(g, lo, hi, e);
        drop_shared(g);
        if (rc)
            return -1;
        if (b && g->opt.block_done && g->opt.block_done(g->opt.ctx, g->block.at[b - 1].layer, e))
            return -1;
        hi = lo;
    }
    return 0;
}

int eager_seed(struct eager *g, struct val v, const float *grad, struct err *e)
{
    struct eager_value *val = &g->value.at[v.id];
    struct op_shape s = grad_shape(val->shape);
    ASSERT(val->root == v.id && !val->grad);
    val->grad = new_grad(g, v.id, e);
    if (!val->grad)
        return -1;
    stream_copy(g->stream, val->grad->p, grad, op_shape_bytes(s, (int64_t)rows_of(g, s)),
                COPY_TO_DEVICE);
    return 0;
}

struct op_view eager_grad(const struct eager *g, struct val v)
{
    return grad_view(g, v.id);
}
