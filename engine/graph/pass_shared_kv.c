/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that attends to the keys and values of one before it has them for inputs, since gradients
 * go that way; but in the cells they stand already. Without these inputs op attn reads the cells
 * alone. Its queries come from what the other layer gave, so it can't be first.
 */
#include <string.h>

#include "engine/graph/passes.h"
#include "engine/op/ops.h"

static int32_t layer_of(const struct op_node *n)
{
    struct op_attn_attr a;
    memcpy(&a, n->attr, sizeof a);
    return a.layer;
}

static bool writes(const struct op_node *n)
{
    return n->op == OP_attn && n->n_in == 3;
}

/* Whether a node before i wrote the same into the same cells. */
static bool stands(const struct graph *g, size_t i)
{
    const struct op_node *n = &g->node.at[i].op;
    for (size_t k = 0; k < i; k++) {
        const struct op_node *other = &g->node.at[k].op;
        if (writes(other) && layer_of(other) == layer_of(n) && other->in[1] == n->in[1] &&
            other->in[2] == n->in[2])
            return true;
    }
    return false;
}

int graph_pass_shared_kv(const struct graph *in, struct graph *out, struct err *e)
{
    struct rewrite r;
    int rc = 0;
    rewrite_init(&r, in, out, PASS_shared_kv);
    for (size_t i = 0; i < in->node.n && !rc; i++) {
        struct graph_node n = in->node.at[i];
        if (!writes(&n.op) || !stands(in, i)) {
            rc = rewrite_copy(&r, i, e);
            continue;
        }
        n.op.n_in = 1;
        n.op.in[0] = r.map[n.op.in[0]];
        rc = rewrite_emit(&r, i, &n, e);
    }
    rewrite_finish(&r);
    return rc;
}
