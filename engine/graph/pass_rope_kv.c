/* SPDX-License-Identifier: Apache-2.0
 *
 * The turning of queries and keys, the norms of their heads, and the writing of keys and values to
 * the cells become one node in front of the attention, which reads the cells. What it takes the
 * place of is left to nobody, and goes with pass `dead`.
 */
#include "engine/graph/passes.h"
#include "engine/op/rope_kv.h"

/* What makes a value that node `by` alone reads; NULL: others read it too, or another op made it.
 */
static const struct op_node *made_by(const struct rewrite *r, int32_t value, enum op_id op)
{
    const struct op_node *n = &r->in->node.at[r->in->value.at[value].def].op;
    return n->op == op && r->n_use[value] == 1 ? n : NULL;
}

static bool find(const struct rewrite *r, const struct op_node *n, struct op_node *made)
{
    struct op_rope_kv_from f = {.attn = n};
    if (n->op != OP_attn || n->n_in != 3)
        return false;
    f.rope_q = made_by(r, n->in[0], OP_rope);
    f.rope_k = made_by(r, n->in[1], OP_rope);
    if (!f.rope_q || !f.rope_k)
        return false;
    f.norm_q = made_by(r, f.rope_q->in[0], OP_rmsnorm);
    f.norm_k = made_by(r, f.rope_k->in[0], OP_rmsnorm);
    return op_rope_kv_set(made, &f) == 0;
}

static int put(struct rewrite *r, size_t i, const struct op_node *made, struct err *e)
{
    struct graph_node first = {
        .op = *made, .in_place = {-1, -1}, .layer = r->in->node.at[i].layer, .pass = r->pass};
    struct graph_node attn = r->in->node.at[i];
    for (int j = 0; j < made->n_in; j++)
        first.op.in[j] = r->map[made->in[j]];
    if (graph_emit(r->out, &first, e))
        return -1;
    attn.op.n_in = 1;
    attn.op.in[0] = first.op.out[0];
    return rewrite_emit(r, i, &attn, e);
}

int graph_pass_rope_kv(const struct graph *in, struct graph *out, struct err *e)
{
    struct rewrite r;
    struct op_node made;
    int rc = 0;
    rewrite_init(&r, in, out, PASS_rope_kv);
    for (size_t i = 0; i < in->node.n && !rc; i++)
        rc = find(&r, &in->node.at[i].op, &made) ? put(&r, i, &made, e) : rewrite_copy(&r, i, e);
    rewrite_finish(&r);
    return rc;
}
