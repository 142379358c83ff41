/* SPDX-License-Identifier: Apache-2.0
 *
 * A training beside serving: on the model that is served, or, for a full one, on a copy of it.
 * Where ranks share the model (engine/run/crew.h) all of them train, each beside serving: rank 0
 * calls, and sends the others the options and the rows, since it alone has the files. From there on
 * all run the same tuning; the others hear nothing of jobs, stores and names.
 *
 * Pausing and cancelling is rank 0's is_wanted_end, which all hear between two steps. Files are
 * written by rank 0 alone, which asks the others for what they have (engine/train/ask.h).
 *
 * An error that leaves the group whole has ended this training at all ranks, and another can begin.
 * One that breaks it ends serving as well: the ranks are to be started again, and the training goes
 * on from its checkpoint.
 *
 * Thread: of each rank the one beside serving; of rank 0 that of the job.
 */
#ifndef ENGINE_TRAIN_BESIDE_H
#define ENGINE_TRAIN_BESIDE_H

#include "engine/run/crew.h"
#include "engine/train/tuning.h"

struct beside {
    struct train_ranks ranks;
    struct model_share share; /* of the copy */
    struct model *copy;       /* owned; NULL: what is served is trained */
    struct stream *stream;    /* owned */
    struct tuning *tuning;    /* owned */
};

/* At rank 0. crew: NULL: nobody shares the model, and member->comm is not read. o: gate and
 * train.ranks are filled in here. copies: a copy of the model is trained, not what is served.
 * Whatever it returns: beside_end. */
int beside_begin(struct beside *b, const struct crew_rank *member, struct crew *crew,
                 struct tuning_options *o, bool copies, struct err *e);
int beside_run(struct beside *b, bool *is_done, struct err *e); /* as tuning_run */
void beside_end(struct beside *b);                              /* of zeros, too */

/* The others' part of one training. */
crew_work_fn beside_work;

#endif
