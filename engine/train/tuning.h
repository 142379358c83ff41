/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole training: epochs over a dataset in batches, evaluation beside it, checkpoints, and going
 * on from the last of them. Whoever started it hears of each step and can end it between two.
 *
 * A tuning that was killed and begun again with the same options and data goes on from its newest
 * checkpoint, and every step after it has the loss it would have had.
 *
 * Where train.ranks names ranks each of them has a tuning with the same options, of which event,
 * is_wanted_end and row_log are the first one's alone, and which all run. While the first is told
 * of an event the others wait, and answer what it asks (engine/train/ask.h).
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_TRAIN_TUNING_H
#define ENGINE_TRAIN_TUNING_H

#include "engine/base/gate.h"
#include "engine/train/ancestor.h"
#include "engine/train/dataset.h"
#include "engine/train/row_set.h"
#include "engine/train/trainer.h"

struct tuning;

struct tuning_options {
    struct train_options train;
    int64_t n_epoch, batch;         /* rows of a step, or pairs of rows */
    struct train_ancestor ancestor; /* whose values are the first; train.has_ancestor follows */
    const struct dataset *data;     /* borrowed */
    const struct dataset *valid;    /* borrowed; NULL: none */
    int64_t valid_rows;             /* beside a step; 0: none */
    int64_t valid_every;            /* steps */
    const char *checkpoints;        /* borrowed: folder; NULL: none are kept */
    int64_t checkpoint_steps;       /* at its multiples, and at the end of each epoch; 0: never */
    int64_t checkpoint_us;          /* and after so long; 0: never */
    int keep;                       /* checkpoints */
    bool keeps_best;     /* in the end the values are those of the lowest validation loss */
    int64_t patience;    /* looks at it without a lower one, behind which it ends; 0: never */
    bool judges_saves;   /* the validation loss is told at every checkpoint, those by time, too */
    const char *row_log; /* borrowed: file of each row's losses; NULL: none */
    bool logs_logprobs;  /* with those of each token */
    int64_t judge_every; /* of a policy: steps between looks at `valid`, besides; 0: none */
    /* Of a policy: fills the batch's rows, their advantages and shares; judged_at: of `valid`, its
     * place among the looked at; -1: it is to be trained on. *is_ended: it was to end. */
    int (*sample)(void *ctx, struct row_set *rows, int64_t step, int64_t judged_at,
                  struct train_rewards *out, bool *is_ended, struct err *e);
    void *sample_ctx;
    struct gate *gate; /* borrowed: shared with a server; NULL: nobody else computes */
    /* Both may be NULL. The second is asked between steps: true ends the tuning after a checkpoint
     * (a pause; what goes on later goes on bit for bit). */
    int (*event)(void *ctx, const struct tuning_event *event, struct err *e);
    bool (*is_wanted_end)(void *ctx);
    void *ctx;
};

/* Steps that such a tuning has. */
int64_t tuning_n_step(const struct tuning_options *o);

/* Most tokens that a teacher names at a place of its rows; 0: there is none. */
int64_t tuning_n_top(const struct tuning_options *o);

struct tuning *tuning_new(struct model *m, const struct tuning_options *o, struct stream *s,
                          struct err *e);
void tuning_free(struct tuning *t);

/* Until the last step, or until it is ended; *is_done tells which. One that had its last step in an
 * earlier process tells its last epoch again: that process may not have come to use it. */
int tuning_run(struct tuning *t, bool *is_done, struct err *e);

/* Whether it has taken its last step. */
bool tuning_is_over(const struct tuning *t);
struct tuning_best tuning_best(const struct tuning *t);

/* Removes the checkpoints in a folder, that of the best values, too; the folder stays. */
int tuning_forget(const char *checkpoints, struct err *e);

struct trainer *tuning_trainer(struct tuning *t);

#endif
