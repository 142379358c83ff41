/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks share a graph. Each edge has a layout: whole (every rank has all of it), split by
 * columns, or partial (what ranks hold adds up to it); each op's rows (op_def.shard) say which
 * layouts it can take, and how its weight is shared then. Between a producer and a reader that
 * disagree stands a collective, or a slice. This chooses a row for each node, so that what a rank
 * must hold and read, and what it must send, cost the least together; the pass `shard` then writes
 * the graph of one rank.
 *
 * The search is exact: it walks the nodes in order and keeps, for every combination of layouts that
 * the values alive can have, the cheapest way to come there. Models are chains with short side
 * branches, so there are few.
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAPH_SHARD_H
#define ENGINE_GRAPH_SHARD_H

#include "engine/graph/graph.h"

struct shard {
    int size;                       /* ranks */
    const struct op_shard **rule;   /* owned: [n_node] rows of op_def.shard */
    int64_t *pieces;                /* owned: [n_value] of a value where it is split */
    struct param_share *share;      /* owned: [n_param] by index */
    int32_t n_param;                /* one more than the highest index */
    const struct param **sectioned; /* owned: [n_value] whose sections a value has; NULL: none */
};

/* fixed: how the parameters are shared already, by index; NULL: as is cheapest. */
int shard_init(struct shard *s, const struct graph *g, int size, const struct param_share *fixed,
               struct err *e);
void shard_release(struct shard *s);

/* Of a value: how a reader that wants `want` comes by it from what is there (bits of 1 << enum
 * op_split). SPLIT_END: it can't. */
enum op_split shard_source(const struct shard *s, const struct graph *g, int32_t v, unsigned have,
                           enum op_split want);

/* This rank's columns of a value that is split: its sections' own parts, one behind the other. */
struct shard_run {
    int64_t lo, n; /* of all columns */
};
int shard_runs(const struct shard *s, const struct graph *g, int32_t v, int rank,
               struct shard_run run[3]);

/* Which section of value v a slice's columns are; -1: none. */
int shard_section(const struct shard *s, const struct graph *g, const struct op_node *slice);

#endif
