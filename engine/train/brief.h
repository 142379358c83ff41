/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training is, as rank 0 sends it to ranks that have no files: its options and its rows.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_BRIEF_H
#define ENGINE_TRAIN_BRIEF_H

#include "engine/train/tuning.h"

struct brief {
    struct tuning_options opt; /* its pointers lead into the brief; gate and ranks: the taker's */
    bool copies;               /* as in beside_begin */
    struct dataset data, valid;
    char *targets; /* owned: their names, one behind the other */
};

/* Rank 0, over ranks->all. */
int brief_send(const struct train_ranks *ranks, const struct tuning_options *o, bool copies,
               struct err *e);

/* The others; after a failure, too, brief_release. */
int brief_take(struct brief *b, const struct train_ranks *ranks, struct err *e);
void brief_release(struct brief *b); /* of zeros, too */

#endif
