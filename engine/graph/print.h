/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph for people and for tools: as a table, as JSON, as Graphviz's dot, as a picture. Each node
 * is shown with its layer, its result's shape, the pass that made it, where its memory comes from,
 * and what it costs in a given step.
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAPH_PRINT_H
#define ENGINE_GRAPH_PRINT_H

#include "engine/base/buf.h"
#include "engine/graph/graph.h"

enum graph_format { GRAPH_TEXT, GRAPH_JSON, GRAPH_DOT, GRAPH_SVG };

int graph_format_find(const char *name); /* -1: no such format */

/* Prints g for a step of one prompt of n_tok tokens with n_out wanted rows. */
void graph_print(const struct graph *g, enum graph_format f, int64_t n_tok, int64_t n_out,
                 struct buf *out);

#endif
