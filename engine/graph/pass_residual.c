/* SPDX-License-Identifier: Apache-2.0
 *
 * The sum with the residual stream into the product before it: x + (h w^T + bias) in one kernel,
 * which adds the finished sum to what is there.
 */
#include "engine/graph/passes.h"
#include "engine/op/linear.h"

/* Which input of op_add `n` is a product that the sum can go into; -1: none. The later of the two
 * values must be the product, so that the other one is defined where the product runs. */
static int product_side(const struct rewrite *r, const struct op_node *n)
{
    for (int j = 1; j >= 0 && n->op == OP_add; j--) {
        const struct op_node *def = &r->in->node.at[r->in->value.at[n->in[j]].def].op;
        if (def->op == OP_linear && def->n_in == 1 && r->n_use[n->in[j]] == 1 &&
            n->in[j] > n->in[1 - j])
            return j;
    }
    return -1;
}

int graph_pass_residual(const struct graph *in, struct graph *out, struct err *e)
{
    struct rewrite r;
    int rc = 0;
    rewrite_init(&r, in, out, PASS_residual);
    for (size_t i = 0; i < in->node.n && !rc; i++) {
        const struct op_node *n = &in->node.at[i].op;
        int j = product_side(&r, n);
        if (j < 0) {
            rc = rewrite_copy(&r, i, e);
            continue;
        }
        const struct op_node *product = &in->node.at[in->value.at[n->in[j]].def].op;
        struct graph_node fused = in->node.at[i];
        fused.op = *product;
        fused.op.in[0] = r.map[product->in[0]];
        fused.op.in[1] = r.map[n->in[1 - j]];
        fused.op.n_in = 2;
        op_linear_attr(&fused.op)->second = OP_LINEAR_RESIDUAL;
        rc = rewrite_emit(&r, i, &fused, e);
    }
    rewrite_finish(&r);
    return rc;
}
