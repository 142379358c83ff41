/* SPDX-License-Identifier: Apache-2.0
 *
 * Boxes are as wide as their share of the step's cost on the machine's balance: operations count
 * like bytes at BALANCE to one, so that both decode and prompts show where the time goes.
 */
#include "engine/graph/draw.h"

#include <string.h>

enum { ROW = 26, BOX_X = 190, BOX_W = 300, ARC_X = 180, MARGIN = 20, WIDTH = 760, BALANCE = 16 };

static double weight_of(const struct graph_cost *c)
{
    return c->bytes > c->flops / BALANCE ? c->bytes : c->flops / BALANCE;
}

static int y_of(size_t i)
{
    return MARGIN + ROW * (int)i;
}

static void draw_band(const struct graph *g, size_t i, struct buf *out)
{
    size_t end = i;
    int layer = g->node.at[i].layer;
    if (layer < 0 || (i > 0 && g->node.at[i - 1].layer == layer))
        return;
    while (end < g->node.n && g->node.at[end].layer == layer)
        end++;
    buf_printf(out,
               "<rect x=\"0\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>"
               "<text x=\"8\" y=\"%d\">layer %d</text>\n",
               y_of(i) - 2, WIDTH, ROW * (int)(end - i), layer % 2 ? "#f4f6f8" : "#eaeef2",
               y_of(i) + 14, layer);
}

static void draw_box(const struct graph *g, size_t i, double share, struct buf *out)
{
    const struct graph_node *n = &g->node.at[i];
    char shape[64];
    buf_printf(out,
               "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"#fff\" "
               "stroke=\"#667\"/><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"3\" "
               "fill=\"%s\"/>\n",
               BOX_X, y_of(i), BOX_W, ROW - 6, BOX_X, y_of(i), share * BOX_W, ROW - 6,
               strcmp(n->pass, "record") != 0 ? "#9cc3e6" : "#c9d6df");
    buf_printf(out, "<text x=\"%d\" y=\"%d\">%s %s</text><text x=\"%d\" y=\"%d\">%s%s</text>\n",
               BOX_X + 8, y_of(i) + 14, op_name(n->op.op),
               graph_shape_text(g->value.at[n->op.out[0]].shape, shape, sizeof shape),
               BOX_X + BOX_W + 10, y_of(i) + 14, strcmp(n->pass, "record") != 0 ? n->pass : "",
               n->in_place[0] >= 0 ? " in place" : "");
}

static void draw_arcs(const struct graph *g, size_t i, struct buf *out)
{
    for (int j = 0; j < g->node.at[i].op.n_in; j++) {
        size_t from = (size_t)g->value.at[g->node.at[i].op.in[j]].def;
        int bend = (int)(i - from) * 6 > 110 ? 110 : (int)(i - from) * 6;
        int y0 = y_of(from) + 10, y1 = y_of(i) + 10;
        if (from + 1 == i)
            continue;
        buf_printf(out, "<path d=\"M%d %d C%d %d %d %d %d %d\" fill=\"none\" stroke=\"#889\"/>\n",
                   BOX_X, y0, ARC_X - bend, y0, ARC_X - bend, y1, BOX_X, y1);
    }
}

void graph_draw(const struct graph *g, const struct graph_cost *cost, struct buf *out)
{
    double most = 1;
    for (size_t i = 0; i < g->node.n; i++)
        most = weight_of(&cost[i]) > most ? weight_of(&cost[i]) : most;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
               "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" "
               "height=\"100%%\" fill=\"#fff\"/>\n",
               WIDTH, y_of(g->node.n) + MARGIN);
    for (size_t i = 0; i < g->node.n; i++)
        draw_band(g, i, out);
    for (size_t i = 0; i < g->node.n; i++)
        draw_arcs(g, i, out);
    for (size_t i = 0; i < g->node.n; i++)
        draw_box(g, i, weight_of(&cost[i]) / most, out);
    buf_str(out, "</svg>\n");
}
