/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum with the residual stream into the product before it: x + (h w^T + bias) in one kernel,
 * which adds the finished sum to what is there.
 */
#include "engine/graph/passes.h"
#include "engine/op/linear.h"

/* Which input of op_add `n` is a product that the sum can go into; -1: none. */
static int product_side(const struct rewrite *r, const struct op_node *n)
{
    for (int j = 1; j >= 0 && n->op == OP_add; j--) {
        const struct op_node *def = &r->in->node.at[r->in->value.at[n->in[j]].def].op;
        if (def->op == OP_linear && def->n_in == 1 && r->n_use[n->in[j]] == 1)
            return j;
    }
    return -1;
}

static bool fuse(const struct rewrite *r, const struct op_node *n, struct op_node *made)
{
    int j = product_side(r, n);
    if (j < 0)
        return false;
    *made = r->in->node.at[r->in->value.at[n->in[j]].def].op;
    made->in[1] = n->in[1 - j];
    made->n_in = 2;
    op_linear_attr(made)->second = OP_LINEAR_RESIDUAL;
    return true;
}

int graph_pass_residual(const struct graph *in, struct graph *out, struct err *e)
{
    return rewrite_each(in, out, PASS_residual, fuse, e);
}
