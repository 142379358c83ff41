/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory plan: from lifetimes to offsets. Each value that has memory of its own (and each op's
 * work space) lives over an interval of nodes; two that are never alive together may share bytes.
 * Greedy best-fit is tried in several orders, and the smallest result is kept; the bytes alive at
 * the worst node are the lower bound that no plan can beat.
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAPH_MEMORY_H
#define ENGINE_GRAPH_MEMORY_H

#include "engine/graph/graph.h"

struct graph_memory {
    size_t *value_at;   /* owned: offset per value; views: where they begin; SIZE_MAX: none */
    size_t *work_at;    /* owned: offset of each node's work space */
    size_t bytes;       /* of the whole */
    size_t lower_bytes; /* bound */
    const char *order;  /* borrowed: the order that won */
};

/* cap: the most rows of each dim that a step may have. */
int graph_memory_init(struct graph_memory *m, const struct graph *g, const int64_t *cap,
                      struct err *e);
void graph_memory_release(struct graph_memory *m);

#endif
