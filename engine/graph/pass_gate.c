/* SPDX-License-Identifier: Apache-2.0
 *
 * A gated product in one: gate and up, joined, are multiplied with each other and rounded for the
 * product behind them where they are made, so that the widest values of a model never go through
 * memory. Only where nobody else reads them: adapters do, and so does a tape.
 */
#include "engine/graph/passes.h"
#include "engine/op/linear.h"
#include "engine/op/slice.h"
#include "kernels/format.h"

static const struct op_node *def_of(const struct rewrite *r, int32_t v)
{
    return &r->in->node.at[r->in->value.at[v].def].op;
}

/* Whether v is half of a value, from column `lo` on, for one reader. */
static bool is_half(const struct rewrite *r, int32_t v, int64_t lo, int64_t half)
{
    const struct op_node *n = def_of(r, v);
    return n->op == OP_slice && r->n_use[v] == 1 && op_slice_lo(n) == lo &&
           r->in->value.at[v].shape.cols == half;
}

static enum k_type rounded_for(const struct rewrite *r, const struct op_node *round)
{
    return r->in->value.at[round->out[0]].shape.type;
}

/* The product that op_round `n` can go into, with the gate between them; NULL: none. */
static const struct op_node *product_before(const struct rewrite *r, const struct op_node *n)
{
    if (n->op != OP_round || (rounded_for(r, n) != K_BF16 && rounded_for(r, n) != K_Q8))
        return NULL;
    const struct op_node *gate = def_of(r, n->in[0]);
    int64_t half = r->in->value.at[n->in[0]].shape.cols;
    if (gate->op != OP_swiglu || r->n_use[n->in[0]] != 1 || half % K_NR != 0 ||
        !is_half(r, gate->in[0], 0, half) || !is_half(r, gate->in[1], half, half))
        return NULL;
    int32_t both = def_of(r, gate->in[0])->in[0];
    const struct op_node *product = def_of(r, both);
    bool fits = product->op == OP_linear && product->n_in == 1 && r->n_use[both] == 2 &&
                def_of(r, gate->in[1])->in[0] == both &&
                op_linear_attr_get(product)->n == 2 * half &&
                param_reads(op_linear_attr_get(product)->w) == rounded_for(r, n);
    return fits ? product : NULL;
}

static bool fuse(const struct rewrite *r, const struct op_node *n, struct op_node *made)
{
    const struct op_node *product = product_before(r, n);
    if (!product)
        return false;
    *made = *product;
    op_linear_attr(made)->is_gated = true;
    op_linear_attr(made)->gated_type = (int32_t)rounded_for(r, n);
    return true;
}

int graph_pass_gate(const struct graph *in, struct graph *out, struct err *e)
{
    return rewrite_each(in, out, PASS_gate, fuse, e);
}
