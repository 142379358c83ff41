/* SPDX-License-Identifier: Apache-2.0
 *
 * Values and weights that are split alike form a class: what an op reads and writes by columns, and
 * the weight whose outputs or inputs these are. Its pieces are what all its ops can bear (heads of
 * keys, say); where none of them minds, runs of 64 columns or less.
 */
#include "engine/graph/shard_pieces.h"

#include <stdlib.h>

#include "engine/base/mem.h"

enum { RUN_MAX = 64 };

/* Values, then parameters. */
struct classes {
    int32_t *up;     /* owned: towards a class's first member */
    int64_t *length; /* owned: common divisor of its members' lengths */
    int64_t *demand; /* owned: of its ops' pieces; 0: none minds */
};

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t c = a % b;
        a = b;
        b = c;
    }
    return a;
}

static int32_t top(const struct classes *c, int32_t i)
{
    while (c->up[i] != i)
        i = c->up[i];
    return i;
}

static void join(struct classes *c, int32_t a, int32_t b)
{
    a = top(c, a);
    b = top(c, b);
    c->up[b] = a;
    c->length[a] = divisor(c->length[a], c->length[b]);
    c->demand[a] = divisor(c->demand[a], c->demand[b]);
}

/* Joins what a node splits alike; the class of its weight follows from the rule. */
static void see_node(struct classes *c, const struct shard *s, const struct graph *g, size_t i)
{
    const struct op_node *n = &g->node.at[i].op;
    const struct op_def *def = op_get(n->op);
    const struct op_shard *r = s->rule[i];
    struct op_shape in[OP_IN_MAX];
    int32_t first = -1, base = (int32_t)g->value.n;
    const struct param *p;
    for (int j = 0; j < n->n_in; j++)
        in[j] = g->value.at[n->in[j]].shape;
    for (int j = 0; j < n->n_in; j++) {
        if (r->in[j] != SPLIT_COLS)
            continue;
        if (first >= 0)
            join(c, first, n->in[j]);
        first = n->in[j];
    }
    if (r->out == SPLIT_COLS) {
        for (int o = 0; o < n->n_out; o++) {
            if (first >= 0)
                join(c, first, n->out[o]);
            first = n->out[o];
        }
    }
    if (first >= 0 && def->pieces)
        c->demand[top(c, first)] = divisor(c->demand[top(c, first)], def->pieces(n, in));
    for (int k = 0; def->param && (p = def->param(n, k)); k++)
        if (first >= 0 && r->weight != SPLIT_WHOLE && r->weight != SPLIT_END)
            join(c, first, base + p->index);
}

static void measure(struct classes *c, const struct shard *s, const struct graph *g)
{
    const struct param *p;
    for (size_t v = 0; v < g->value.n; v++) {
        c->up[v] = (int32_t)v;
        c->length[v] = g->value.at[v].shape.cols;
    }
    for (int32_t i = 0; i < s->n_param; i++)
        c->up[g->value.n + (size_t)i] = (int32_t)g->value.n + i;
    for (size_t i = 0; i < g->node.n; i++) {
        const struct op_node *n = &g->node.at[i].op;
        for (int k = 0; op_get(n->op)->param && (p = op_get(n->op)->param(n, k)); k++)
            c->length[g->value.n + (size_t)p->index] =
                s->share[p->index].cut == PARAM_INPUTS ? p->k : p->n;
    }
}

static int64_t pieces_of(const struct classes *c, int32_t i, int size)
{
    int64_t length = c->length[top(c, i)], run = RUN_MAX;
    if (c->demand[top(c, i)])
        return c->demand[top(c, i)];
    while (run > 1 && (length % run || length / run < size))
        run /= 2;
    return length / run;
}

int shard_find_pieces(struct shard *s, const struct graph *g, struct err *e)
{
    size_t n = g->value.n + (size_t)s->n_param + 1;
    struct classes c = {.up = xcalloc(n, sizeof *c.up),
                        .length = xcalloc(n, sizeof *c.length),
                        .demand = xcalloc(n, sizeof *c.demand)};
    int rc = 0;
    measure(&c, s, g);
    for (size_t i = 0; i < g->node.n; i++)
        see_node(&c, s, g, i);
    for (size_t v = 0; v < g->value.n; v++)
        s->pieces[v] = pieces_of(&c, (int32_t)v, s->size);
    for (int32_t i = 0; i < s->n_param; i++) {
        enum param_cut cut = s->share[i].cut;
        s->share[i].pieces = pieces_of(&c, (int32_t)g->value.n + i, s->size);
        if ((cut == PARAM_OUTPUTS || cut == PARAM_INPUTS) && s->share[i].pieces < s->size)
            rc = err_set(e, ERR_UNSUPPORTED, "%lld pieces are too few",
                         (long long)s->share[i].pieces);
    }
    free(c.up);
    free(c.length);
    free(c.demand);
    return rc;
}
