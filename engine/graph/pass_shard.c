/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of one of several ranks, from the graph of all: nodes with this rank's parts of the
 * parameters, and collectives where the layout of a value is not what its reader wants
 * (engine/graph/shard.h). A value that several readers want in another layout is moved once. Does
 * nothing to a graph that nobody shares.
 *
 * Gradients have layouts too: those of what is split are split, those of what is partial are whole.
 * What is whole and is read for a rank's own columns gets a part of its gradient from there. Where
 * the graph is trained such readers read it through op `spread`, which sums the parts: behind
 * everything that hands a part on as it is (a rounding, a dropout), so that q, k and v share one
 * sum.
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
    int32_t *spread;          /* owned: new id of what reads it for parts; -1: not there */
    bool *is_parted;          /* owned: all readers of a whole value give a part of its gradient */
};

/* ---- gradients --------------------------------------------------------------------------------
 */

/* Hands a part of its output's gradient on as a part of its input's. */
static bool hands_on(const struct op_node *n)
{
    return n->n_in == 1 && n->n_out == 1 && !op_get(n->op)->param;
}

/* Input j of node i is whole, and a part of its gradient comes from here. */
static bool gives_part(const struct sharding *x, size_t i, int j)
{
    const struct op_node *n = &x->in->node.at[i].op;
    const struct op_shard *r = x->s.rule[i];
    if (r->in[j] != SPLIT_WHOLE)
        return false;
    return r->out == SPLIT_COLS || r->weight == SPLIT_COLS ||
           (hands_on(n) && x->is_parted[n->out[0]]);
}

/* All of value v's gradient comes in parts, which its node hands on: they are summed before it. */
static bool is_handed_on(const struct sharding *x, int32_t v)
{
    size_t i = (size_t)x->in->value.at[v].def;
    return x->is_parted[v] && hands_on(&x->in->node.at[i].op) && x->s.rule[i]->in[0] == SPLIT_WHOLE;
}

/* Readers stand behind what they read: the last node first. */
static void find_parted(struct sharding *x)
{
    bool *is_read = xcalloc(x->in->value.n + 1, sizeof *is_read);
    for (size_t i = x->in->node.n; i-- > 0;) {
        const struct op_node *n = &x->in->node.at[i].op;
        for (int j = 0; j < n->n_in; j++) {
            int32_t v = n->in[j];
            bool is_part = gives_part(x, i, j) || x->s.rule[i]->in[j] == SPLIT_COLS;
            x->is_parted[v] = is_part && (!is_read[v] || x->is_parted[v]);
            is_read[v] = true;
        }
    }
    for (size_t o = 0; o < x->in->output.n; o++)
        x->is_parted[x->in->output.at[o]] = false;
    free(is_read);
}

/* ---- layouts ----------------------------------------------------------------------------------
 */

/* A node that brings a value into another layout belongs to the layer of what stands before it: the
 * one that made the value where the next begins with its reader. A layer is never gone back to:
 * where its first node is on the way back, all that it trains has its gradient. */
static int emit(struct sharding *x, struct graph_node *n, struct err *e)
{
    n->pass = pass_name(PASS_shard);
    n->layer = x->out->node.n ? x->out->node.at[x->out->node.n - 1].layer : -1;
    n->in_place[0] = n->in_place[1] = -1;
    n->op.n_out = n->op.n_out ? n->op.n_out : 1;
    return graph_emit(x->out, n, e);
}

static int emit_reduce(struct sharding *x, int32_t v, struct err *e)
{
    struct op_reduce_attr a = {.ranks = x->in->ranks->at};
    struct graph_node n = {.op = {.op = OP_reduce, .n_in = 1, .in = {x->have[v][SPLIT_PARTIAL]}}};
    memcpy(n.op.attr, &a, sizeof a);
    n.op.takes = 1;
    if (emit(x, &n, e))
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
    if (emit(x, &n, e))
        return -1;
    x->have[v][SPLIT_WHOLE] = n.op.out[0];
    return 0;
}

/* What is read for a part of value v, which is there whole: *id. */
static int come_by_spread(struct sharding *x, int32_t v, int32_t *id, struct err *e)
{
    struct op_spread_attr a = {.ranks = x->in->ranks->at};
    struct graph_node n = {.op = {.op = OP_spread, .n_in = 1, .in = {x->have[v][SPLIT_WHOLE]}}};
    memcpy(n.op.attr, &a, sizeof a);
    n.op.takes = 1;
    *id = x->have[v][SPLIT_WHOLE];
    if (!x->in->ranks->trains || is_handed_on(x, v))
        return 0;
    ASSERT(!x->out->value.at[*id].shape.blocked);
    if (x->spread[v] < 0 && emit(x, &n, e))
        return -1;
    x->spread[v] = x->spread[v] < 0 ? n.op.out[0] : x->spread[v];
    *id = x->spread[v];
    return 0;
}

static int emit_slice(struct sharding *x, int32_t v, struct err *e)
{
    struct graph_node n = {.op = {.op = OP_slice, .n_in = 1}};
    struct shard_run run[3];
    int n_run = shard_runs(&x->s, x->in, v, x->in->ranks->at.rank, run);
    ASSERT(n_run == 1);
    op_slice_set(&n.op, run[0].lo, run[0].n);
    if (come_by_spread(x, v, &n.op.in[0], e) || emit(x, &n, e))
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
    struct op_local l = {
        .part = x->in->ranks->part, .ranks = &x->in->ranks->at, .share = x->s.share};
    for (int j = 0; j < old->n_in; j++) {
        if (come_by(x, old->in[j], r->in[j], e))
            return -1;
        n.op.in[j] = x->have[old->in[j]][r->in[j]];
        if (gives_part(x, i, j) && come_by_spread(x, old->in[j], &n.op.in[j], e))
            return -1;
        l.in[j] = x->out->value.at[n.op.in[j]].shape;
    }
    if (old->op == OP_slice && r->in[0] == SPLIT_COLS)
        place_slice(x, old, &l);
    if (def->localise && (old->op != OP_slice || r->in[0] == SPLIT_COLS))
        def->localise(&n.op, &l);
    if (graph_emit(x->out, &n, e))
        return -1;
    for (int o = 0; o < old->n_out; o++)
        x->have[old->out[o]][r->out] = n.op.out[o];
    return 0;
}

/* A value may have more readers now than it had: who is not the only one takes nothing. */
static void settle_takes(struct graph *g)
{
    int32_t *n_use = xcalloc(g->value.n + 1, sizeof *n_use);
    for (size_t i = 0; i < g->node.n; i++)
        for (int j = 0; j < g->node.at[i].op.n_in; j++)
            n_use[g->node.at[i].op.in[j]]++;
    for (size_t o = 0; o < g->output.n; o++)
        n_use[g->output.at[o]]++;
    for (size_t i = 0; i < g->node.n; i++)
        for (int j = 0; j < g->node.at[i].op.n_in; j++)
            if (n_use[g->node.at[i].op.in[j]] > 1)
                g->node.at[i].op.takes &= (uint8_t) ~(1u << j);
    free(n_use);
}

static int rewrite(struct sharding *x, struct err *e)
{
    for (size_t v = 0; v < x->in->value.n; v++) {
        for (int l = 0; l < LAYOUTS; l++)
            x->have[v][l] = -1;
        x->spread[v] = -1;
    }
    find_parted(x);
    for (size_t i = 0; i < x->in->node.n; i++)
        if (rewrite_node(x, i, e))
            return -1;
    for (size_t o = 0; o < x->in->output.n; o++) {
        int32_t v = x->in->output.at[o];
        if (come_by(x, v, SPLIT_WHOLE, e))
            return -1;
        vec_push(&x->out->output, x->have[v][SPLIT_WHOLE]);
    }
    settle_takes(x->out);
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
    x.spread = xcalloc(in->value.n + 1, sizeof *x.spread);
    x.is_parted = xcalloc(in->value.n + 1, sizeof *x.is_parted);
    int rc = shard_init(&x.s, in, in->ranks->at.size, in->ranks->share, e);
    if (!rc)
        rc = rewrite(&x, e);
    shard_release(&x.s);
    free(x.have);
    free(x.spread);
    free(x.is_parted);
    return rc;
}
