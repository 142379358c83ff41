/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of graphs, checked after every pass in debug builds and by the tests.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/graph/graph.h"

static bool same_shape(struct op_shape a, struct op_shape b)
{
    return a.rows == b.rows && a.blocked == b.blocked && a.type == b.type && a.cols == b.cols;
}

static int check_node(const struct graph *g, size_t i, struct err *e)
{
    const struct graph_node *n = &g->node.at[i];
    struct op_shape in[OP_IN_MAX], out[OP_OUT_MAX];
    for (int j = 0; j < n->op.n_in; j++) {
        int32_t v = n->op.in[j];
        if (v < 0 || (size_t)v >= g->value.n || g->value.at[v].def >= (int32_t)i)
            return err_set(e, ERR_CORRUPT, "input %d is not defined before it", j);
        in[j] = g->value.at[v].shape;
    }
    if (op_get(n->op.op)->shape(&n->op, in, out, e))
        return -1;
    for (int o = 0; o < n->op.n_out; o++) {
        int32_t v = n->op.out[o];
        if (v < 0 || (size_t)v >= g->value.n || g->value.at[v].def != (int32_t)i)
            return err_set(e, ERR_CORRUPT, "output %d is not its own", o);
        if (!same_shape(g->value.at[v].shape, out[o]))
            return err_set(e, ERR_CORRUPT, "output %d has not the shape that the op gives", o);
    }
    return 0;
}

/* True when a value that lies over `v`'s memory is read after node i, v's own heirs excepted. */
static bool is_read_later(const struct graph *g, const struct graph_place *place,
                          const int32_t *last, int32_t v, int32_t i)
{
    int64_t lo = place[v].col, hi = lo + g->value.at[v].shape.cols;
    for (size_t w = 0; w < g->value.n; w++) {
        int64_t w_lo = place[w].col, w_hi = w_lo + g->value.at[w].shape.cols;
        if (place[w].root == place[v].root && w_lo < hi && lo < w_hi && last[w] > i &&
            g->value.at[w].def < i)
            return true;
    }
    return false;
}

static int check_in_place(const struct graph *g, struct err *e)
{
    struct graph_place *place = graph_places(g);
    int32_t *last = graph_last_uses(g);
    int rc = 0;
    for (size_t i = 0; i < g->node.n && !rc; i++) {
        const struct graph_node *n = &g->node.at[i];
        for (int o = 0; o < n->op.n_out && !rc; o++) {
            int j = n->in_place[o];
            if (j < 0)
                continue;
            if (j >= n->op.n_in || !(op_get(n->op.op)->may_overwrite[o] & (1u << j)))
                rc = err_set(e, ERR_CORRUPT, "node %zu: %s may not overwrite input %d", i,
                             op_name(n->op.op), j);
            else if (is_read_later(g, place, last, n->op.in[j], (int32_t)i))
                rc = err_set(e, ERR_CORRUPT, "node %zu: %s overwrites what is read later", i,
                             op_name(n->op.op));
        }
    }
    free(place);
    free(last);
    return rc;
}

int graph_verify(const struct graph *g, struct err *e)
{
    for (size_t i = 0; i < g->node.n; i++)
        if (check_node(g, i, e))
            return err_wrap(e, "node %zu (%s)", i, op_name(g->node.at[i].op.op));
    for (size_t i = 0; i < g->output.n; i++)
        if (g->output.at[i] < 0 || (size_t)g->output.at[i] >= g->value.n)
            return err_set(e, ERR_CORRUPT, "output %zu is not defined", i);
    return check_in_place(g, e);
}
