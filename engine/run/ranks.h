/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks share a model: chosen once, from the config alone and alike at every rank, then told to
 * whoever loads a part and records a graph.
 *
 * Thread: any.
 */
#ifndef ENGINE_RUN_RANKS_H
#define ENGINE_RUN_RANKS_H

#include "engine/graph/graph.h"
#include "engine/model/model.h"

/* For rank at->rank of at->size; o: as the model will be loaded. */
int ranks_share(struct model_share *s, const struct config *c, const struct model_options *o,
                const struct op_ranks *at, struct err *e);
/* For a model that ends in `output` only; MODEL_LOSS: one that is trained. ranks_share is for
 * logits or an encoder's vectors. */
int ranks_share_for(struct model_share *s, const struct config *c, const struct model_options *o,
                    const struct op_ranks *at, enum model_output output, struct err *e);
void ranks_share_release(struct model_share *s);

/* What a graph recorded from m must be told before the passes; false: nobody shares m. */
bool ranks_of_model(const struct model *m, struct graph_ranks *out);

#endif
