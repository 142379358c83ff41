/* SPDX-License-Identifier: Apache-2.0
 *
 * The text, JSON and dot forms; engine/graph/draw.c has the picture.
 */
#include "engine/graph/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/cost.h"
#include "engine/graph/draw.h"
#include "engine/graph/memory.h"

int graph_format_find(const char *name)
{
    static const char *const names[] = {"text", "json", "dot", "svg"};
    for (int i = 0; i < 4; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static void ids_text(const int32_t *id, int n, char *text, size_t size)
{
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%%%d", i ? " " : "", id[i]);
}

static const char *params_text(const struct op_node *n, char *text, size_t size)
{
    const struct op_def *def = op_get(n->op);
    const struct param *p;
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; def->param && i < 2 && at < size; i++)
        if ((p = def->param(n, i)))
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? " " : "", p->name);
    return text;
}

/* The last column: what a node reads of the model, or moves between ranks. */
static const char *note_text(const struct op_node *n, const struct graph_cost *c, char *text,
                             size_t size)
{
    if (c->moved > 0) {
        snprintf(text, size, "moves %.3f KB", c->moved / 1e3);
        return text;
    }
    return params_text(n, text, size);
}

static void print_text(const struct graph *g, const struct graph_cost *cost, struct buf *out)
{
    double bytes = 0, flops = 0, moved = 0;
    int n_moving = 0;
    buf_printf(out, "%5s %-10s %-14s %-12s %-28s %10s %10s %-9s %s\n", "layer", "op", "inputs",
               "output", "shape", "MB", "MFLOP", "made by", "parameters");
    for (size_t i = 0; i < g->node.n; i++) {
        const struct graph_node *n = &g->node.at[i];
        char in[64], o[32], shape[64], params[192];
        ids_text(n->op.in, n->op.n_in, in, sizeof in);
        ids_text(n->op.out, n->op.n_out, o, sizeof o);
        size_t len = strlen(o);
        if (n->in_place[0] >= 0)
            snprintf(o + len, sizeof o - len, " in place");
        buf_printf(out, "%5d %-10s %-14s %-12s %-28s %10.3f %10.3f %-9s %s\n", n->layer,
                   op_name(n->op.op), in, o,
                   graph_shape_text(g->value.at[n->op.out[0]].shape, shape, sizeof shape),
                   cost[i].bytes / 1e6, cost[i].flops / 1e6, n->pass,
                   note_text(&n->op, &cost[i], params, sizeof params));
        bytes += cost[i].bytes;
        flops += cost[i].flops;
        moved += cost[i].moved;
        n_moving += cost[i].moved > 0;
    }
    buf_printf(out, "%zu nodes, %.1f MB read and written, %.3f GFLOP\n", g->node.n, bytes / 1e6,
               flops / 1e9);
    if (n_moving)
        buf_printf(out, "%d collectives, %.3f MB sent by each rank\n", n_moving, moved / 1e6);
}

static void print_memory(const struct graph *g, int64_t n_tok, int64_t n_out, struct buf *out,
                         bool json)
{
    int64_t cap[DIM_COUNT] = {[DIM_TOK] = n_tok, [DIM_OUT] = n_out, [DIM_SEQ] = 1, [DIM_GROUP] = 1};
    struct graph_memory m;
    struct err e = ERR_INIT;
    if (graph_memory_init(&m, g, cap, &e))
        return;
    if (json)
        buf_printf(out, "\"memory\":{\"bytes\":%zu,\"lower_bound\":%zu,\"order\":\"%s\"}", m.bytes,
                   m.lower_bytes, m.order);
    else
        buf_printf(out,
                   "activations %.3f MB (placed by %s), lower bound %.3f MB: %.1f%% above it\n",
                   (double)m.bytes / 1e6, m.order, (double)m.lower_bytes / 1e6,
                   m.lower_bytes ? 100.0 * (double)m.bytes / (double)m.lower_bytes - 100 : 0);
    graph_memory_release(&m);
}

static void print_ids(const int32_t *id, int n, struct buf *out)
{
    for (int i = 0; i < n; i++)
        buf_printf(out, "%s%d", i ? "," : "", id[i]);
}

static void print_json(const struct graph *g, const struct graph_cost *cost, int64_t n_tok,
                       int64_t n_out, struct buf *out)
{
    buf_printf(out, "{\"tokens\":%lld,\"rows\":%lld,\"nodes\":[", (long long)n_tok,
               (long long)n_out);
    for (size_t i = 0; i < g->node.n; i++) {
        const struct graph_node *n = &g->node.at[i];
        struct op_shape s = g->value.at[n->op.out[0]].shape;
        char params[192];
        buf_printf(out, "%s\n{\"op\":\"%s\",\"layer\":%d,\"in\":[", i ? "," : "", op_name(n->op.op),
                   n->layer);
        print_ids(n->op.in, n->op.n_in, out);
        buf_str(out, "],\"out\":[");
        print_ids(n->op.out, n->op.n_out, out);
        buf_printf(out,
                   "],\"rows\":\"%s\",\"cols\":%lld,\"blocked\":%s,\"bytes\":%.0f,\"flops\":%.0f,"
                   "\"moved\":%.0f,"
                   "\"launches\":%d,\"in_place\":%s,\"pass\":\"%s\",\"parameters\":\"%s\"}",
                   graph_dim_name(s.rows), (long long)s.cols, s.blocked ? "true" : "false",
                   cost[i].bytes, cost[i].flops, cost[i].moved, cost[i].n_launch,
                   n->in_place[0] >= 0 ? "true" : "false", n->pass,
                   params_text(&n->op, params, sizeof params));
    }
    buf_str(out, "],\n\"outputs\":[");
    print_ids(g->output.at, (int)g->output.n, out);
    buf_str(out, "],\n");
    print_memory(g, n_tok, n_out, out, true);
    buf_str(out, "}\n");
}

static void print_dot(const struct graph *g, const struct graph_cost *cost, struct buf *out)
{
    buf_str(out, "digraph model {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n");
    for (size_t i = 0; i < g->node.n; i++) {
        const struct graph_node *n = &g->node.at[i];
        char shape[64];
        buf_printf(out, "  n%zu [label=\"%s\\n%s\\n%.2f MB %.2f MFLOP\"%s];\n", i,
                   op_name(n->op.op),
                   graph_shape_text(g->value.at[n->op.out[0]].shape, shape, sizeof shape),
                   cost[i].bytes / 1e6, cost[i].flops / 1e6,
                   strcmp(n->pass, "record") != 0 ? ", style=filled, fillcolor=\"#dde8f4\"" : "");
        for (int j = 0; j < n->op.n_in; j++)
            buf_printf(out, "  n%d -> n%zu;\n", g->value.at[n->op.in[j]].def, i);
    }
    buf_str(out, "}\n");
}

void graph_print(const struct graph *g, enum graph_format f, int64_t n_tok, int64_t n_out,
                 struct buf *out)
{
    struct graph_cost *cost = graph_costs(g, n_tok, n_out);
    switch (f) {
    case GRAPH_TEXT:
        print_text(g, cost, out);
        print_memory(g, n_tok, n_out, out, false);
        break;
    case GRAPH_JSON:
        print_json(g, cost, n_tok, n_out, out);
        break;
    case GRAPH_DOT:
        print_dot(g, cost, out);
        break;
    case GRAPH_SVG:
        graph_draw(g, cost, out);
        break;
    }
    free(cost);
}
