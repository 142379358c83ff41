/* SPDX-License-Identifier: Apache-2.0
 *
 * A sum into the norm behind it: the norm reads both values and writes the sum as well, so the
 * residual stream passes through the cache once. What the residual pass left (a sum behind an
 * adapter, say) comes here.
 */
#include "engine/graph/passes.h"

static bool is_norm(const struct op_node *n)
{
    return n->op == OP_rmsnorm || n->op == OP_layernorm;
}

/* The norm that takes the sum made by node i: the first one that reads it; 0: none. Nobody may need
 * the sum earlier. */
static size_t norm_behind(const struct graph *g, size_t i)
{
    const struct op_node *sum = &g->node.at[i].op;
    if (sum->op != OP_add)
        return 0;
    for (size_t k = i + 1; k < g->node.n; k++) {
        const struct op_node *n = &g->node.at[k].op;
        for (int j = 0; j < n->n_in; j++)
            if (n->in[j] == sum->out[0])
                return is_norm(n) && n->n_in == 1 ? k : 0;
    }
    return 0;
}

static int fuse(struct rewrite *r, size_t add, size_t norm, struct err *e)
{
    const struct op_node *sum = &r->in->node.at[add].op;
    struct graph_node n = r->in->node.at[norm];
    n.op.n_in = 2;
    n.op.n_out = 2;
    n.op.in[0] = r->map[sum->in[0]];
    n.op.in[1] = r->map[sum->in[1]];
    if (rewrite_emit(r, norm, &n, e))
        return -1;
    r->map[sum->out[0]] = n.op.out[1];
    return 0;
}

int graph_pass_norm(const struct graph *in, struct graph *out, struct err *e)
{
    struct rewrite r;
    int rc = 0;
    rewrite_init(&r, in, out, PASS_norm);
    for (size_t i = 0; i < in->node.n && !rc; i++) {
        const struct op_node *n = &in->node.at[i].op;
        size_t def = n->n_in ? (size_t)in->value.at[n->in[0]].def : 0;
        if (norm_behind(in, i))
            continue; /* made with its norm */
        if (is_norm(n) && in->node.at[def].op.op == OP_add && norm_behind(in, def) == i)
            rc = fuse(&r, def, i, e);
        else
            rc = rewrite_copy(&r, i, e);
    }
    rewrite_finish(&r);
    return rc;
}
