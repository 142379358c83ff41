/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of pairs: of two rows the first is preferred to the second. Each is a function of the two
 * rows' log-probabilities, so that it is known behind the forward alone, and so is what a row's
 * labels count in the backward: one factor for all of them.
 *
 * x is a row's log-probability, summed over its labels; x~ the same of the model without its
 * adapter, the reference; |x| the number of labels; w the preferred row, l the other.
 *
 *     dpo    -log s(beta ((w - w~) - (l - l~)))
 *     ipo    (((w - w~) / |w| - (l - l~) / |l|) - 1 / (2 beta))^2
 *     orpo   -w / |w| - beta log s(log-odds(w / |w|) - log-odds(l / |l|))
 *     simpo  -log s(beta (w / |w| - l / |l|) - gamma)
 *
 * A row's reward is beta times what is compared there: of orpo and simpo the mean.
 *
 * Thread: any.
 */
#ifndef ENGINE_TRAIN_PREFERENCE_H
#define ENGINE_TRAIN_PREFERENCE_H

#include "engine/train/plain.h"

struct preference_row {
    double logprob, reference; /* sums over its labels */
    int64_t n_label;           /* at least 1 */
};

struct preference_pair {
    double loss, reward[2];
    double by[2]; /* what the loss falls by where a row's logprob rises by 1 */
};

/* Whether the reference's log-probabilities are asked for. */
bool preference_has_reference(const struct train_preference *p);

struct preference_pair preference_of(const struct train_preference *p,
                                     const struct preference_row row[2]);

/* The loss of a name, "dpo" or "x_ipo"; TRAIN_LOSS_COUNT: there is none of it. */
enum train_loss preference_find(const char *name);

#endif
