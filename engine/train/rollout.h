/* SPDX-License-Identifier: Apache-2.0
 *
 * Rollouts: what the model that is trained says to a step's prompts now, as generations of the
 * engine that serves, among those of others and behind them. They are drawn from the plain
 * distribution (temperature 1, nothing cut), so the log-probability of a token is what it was drawn
 * with.
 *
 * A rollout is decided by its prompt, its seed and the adapter's values: whoever is served beside
 * it, and however often it has to be asked for. So a training that goes on asks for the same again.
 *
 * Thread: one at a time; it waits there for the engine.
 */
#ifndef ENGINE_TRAIN_ROLLOUT_H
#define ENGINE_TRAIN_ROLLOUT_H

#include "engine/base/err.h"
#include "engine/train/row_set.h"

struct adapter;
struct engine;

struct rollout {
    struct engine *engine;   /* borrowed */
    struct adapter *adapter; /* borrowed */
    int64_t max_new;
    uint64_t seed; /* of the step */
    uint64_t tenant;
    bool (*is_wanted_end)(void *ctx); /* asked now and then: true ends it */
    void *ctx;
};

/* Fills each row of the batch behind its prompt. *is_ended: it was to end, or the engine ends; then
 * rows are not to be used. */
int rollout_run(const struct rollout *o, struct row_set *rows, bool *is_ended, struct err *e);

#endif
