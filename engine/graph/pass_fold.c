/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts that do nothing: a scale by 1, a slice of all columns, a slice of a slice.
 */
#include <string.h>

#include "engine/graph/passes.h"
#include "engine/op/scale.h"
#include "engine/op/slice.h"

static bool is_identity(const struct graph *g, const struct op_node *n)
{
    if (n->op == OP_scale)
        return op_scale_factor(n) == 1.0f;
    return n->op == OP_slice &&
           g->value.at[n->out[0]].shape.cols == g->value.at[n->in[0]].shape.cols;
}

/* A slice whose input is made by a slice reads that one's input. */
static int slice_of_slice(struct rewrite *r, size_t i, struct err *e)
{
    struct graph_node n = r->in->node.at[i];
    int64_t cols = r->in->value.at[n.op.out[0]].shape.cols;
    int32_t from = r->map[n.op.in[0]];
    const struct op_node *def = &r->out->node.at[r->out->value.at[from].def].op;
    if (def->op != OP_slice)
        return rewrite_copy(r, i, e);
    n.op.in[0] = def->in[0];
    op_slice_set(&n.op, op_slice_lo(&n.op) + op_slice_lo(def), cols);
    return rewrite_emit(r, i, &n, e);
}

int graph_pass_fold(const struct graph *in, struct graph *out, struct err *e)
{
    struct rewrite r;
    int rc = 0;
    rewrite_init(&r, in, out, PASS_fold);
    for (size_t i = 0; i < in->node.n && !rc; i++) {
        const struct op_node *n = &in->node.at[i].op;
        if (is_identity(in, n))
            r.map[n->out[0]] = r.map[n->in[0]];
        else if (n->op == OP_slice)
            rc = slice_of_slice(&r, i, e);
        else
            rc = rewrite_copy(&r, i, e);
    }
    rewrite_finish(&r);
    return rc;
}
