/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses of preferences.
 *
 * Of pairs: of two rows the first is preferred to the second. Each is a function of the two
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
 * Of rows with a verdict: each by itself is desirable or not. kl is how far the model is from its
 * reference, found of the whole step before a row's loss is (engine/train/mismatch.h).
 *
 *     kto    desirable (1 - s(beta ((x - x~) - kl))), or undesirable (1 - s(beta (kl - (x - x~))))
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

struct preference_verdict {
    double loss, reward;
    double by;     /* what the loss falls by where the row's logprob rises by 1 */
    bool is_right; /* the reward is on its verdict's side */
};
struct preference_verdict preference_of_row(const struct train_preference *p,
                                            const struct preference_row *row, bool is_undesirable,
                                            double kl);

/* The loss of a name, "dpo" or "x_ipo"; TRAIN_LOSS_COUNT: there is none of it. */
enum train_loss preference_find(const char *name);

#endif
