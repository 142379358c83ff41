/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of training on one model: rows in, a loss and better weights out. A step is one batch of
 * rows, cut into micro-batches that memory can hold; the cut changes no loss by a bit, and the
 * gradients only in the order in which micro-batches are summed.
 *
 * Where the options name ranks (engine/train/ranks.h) each call is one of all of them, with the
 * same rows, of which a tensor group computes its own; the result is the same at all.
 *
 * The loss is the mean over the trained tokens of the whole step, which of those that a teacher
 * spoke of is the divergence from it too, by the options' weight; or over its pairs of rows where
 * the options' preference has a loss of pairs: then the rows come two by two, the preferred one
 * first, and a micro-batch holds whole pairs; of rows with a verdict the mean over the rows. Such a
 * loss trains an adapter alone, since its reference is the model without it, or with the one that
 * the training goes on from. So does that of a policy, which is the sum over the tokens of rows
 * that were sampled, each by its share. The loss is checked before anything changes: a step whose
 * loss or gradient is not finite, or that has no token to learn from, fails and leaves weights,
 * moments and the count of steps as they were.
 *
 * The stream is the trainer's own: where others are to go first it has a stream_between.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TRAIN_TRAINER_H
#define ENGINE_TRAIN_TRAINER_H

#include "engine/train/subject.h"

struct trainer;

/* label[i] is the id that place i is to predict, -1 for none; logprob, where not NULL, gets the
 * log-probability of each label, 0 where there is none. */
struct train_row {
    const int32_t *id, *label; /* borrowed */
    const float *weight;       /* borrowed; NULL, and always of pairs: 1 */
    float *logprob;            /* borrowed or NULL */
    float *loss;               /* borrowed or NULL: what each label lost, whatever it counts */
    const int32_t
        *top_id;      /* borrowed: label by label what a teacher named in its place, the label */
    const float *top; /* among them, and how likely each is; -1 stands behind the last of each */
    int32_t n_top;    /* label, and alone where nobody spoke of it. Most of one; 0: of none */
    float *reference; /* borrowed: what the reference says of each label, where a loss asks for
                       * it. reference[0] NaN: not known, and found; it never changes */
    const float *sampled; /* borrowed: of a policy, the log-probability that each was drawn with */
    bool is_undesirable;  /* of a loss of verdicts */
    double advantage, share; /* of a policy: see engine/train/policy.h */
    const float *counts;     /* borrowed: of trainer_pass, what each label counts */
    const float *target;     /* borrowed: of a classifier, what each label is to be */
    int64_t n_first;         /* tokens of the first of two texts, which come first; 0: one text */
    int64_t n;
    uint64_t key; /* tells the row's draws of dropout apart from other rows' */
};

struct trainer *trainer_new(struct model *m, const struct train_options *o, struct stream *s,
                            struct err *e);
void trainer_free(struct trainer *t);

int trainer_step(struct trainer *t, const struct train_row *row, int64_t n,
                 struct train_result *out, struct err *e);

/* The loss alone. */
int trainer_eval(struct trainer *t, const struct train_row *row, int64_t n,
                 struct train_result *out, struct err *e);

/* A step in two halves, for who takes it himself: rows whose gradients of a loss of his choice are
 * added to those that are there (or, where it does not train, the losses alone), and an update with
 * their sum. A pass that fails takes all gradients with it. Of an adapter, at one rank. */
struct label_loss;
int trainer_pass(struct trainer *t, const struct train_row *row, int64_t n,
                 const struct label_loss *loss, bool trains, struct train_result *out,
                 struct err *e);
bool trainer_has_gradient(const struct trainer *t);
struct train_adam {
    double lr, beta1, beta2, eps, decay;
    double max_norm; /* of the whole gradient; 0: not clipped */
};
int trainer_update(struct trainer *t, const struct train_adam *how, double *grad_norm,
                   struct err *e);
void trainer_forget(struct trainer *t); /* gradients */

/* Room for micro-batches of so many tokens, which passes are cut into from here on; value_bytes and
 * checkpoints_blocks as in the options. */
int trainer_fit(struct trainer *t, int64_t cap_tok, size_t value_bytes, bool checkpoints_blocks,
                struct err *e);

void trainer_rest(struct trainer *t); /* memory of passes goes back until the next one */

int64_t trainer_n_step(const struct trainer *t);          /* steps done */
void trainer_set_step(struct trainer *t, int64_t n_step); /* of a checkpoint */
struct train_subject *trainer_subject(struct trainer *t);
size_t trainer_bytes(const struct trainer *t);

#endif
