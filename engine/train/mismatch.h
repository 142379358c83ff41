/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a model is from its reference, as a loss of verdicts asks for it: estimated, as TRL does,
 * over rows that nobody wrote, each with the prompt of a row of the step and what another one
 * answers. Each row has the end of the one before it, and the first that of the last.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_MISMATCH_H
#define ENGINE_TRAIN_MISMATCH_H

#include "engine/train/trainer.h"

struct mismatch {
    struct train_row *row; /* [n], whose ends are learned, with room for both log-probabilities */
    int64_t n;
    void *block; /* owned: all of it */
};

/* Of rows that have something to learn; those that become longer than row_max are cut. */
int mismatch_init(struct mismatch *m, const struct train_row *row, int64_t n, int64_t row_max,
                  struct err *e);
void mismatch_release(struct mismatch *m); /* a zeroed one is fine */

/* Once the rows' log-probabilities are known: at least 0. */
double mismatch_divergence(const struct mismatch *m);

#endif
