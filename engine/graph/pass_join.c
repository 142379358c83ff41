/* SPDX-License-Identifier: Apache-2.0
 *
 * Products that read the same rows through neighbouring weights (q, k, v; gate, up) become one
 * product and slices of its output: one pass over the rows, one larger piece of work. The loader
 * packs such weights back to back; each output's sum is what it was.
 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/op/linear.h"
#include "engine/op/slice.h"

enum { JOIN_MAX = 8 };

static bool is_plain_product(const struct op_node *n)
{
    return n->op == OP_linear && n->n_in == 1;
}

static bool are_neighbours(const struct op_node *a, const struct op_node *b)
{
    const struct op_linear_attr *x = op_linear_attr_get(a), *y = op_linear_attr_get(b);
    if (!x->bias != !y->bias || (x->bias && !param_follows(x->bias, y->bias)))
        return false;
    return param_follows(x->w, y->w);
}

/* The nodes that join node i's product, i first; their number. */
static int find_group(const struct graph *g, size_t i, const bool *taken, size_t *group)
{
    int n = 0;
    group[n++] = i;
    for (size_t k = i + 1; k < g->node.n && n < JOIN_MAX; k++) {
        const struct op_node *next = &g->node.at[k].op;
        if (!taken[k] && is_plain_product(next) && next->in[0] == g->node.at[i].op.in[0] &&
            are_neighbours(&g->node.at[group[n - 1]].op, next))
            group[n++] = k;
    }
    return n;
}

/* One product for the whole group, then a slice for each of its parts. */
static int join(struct rewrite *r, const size_t *group, int n_group, struct err *e)
{
    struct graph_node n = r->in->node.at[group[0]];
    struct op_linear_attr *a = op_linear_attr(&n.op);
    int64_t lo = 0;
    a->n_joined = (int32_t)n_group - 1;
    n.op.in[0] = r->map[n.op.in[0]];
    for (int i = 1; i < n_group; i++)
        a->n += op_linear_attr_get(&r->in->node.at[group[i]].op)->n;
    n.pass = r->pass;
    if (graph_emit(r->out, &n, e))
        return -1;
    for (int i = 0; i < n_group; i++) {
        const struct graph_node *part = &r->in->node.at[group[i]];
        struct graph_node slice = {.op = {.op = OP_slice, .n_in = 1, .n_out = 1},
                                   .in_place = {-1, -1},
                                   .layer = part->layer};
        int64_t cols = op_linear_attr_get(&part->op)->n;
        slice.op.in[0] = n.op.out[0];
        op_slice_set(&slice.op, lo, cols);
        lo += cols;
        if (rewrite_emit(r, group[i], &slice, e))
            return -1;
    }
    return 0;
}

int graph_pass_join(const struct graph *in, struct graph *out, struct err *e)
{
    bool *taken = xcalloc(in->node.n + 1, sizeof *taken);
    size_t group[JOIN_MAX];
    struct rewrite r;
    int rc = 0;
    rewrite_init(&r, in, out, PASS_join);
    for (size_t i = 0; i < in->node.n && !rc; i++) {
        int n = 1;
        if (taken[i])
            continue;
        if (is_plain_product(&in->node.at[i].op))
            n = find_group(in, i, taken, group);
        rc = n > 1 ? join(&r, group, n, e) : rewrite_copy(&r, i, e);
        for (int k = 0; k < n && n > 1; k++)
            taken[group[k]] = true;
    }
    rewrite_finish(&r);
    free(taken);
    return rc;
}
