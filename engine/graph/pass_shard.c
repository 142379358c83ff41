/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of one of several ranks, from the graph of all: nodes with this rank's parts of the
 * parameters, and collectives where the layout of a value is not what its reader wants
 * (engine/graph/shard.h). A value that several readers want in another layout is moved once. Does
 * nothing to a graph that nobody shares.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/graph/passes.h"
#include "engine/graph/shard.h"
#include "engine/op/ops.h"
#include "engine/op/slice.h"

enum { LAYOUTS = SPLIT_PARTIAL + 1 };

struct sharding {
    const struct graph *in;
    struct graph *out;
    struct shard s;
    int32_t (*have)[LAYOUTS]; /* owned: new id of each old value in each layout; -1: not there */
};

/* A node that brings value v into another layout belongs to the layer that made v. */
static int emit(struct sharding *x, int32_t v, struct graph_node *n, struct err *e)
{
    n->pass = pass_name(PASS_shard);
    n->layer = x->in->node.at[x->in->value.at[v].def].layer;
    n->in_place[0] = n->in_place[1] = -1;
    n->op.n_out = n->op.n_out ? n->op.n_out : 1;
    return graph_emit(x->out, n, e);
}

static int emit_reduce(struct sharding *x, int32_t v, struct err *e)
{
    struct op_reduce_attr a = {.ranks = x->in->ranks->at};
    struct graph_node n = {.op = {.op = OP_reduce, .n_in = 1, .in = {x->have[v][SPLIT_PARTIAL]}}};
    memcpy(n.op.attr, &a, sizeof a);
    if (emit(x, v, &n, e))
        return -1;
    x->have[v][SPLIT_WHOLE] = n.op.out[0];
    return 0;
}

static int emit_collect(struct sharding *x, int32_t v, struct err *e)
{
    struct op_collect_attr a = {
        .ranks = x->in->ranks->at, .cols = x->in->value.at[v].shape.cols, .pieces = x->s.pieces[v]};
    struct graph_node n = {.op = {.op = OP_collect, .n_in = 1, .in = {x->have[v][SPLIT_COLS]}}};
    memcpy(n.op.attr, &a, sizeof a);
    if (emit(x, v, &n, e))
        return -1;
    x->have[v][SPLIT_WHOLE] = n.op.out[0];
    return 0;
}

static int emit_slice(struct sharding *x, int32_t v, struct err *e)
{
    struct graph_node n = {.op = {.op = OP_slice, .n_in = 1, .in = {x->have[v][SPLIT_WHOLE]}}};
    struct shard_run run[3];
    int n_run = shard_runs(&x->s, x->in, v, x->in->ranks->at.rank, run);
    ASSERT(n_run == 1);
    op_slice_set(&n.op, run[0].lo, run[0].n);
    if (emit(x, v, &n, e))
        return -1;
    x->have[v][SPLIT_COLS] = n.op.out[0];
    return 0;
}

/* Sees to it that value v is there in the layout that a reader wants. */
static int come_by(struct sharding *x, int32_t v, enum op_split want, struct err *e)
{
    unsigned have = 0;
    for (int l = 0; l < LAYOUTS; l++)
        have |= x->have[v][l] >= 0 ? 1u << l : 0;
    enum op_split from = shard_source(&x->s, x->in, v, have, want);
    ASSERT(from != SPLIT_END);
    if (from == SPLIT_PARTIAL && want != SPLIT_PARTIAL && emit_reduce(x, v, e))
        return -1;
    if (from == SPLIT_COLS && want == SPLIT_WHOLE && emit_collect(x, v, e))
        return -1;
    return want == SPLIT_COLS && x->have[v][want] < 0 ? emit_slice(x, v, e) : 0;
}

/* A slice's columns of this rank's input, where the input is split. */
static void place_slice(const struct sharding *x, const struct op_node *n, struct op_local *l)
{
    struct shard_run run[3];
    int section = shard_section(&x->s, x->in, n);
    shard_runs(&x->s, x->in, n->in[0], x->in->ranks->at.rank, run);
    l->lo = 0;
    for (int k = 0; k < section; k++)
        l->lo += run[k].n;
    l->cols = run[section].n;
}

static int rewrite_node(struct sharding *x, size_t i, struct err *e)
{
    const struct op_node *old = &x->in->node.at[i].op;
    const struct op_shard *r = x->s.rule[i];
    const struct op_def *def = op_get(old->op);
    struct graph_node n = x->in->node.at[i];
    struct op_local l = {.part = x->in->ranks->part};
    for (int j = 0; j < old->n_in; j++) {
        if (come_by(x, old->in[j], r->in[j], e))
            return -1;
        n.op.in[j] = x->have[old->in[j]][r->in[j]];
        l.in[j] = x->out->value.at[n.op.in[j]].shape;
    }
    if (old->op == OP_slice && r->in[0] == SPLIT_COLS)
        place_slice(x, old, &l);
    if (def->localise && (old->op != OP_slice || r->in[0] == SPLIT_COLS))
        def->localise(&n.op, &l);
    n.op.takes = 0; /* a value may have other readers now */
    if (graph_emit(x->out, &n, e))
        return -1;
    for (int o = 0; o < old->n_out; o++)
        x->have[old->out[o]][r->out] = n.op.out[o];
    return 0;
}

static int rewrite(struct sharding *x, struct err *e)
{
    for (size_t v = 0; v < x->in->value.n; v++)
        for (int l = 0; l < LAYOUTS; l++)
            x->have[v][l] = -1;
    for (size_t i = 0; i < x->in->node.n; i++)
        if (rewrite_node(x, i, e))
            return -1;
    for (size_t o = 0; o < x->in->output.n; o++) {
        int32_t v = x->in->output.at[o];
        if (come_by(x, v, SPLIT_WHOLE, e))
            return -1;
        vec_push(&x->out->output, x->have[v][SPLIT_WHOLE]);
    }
    return 0;
}

static int copy_all(const struct graph *in, struct graph *out, struct err *e)
{
    struct rewrite r;
    int rc = 0;
    rewrite_init(&r, in, out, PASS_shard);
    for (size_t i = 0; i < in->node.n && !rc; i++)
        rc = rewrite_copy(&r, i, e);
    rewrite_finish(&r);
    return rc;
}

int graph_pass_shard(const struct graph *in, struct graph *out, struct err *e)
{
    struct sharding x = {.in = in, .out = out};
    if (!in->ranks)
        return copy_all(in, out, e);
    x.have = xcalloc(in->value.n + 1, sizeof *x.have);
    int rc = shard_init(&x.s, in, in->ranks->at.size, in->ranks->share, e);
    if (!rc)
        rc = rewrite(&x, e);
    shard_release(&x.s);
    free(x.have);
    return rc;
}
