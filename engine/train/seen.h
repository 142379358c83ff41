/* SPDX-License-Identifier: Apache-2.0
 *
 * What the labels of a step's rows got, and what that makes of the rows: losses, rewards, what is
 * told of them. Kept per token, since ranks add up what each has seen, and sums are then taken in
 * the order of the rows wherever they were computed.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_SEEN_H
#define ENGINE_TRAIN_SEEN_H

#include "engine/op/batch.h"
#include "engine/train/label_loss.h"
#include "engine/train/policy.h"
#include "engine/train/preference.h"
#include "engine/train/trainer.h"
#include "kernels/kernels.h"

/* Of a token; zeros where it has no label. */
struct seen {
    float logprob, was_best, reference;
    float loss; /* of the label alone, or with what a teacher said of it */
};

enum { SEEN_FLOATS = sizeof(struct seen) / sizeof(float) };

/* What place i of a row counts in a loss of its own. */
double seen_weight(const struct train_row *r, int64_t i);

/* Room for n tokens, of which nothing is known yet. */
int seen_reserve(struct seen **seen, int64_t *cap, int64_t n, struct err *e);

/* From what the head left of each label, in their order; how many of these there were. seen: [n] of
 * the row's tokens; the second fills the row's reference. */
int64_t seen_read(const struct train_row *r, const struct k_ce_state *state, struct seen *seen);
int64_t seen_reference(const struct train_row *r, const struct k_ce_state *state);

/* Behind seen_read, of a row that a teacher spoke of: 1 - weight of its labels' losses, and
 * `weight` of the divergence from the teacher, over the tokens that it named and all others as one.
 * Row `at` of state and top is the row's first label. */
void seen_teach(const struct train_row *r, double weight, const struct k_ce_state *state,
                const struct batch_top *top, int64_t at, struct seen *seen);

/* Of two rows, whose tokens stand one behind the other. */
struct preference_pair seen_pair(const struct train_preference *p, const struct train_row row[2],
                                 const struct seen *seen);

/* Adds a row's, or a pair's, losses to sums that are not divided yet. */
void seen_add(const struct train_row *r, const struct seen *seen, struct train_result *sum);
void seen_add_pair(const struct train_preference *p, const struct train_row row[2],
                   const struct seen *seen, struct train_result *sum);

/* The same of a row with a verdict. */
struct preference_verdict seen_verdict(const struct train_preference *p, const struct train_row *r,
                                       const struct seen *seen, double kl);
void seen_add_verdict(const struct train_preference *p, const struct train_row *r,
                      const struct seen *seen, double kl, struct train_result *sum);

/* What each label of a row counts, [n of its labels], and how many these are. */
int64_t seen_policy(const struct train_policy *p, const struct train_row *r,
                    const struct seen *seen, float *by);
void seen_add_policy(const struct train_policy *p, const struct train_row *r,
                     const struct seen *seen, struct train_result *sum);

/* The same of a loss of each label. */
int64_t seen_labels(const struct label_loss *l, const struct train_row *r, const struct seen *seen,
                    float *by);
void seen_add_labels(const struct label_loss *l, const struct train_row *r, const struct seen *seen,
                     struct train_result *sum);

/* What a row got goes to whoever asked; of rows that other ranks computed, too. */
void seen_tell(const struct train_row *r, const struct seen *seen, struct train_result *out);

#endif
