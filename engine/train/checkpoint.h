/* SPDX-License-Identifier: Apache-2.0
 *
 * A training's state on disk: values and moments of all that is trained, and where in the data it
 * stands. Draws (dropout, order) follow from the seed and the step, and gradients are zero between
 * steps, so this is all of it: what goes on from a checkpoint goes on bit for bit.
 *
 * It holds whole tensors, as one rank has them, and rank 0 alone writes and reads it: what was
 * saved by some ranks goes on at any number of them.
 *
 * A checkpoint is a folder, PARENT/step-000000012, with state.safetensors and manifest.json, which
 * has the size and the SHA-256 of the other. It is written aside, synced, renamed, and its parent
 * synced: it is there whole or not at all. A damaged one is passed over for the one before.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_CHECKPOINT_H
#define ENGINE_TRAIN_CHECKPOINT_H

#include "engine/base/sha256.h"
#include "engine/load/base_id.h"
#include "engine/train/state.h"

enum { CHECKPOINT_SUMS = 8 };

struct checkpoint {
    int64_t step;                    /* steps done */
    int64_t epoch, row;              /* the cursor: the next row, in the order of its epoch */
    double sum[CHECKPOINT_SUMS];     /* the maker's partial sums */
    char subject[SHA256_TEXT_BYTES]; /* digest of what must not have changed: options, data */
    struct base_id base;             /* nor may the weights; an older one does not say */
};

/* Both are calls of all ranks. */
int checkpoint_save(const char *parent, const struct checkpoint *c, struct train_tensors *t,
                    struct stream *s, struct err *e);

/* The newest that is whole and has c->subject and c->base; its values and moments go where t says.
 * ERR_NOT_FOUND: none is there. */
int checkpoint_load(const char *parent, struct checkpoint *c, struct train_tensors *t,
                    struct stream *s, struct err *e);

/* Removes all but the newest `keep`; what a checkpoint is not made of stays, here and below. */
int checkpoint_prune(const char *parent, int keep, struct err *e);
int checkpoint_forget(const char *parent, struct err *e); /* all of them; parent itself stays */

/* Makes the parent where it is not there; what a killed process left half made is removed. */
int checkpoint_open(const char *parent, struct err *e);

/* The folder of a step, to be freed. */
char *checkpoint_path(const char *parent, int64_t step);

#endif
