/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs that take the place of an input which nobody reads any more. A value may be seen through
 * slices; what counts is whether anything that overlaps it is read later.
 */
#include <stdlib.h>

#include "engine/graph/passes.h"
#include "engine/op/slice.h"

struct field {
    const struct graph *g;
    struct graph_place *place; /* as in-place nodes are chosen */
    int32_t *last;
};

static bool is_free_after(const struct field *f, int32_t v, int32_t i)
{
    const struct graph_value *val = f->g->value.at;
    int64_t lo = f->place[v].col, hi = lo + val[v].shape.cols;
    for (size_t w = 0; w < f->g->value.n; w++) {
        int64_t w_lo = f->place[w].col, w_hi = w_lo + val[w].shape.cols;
        if (val[w].def < i && f->place[w].root == f->place[v].root && w_lo < hi && lo < w_hi &&
            f->last[w] > i)
            return false;
    }
    return true;
}

/* The same memory must not serve two inputs of the node. */
static bool is_alone(const struct field *f, const struct op_node *n, int j)
{
    for (int k = 0; k < n->n_in; k++)
        if (k != j && f->place[n->in[k]].root == f->place[n->in[j]].root)
            return n->in[k] != n->in[j] && f->place[n->in[k]].col != f->place[n->in[j]].col;
    return true;
}

static void choose(struct field *f, struct graph_node *n, int32_t i)
{
    const struct graph_value *val = f->g->value.at;
    unsigned used = 0;
    for (int o = 0; o < n->op.n_out; o++) {
        for (int j = 0; j < n->op.n_in && n->in_place[o] < 0; j++) {
            int32_t v = n->op.in[j], out = n->op.out[o];
            if (!(op_get(n->op.op)->may_overwrite[o] & (1u << j)) || (used & (1u << j)) ||
                val[v].shape.blocked || val[v].shape.rows != val[out].shape.rows ||
                val[v].shape.cols != val[out].shape.cols || !is_alone(f, &n->op, j) ||
                !is_free_after(f, v, i))
                continue;
            n->in_place[o] = (int8_t)j;
            f->place[out] = f->place[v];
            used |= 1u << j;
        }
    }
}

int graph_pass_in_place(const struct graph *in, struct graph *out, struct err *e)
{
    struct field f = {.g = out};
    struct rewrite r;
    int rc = 0;
    rewrite_init(&r, in, out, PASS_in_place);
    for (size_t i = 0; i < in->node.n && !rc; i++)
        rc = rewrite_copy(&r, i, e);
    rewrite_finish(&r);
    if (rc)
        return rc;
    f.place = graph_places(out);
    f.last = graph_last_uses(out);
    for (size_t i = 0; i < out->node.n; i++) {
        struct graph_node *n = &out->node.at[i];
        if (op_get(n->op.op)->view) { /* an heir of a value whose place was chosen */
            f.place[n->op.out[0]] = f.place[n->op.in[0]];
            f.place[n->op.out[0]].col += op_slice_lo(&n->op);
        } else {
            choose(&f, n, (int32_t)i);
        }
    }
    free(f.place);
    free(f.last);
    return 0;
}
