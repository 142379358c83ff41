/* SPDX-License-Identifier: Apache-2.0
 *
 * What the nodes of a graph cost in a step of one prompt, as their kernels' shapes say.
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAPH_COST_H
#define ENGINE_GRAPH_COST_H

#include "engine/graph/graph.h"

struct graph_cost {
    double bytes, flops; /* parameters, inputs and outputs; each once */
    double moved;        /* bytes that each rank sends the others, at least */
    int n_launch;
};

/* Of each node, with n_tok tokens and n_out wanted rows; free(). */
struct graph_cost *graph_costs(const struct graph *g, int64_t n_tok, int64_t n_out);

#endif
