/* SPDX-License-Identifier: Apache-2.0
 *
 * The samples of a step, graded by some threads at once: graders may wait for others, for long. The
 * asking thread looks now and then whether it is all to end.
 *
 * Thread: one at a time; grade is called by several.
 */
#ifndef ENGINE_TRAIN_GRADING_H
#define ENGINE_TRAIN_GRADING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct grading {
    int64_t n, at_once; /* samples; threads */
    /* Sample i. *ends: what it says is not wanted any more; then it should return soon. */
    int (*grade)(void *ctx, int64_t i, const atomic_bool *ends, struct err *e);
    bool (*is_to_end)(void *ctx);
    void *ctx;
};

/* All of them, or until one fails or it is to end (*is_ended). */
int grading_run(const struct grading *g, bool *is_ended, struct err *e);

#endif
