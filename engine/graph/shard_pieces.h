/* SPDX-License-Identifier: Apache-2.0
 *
 * Between which columns what is split is split: part of engine/graph/shard.h.
 *
 * Thread: any.
 */
#ifndef ENGINE_GRAPH_SHARD_PIECES_H
#define ENGINE_GRAPH_SHARD_PIECES_H

#include "engine/graph/shard.h"

/* Fills s->pieces and the shares' from the rules. */
int shard_find_pieces(struct shard *s, const struct graph *g, struct err *e);

#endif
