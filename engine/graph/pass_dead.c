/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts that nobody reads: dropped, unless they act on something outside (the K/V cache).
 */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/graph/passes.h"

/* Marks, from the back, what an output or an effect needs. */
static bool *needed_nodes(const struct graph *g)
{
    bool *value = xcalloc(g->value.n + 1, sizeof *value);
    bool *node = xcalloc(g->node.n + 1, sizeof *node);
    for (size_t i = 0; i < g->output.n; i++)
        value[g->output.at[i]] = true;
    for (size_t i = g->node.n; i-- > 0;) {
        const struct op_node *n = &g->node.at[i].op;
        node[i] = op_get(n->op)->has_effect;
        for (int o = 0; o < n->n_out; o++)
            node[i] |= value[n->out[o]];
        for (int j = 0; j < n->n_in && node[i]; j++)
            value[n->in[j]] = true;
    }
    free(value);
    return node;
}

int graph_pass_dead(const struct graph *in, struct graph *out, struct err *e)
{
    bool *needed = needed_nodes(in);
    struct rewrite r;
    int rc = 0;
    rewrite_init(&r, in, out, PASS_dead);
    for (size_t i = 0; i < in->node.n && !rc; i++)
        if (needed[i])
            rc = rewrite_copy(&r, i, e);
    rewrite_finish(&r);
    free(needed);
    return rc;
}
