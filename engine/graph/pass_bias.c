/* SPDX-License-Identifier: Apache-2.0
 *
 * A bias into the product before it, where nobody else reads the bare product. The kernel adds it
 * to the finished sum, as the op would.
 */
#include "engine/graph/passes.h"
#include "engine/op/linear.h"

/* The product that op_bias `n` can go into; NULL: none. */
static const struct op_node *product_before(const struct rewrite *r, const struct op_node *n)
{
    const struct op_node *def = &r->in->node.at[r->in->value.at[n->in[0]].def].op;
    bool fits = n->op == OP_bias && def->op == OP_linear && r->n_use[n->in[0]] == 1 &&
                !op_linear_attr_get(def)->bias && def->n_in == 1;
    return fits ? def : NULL;
}

static bool fuse(const struct rewrite *r, const struct op_node *n, struct op_node *made)
{
    const struct op_node *product = product_before(r, n);
    if (!product)
        return false;
    *made = *product;
    op_linear_attr(made)->bias = op_get(OP_bias)->param(n, 0);
    return true;
}

int graph_pass_bias(const struct graph *in, struct graph *out, struct err *e)
{
    return rewrite_each(in, out, PASS_bias, fuse, e);
}
