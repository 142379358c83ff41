/* SPDX-License-Identifier: Apache-2.0
 *
 * The function that a trainer runs on its tape: the model's own, or, where ranks share the model,
 * this rank's graph of it, which the sharding pass writes from the same text. The graph is made
 * once, behind the subject, which says what is trained.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_FUNCTION_H
#define ENGINE_TRAIN_FUNCTION_H

#include "engine/graph/graph.h"
#include "engine/model/model.h"
#include "engine/train/options.h"

enum train_run {
    RUN_TRAINED,  /* a step's */
    RUN_JUDGED,   /* an evaluation's */
    RUN_REFERENCE /* that of the model as it was: without an adapter, or with its ancestor */
};

struct train_function {
    const struct model *model; /* borrowed */
    struct graph_ranks ranks;  /* whose graphs these are: stays where it is */
    enum model_output output;
    struct graph run[RUN_REFERENCE + 1]; /* empty where one rank has all, or nobody asks for it */
};

int train_function_init(struct train_function *f, const struct model *m,
                        const struct train_options *o, struct err *e);
void train_function_release(struct train_function *f);

/* The loss of what the builder's batch holds, or the vectors; b->failed tells. Of RUN_REFERENCE the
 * builder has no adapter. */
struct val train_function_build(const struct train_function *f, struct builder *b,
                                enum train_run run);

#endif
