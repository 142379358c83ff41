/* SPDX-License-Identifier: Apache-2.0
 *
 * The samples of a policy's steps: what is trained becomes a version of an adapter that the engine
 * serves, is sampled from there, and graded by whoever asked for the training.
 *
 * Thread: the training's.
 */
#ifndef ENGINE_TRAIN_TUNE_SAMPLES_H
#define ENGINE_TRAIN_TUNE_SAMPLES_H

#include "engine/train/row_set.h"
#include "engine/tune.h"

struct tune_samples {
    struct engine *engine;         /* borrowed */
    struct train_subject *subject; /* borrowed: what is trained; set before the first step */
    struct tune_policy policy;     /* its texts are borrowed */
    uint64_t seed;
    bool lacks_place; /* among the adapters that are loaded: it could not be put there */
    bool (*is_wanted_end)(void *ctx);
    void *ctx;
};

/* tuning_options.sample; ctx: a struct tune_samples. */
int tune_samples_draw(void *ctx, struct row_set *rows, int64_t step, int64_t judged_at,
                      struct train_rewards *out, bool *is_ended, struct err *e);

/* The adapter's name means nothing any more, and no folder of it is left. */
void tune_samples_end(struct tune_samples *s);

/* Removes what a killed training left of it in its folder. */
int tune_samples_forget(const char *checkpoints, struct err *e);

#endif
