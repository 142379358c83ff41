/* SPDX-License-Identifier: Apache-2.0
 *
 * See tap.h. What an input is, is known when its rounding passes by: the product reads the rounded
 * rows, and the sums are those of the numbers before.
 */
#include "engine/quant/tap.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/eager/eager.h"
#include "engine/op/linear.h"

struct seen {
    int32_t rounded, input; /* values */
    int32_t param;          /* the first that read it; -1: none yet */
};

/* One run of a micro-batch. */
struct listener {
    struct builder b; /* first: what makers take */
    struct tap *tap;
    struct eager *eager;
    const struct batch *batch; /* borrowed */
    VEC(struct seen) seen;
    void *rows, *panels; /* room for the columns of an input */
    size_t cap_rows, cap_panels;
};

int tap_init(struct tap *t, const struct model *m, struct stream *s, const bool *is_wanted,
             struct err *e)
{
    size_t n = (size_t)m->n_param;
    *t = (struct tap){.model = m, .stream = s, .is_wanted = is_wanted};
    t->input = try_alloc(n, sizeof *t->input, "the products' inputs", e);
    t->input_of = t->input ? try_alloc(n, sizeof *t->input_of, "the products' inputs", e) : NULL;
    t->output = t->input_of ? try_alloc(n, sizeof *t->output, "the products' outputs", e) : NULL;
    return t->output ? 0 : -1;
}

static void forget(struct tap *t)
{
    for (int32_t i = 0; t->input && i < t->model->n_param; i++) {
        mem_free(t->input[i].sum);
        t->input[i] = (struct tap_input){.sum = NULL};
        if (t->input_of)
            t->input_of[i] = -1;
        if (t->output)
            t->output[i] = 0;
    }
}

void tap_release(struct tap *t)
{
    forget(t);
    mem_free(t->input);
    mem_free(t->input_of);
    mem_free(t->output);
    *t = (struct tap){.model = NULL};
}

/* ---- sums ---------------------------------------------------------------------------------- */

static int reserve(void **p, size_t *cap, size_t bytes, struct err *e)
{
    if (bytes <= *cap)
        return 0;
    mem_free(*p);
    *p = try_alloc(1, bytes, "the columns of an input", e);
    *cap = *p ? bytes : 0;
    return *p ? 0 : -1;
}

static int add_input(struct listener *l, struct tap_input *in, const struct op_view *x,
                     struct err *e)
{
    int64_t k = x->shape.cols, m = l->batch->n[x->shape.rows];
    struct k_cols_pack rows = {.x = x->p, .ld_x = x->ld, .m = m, .n = k, .type = K_F32}, panels;
    in->k = k;
    if (!in->sum)
        in->sum = try_alloc((size_t)k, (size_t)k * sizeof *in->sum, "sums of an input", e);
    if (!in->sum || reserve(&l->rows, &l->cap_rows, k_cols_bytes(K_F32, m, k, false), e) ||
        reserve(&l->panels, &l->cap_panels, k_cols_bytes(K_F32, m, k, true), e))
        return -1;
    rows.cols = l->rows;
    panels = rows;
    panels.is_panels = true;
    panels.cols = l->panels;
    struct k_linear_dw sum = {
        .dy = l->rows, .x = l->panels, .m = m, .n = k, .k = k, .dw = in->sum, .ld_dw = k};
    stream_launch(l->tap->stream, K_cols_pack, &rows, sizeof rows);
    stream_launch(l->tap->stream, K_cols_pack, &panels, sizeof panels);
    stream_launch(l->tap->stream, K_linear_dw_f32, &sum, sizeof sum);
    return 0;
}

static double squares(const struct op_view *y, int64_t m)
{
    double sum = 0;
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c < y->shape.cols; c++)
            sum += (double)y->p[r * y->ld + c] * (double)y->p[r * y->ld + c];
    return sum;
}

/* ---- the builder --------------------------------------------------------------------------- */

static struct seen *seen_get(struct listener *l, int32_t rounded)
{
    for (size_t i = l->seen.n; i-- > 0;)
        if (l->seen.at[i].rounded == rounded)
            return &l->seen.at[i];
    return NULL;
}

/* A product is about to run: its input goes to that of the first product that read it. */
static int hear_product(struct listener *l, const struct op_node *n, struct err *e)
{
    const struct param *w = op_linear_attr_get(n)->w;
    struct seen *s = seen_get(l, n->in[0]);
    if (!l->tap->is_wanted[w->index] || !s)
        return 0;
    if (s->param >= 0) {
        l->tap->input_of[w->index] = s->param;
        return 0;
    }
    struct op_view x = eager_view(l->eager, (struct val){s->input});
    l->tap->input_of[w->index] = s->param = w->index;
    return add_input(l, &l->tap->input[w->index], &x, e);
}

static int add(struct builder *b, struct op_node *n, const struct op_shape *out)
{
    struct listener *l = (struct listener *)(void *)b;
    struct builder *to = eager_builder(l->eager);
    if (n->op == OP_linear && hear_product(l, n, &b->err))
        return -1;
    if (to->add(to, n, out)) {
        b->err = to->err;
        return -1;
    }
    if (n->op == OP_round && !seen_get(l, n->out[0]))
        vec_push(&l->seen, (struct seen){n->out[0], n->in[0], -1});
    if (n->op == OP_linear && l->tap->is_wanted[op_linear_attr_get(n)->w->index]) {
        struct op_view y = eager_view(l->eager, (struct val){n->out[0]});
        l->tap->output[op_linear_attr_get(n)->w->index] += squares(&y, l->batch->n[y.shape.rows]);
    }
    return 0;
}

static struct op_shape shape_of(const struct builder *b, struct val v)
{
    const struct listener *l = (const struct listener *)(const void *)b;
    const struct builder *to = eager_builder(l->eager);
    return to->shape_of(to, v);
}

static void block(struct builder *b, int layer)
{
    builder_block(eager_builder(((struct listener *)(void *)b)->eager), layer);
}

static void keep(struct builder *b, struct val v)
{
    builder_keep(eager_builder(((struct listener *)(void *)b)->eager), v);
}

static int run_micro(struct listener *l, struct packed *p, struct err *e)
{
    static const struct eager_options plain = {.wants_grad = false};
    l->b = (struct builder){.add = add, .shape_of = shape_of, .block = block, .keep = keep};
    l->batch = packed_batch(p, 1, 0);
    l->seen.n = 0;
    eager_begin(l->eager, l->batch, &plain);
    model_build(l->tap->model, &l->b, MODEL_HIDDEN);
    eager_end(l->eager);
    return l->b.failed ? err_set(e, l->b.err.code, "%s", l->b.err.msg) : 0;
}

int tap_run(struct tap *t, const struct quant_texts *rows, struct err *e)
{
    struct listener l = {.tap = t};
    struct packed *p = quant_texts_packed(rows, t->model, t->stream, e);
    int rc = p ? 0 : -1;
    forget(t);
    l.eager = rc ? NULL : eager_new(t->stream, e);
    for (size_t next = 0; !rc && next < rows->end.n;)
        rc = quant_texts_pack(rows, &next, false, p, e) || run_micro(&l, p, e) ? -1 : 0;
    eager_free(l.eager);
    packed_free(p);
    vec_release(&l.seen);
    mem_free(l.rows);
    mem_free(l.panels);
    return rc;
}
