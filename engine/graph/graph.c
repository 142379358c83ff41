/* SPDX-License-Identifier: Apache-2.0
 *
 * The container, the recorder, and the two questions everybody asks of a graph: where a value
 * lies, and who reads it last.
 */
#include "engine/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/op/slice.h"
#include "kernels/format.h"

void graph_init(struct graph *g)
{
    memset(g, 0, sizeof *g);
}

void graph_release(struct graph *g)
{
    vec_release(&g->node);
    vec_release(&g->value);
    vec_release(&g->output);
}

int graph_add(struct graph *g, struct graph_node *n, const struct op_shape *out)
{
    for (int i = 0; i < n->op.n_out; i++) {
        n->op.out[i] = (int32_t)g->value.n;
        vec_push(&g->value, (struct graph_value){.shape = out[i], .def = (int32_t)g->node.n});
    }
    vec_push(&g->node, *n);
    return 0;
}

int graph_emit(struct graph *g, struct graph_node *n, struct err *e)
{
    struct op_shape in[OP_IN_MAX], out[OP_OUT_MAX];
    for (int i = 0; i < n->op.n_in; i++)
        in[i] = g->value.at[n->op.in[i]].shape;
    if (op_get(n->op.op)->shape(&n->op, in, out, e))
        return err_wrap(e, "%s", op_name(n->op.op));
    return graph_add(g, n, out);
}

void graph_mark_output(struct graph *g, struct val v)
{
    if (v.id >= 0)
        vec_push(&g->output, v.id);
}

static int record(struct builder *b, struct op_node *op, const struct op_shape *out)
{
    struct graph_recorder *r = (struct graph_recorder *)(void *)b;
    struct graph_node n = {
        .op = *op, .in_place = {-1, -1}, .layer = (int16_t)r->layer, .pass = "record"};
    if (graph_add(r->g, &n, out))
        return -1;
    *op = n.op;
    return 0;
}

static struct op_shape shape_of(const struct builder *b, struct val v)
{
    const struct graph_recorder *r = (const struct graph_recorder *)(const void *)b;
    return r->g->value.at[v.id].shape;
}

static void enter_block(struct builder *b, int layer)
{
    ((struct graph_recorder *)(void *)b)->layer = layer;
}

void graph_recorder_init(struct graph_recorder *r, struct graph *g)
{
    *r = (struct graph_recorder){
        .b = {.add = record, .shape_of = shape_of, .block = enter_block}, .g = g, .layer = -1};
}

/* The node behind the block of node i. */
static size_t block_end(const struct graph *g, size_t i)
{
    size_t end = i + 1;
    while (end < g->node.n && g->node.at[end].layer == g->node.at[i].layer)
        end++;
    return end;
}

static int32_t last_value(const struct op_node *n)
{
    return n->out[n->n_out - 1];
}

/* The values that are read behind the block that made them, but for a block's last one, which needs
 * no word. */
static bool *find_lasting(const struct graph *g)
{
    bool *lasts = xcalloc(g->value.n + 1, sizeof *lasts);
    for (size_t i = 0; i < g->node.n; i++) {
        const struct op_node *n = &g->node.at[i].op;
        for (int j = 0; j < n->n_in; j++) {
            int32_t v = n->in[j];
            size_t end = block_end(g, (size_t)g->value.at[v].def);
            lasts[v] |= end <= i && v != last_value(&g->node.at[end - 1].op);
        }
    }
    return lasts;
}

int graph_replay(const struct graph *g, struct builder *b, struct val *out, struct err *e)
{
    int32_t *id = xcalloc(g->value.n + 1, sizeof *id);
    bool *lasts = find_lasting(g);
    int layer = -1;
    for (size_t i = 0; i < g->node.n && !b->failed; i++) {
        struct op_node n = g->node.at[i].op;
        if (g->node.at[i].layer != layer)
            builder_block(b, layer = g->node.at[i].layer);
        for (int j = 0; j < n.n_in; j++)
            n.in[j] = id[n.in[j]];
        builder_add(b, &n);
        for (int o = 0; o < n.n_out; o++) {
            int32_t v = g->node.at[i].op.out[o];
            id[v] = n.out[o];
            if (lasts[v])
                builder_keep(b, (struct val){.id = n.out[o]});
        }
    }
    if (g->output.n)
        *out = (struct val){.id = id[g->output.at[0]]};
    free(id);
    free(lasts);
    return b->failed ? err_set(e, b->err.code, "%s", b->err.msg) : 0;
}

struct graph_place *graph_places(const struct graph *g)
{
    struct graph_place *place = xcalloc(g->value.n + 1, sizeof *place);
    for (size_t i = 0; i < g->node.n; i++) {
        const struct graph_node *n = &g->node.at[i];
        for (int o = 0; o < n->op.n_out; o++) {
            int32_t v = n->op.out[o];
            place[v] = (struct graph_place){.root = v};
            if (op_get(n->op.op)->view) {
                place[v] = place[n->op.in[0]];
                place[v].col += op_slice_lo(&n->op);
            } else if (n->in_place[o] >= 0) {
                place[v] = place[n->op.in[n->in_place[o]]];
            }
        }
    }
    return place;
}

const char *graph_dim_name(enum dim d)
{
    static const char *const names[DIM_COUNT] = {"tokens", "rows", "sequences", "groups"};
    return names[d];
}

const char *graph_shape_text(struct op_shape s, char *text, size_t size)
{
    snprintf(text, size, "[%s, %lld]%s%s", graph_dim_name(s.rows), (long long)s.cols,
             s.blocked ? " for " : "",
             !s.blocked       ? ""
             : s.type == K_Q8 ? "q8"
                              : k_format(s.type)->name);
    return text;
}

int32_t *graph_last_uses(const struct graph *g)
{
    int32_t *last = xcalloc(g->value.n + 1, sizeof *last);
    for (size_t v = 0; v < g->value.n; v++)
        last[v] = -1;
    for (size_t i = 0; i < g->node.n; i++)
        for (int j = 0; j < g->node.at[i].op.n_in; j++)
            last[g->node.at[i].op.in[j]] = (int32_t)i;
    for (size_t i = 0; i < g->output.n; i++)
        last[g->output.at[i]] = (int32_t)g->node.n;
    return last;
}
