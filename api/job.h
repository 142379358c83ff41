/* SPDX-License-Identifier: Apache-2.0
 *
 * Files, fine-tuning jobs and their events, as plain data: what the store keeps, and what clients
 * send and see of it (OpenAI's objects, every required field always there, null where it has no
 * value).
 *
 * Hyperparameters left to us ("auto", or not said) are 0 here until the rows are known; then the
 * job has the effective numbers, and shows them.
 *
 * Thread: any.
 */
#ifndef API_JOB_H
#define API_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/error.h"
#include "api/hyper.h"
#include "api/jout.h"
#include "engine/base/arena.h"
#include "engine/serve/gen.h"

struct grader;

struct file_row {
    const char *id, *owner, *purpose, *name, *sha256;
    int64_t bytes, created, expires; /* seconds since 1970; 0: never */
};

#define JOB_STATES(X)                                                                              \
    X(VALIDATING, "validating_files")                                                              \
    X(QUEUED, "queued")                                                                            \
    X(RUNNING, "running")                                                                          \
    X(PAUSED, "paused")                                                                            \
    X(SUCCEEDED, "succeeded")                                                                      \
    X(FAILED, "failed")                                                                            \
    X(CANCELLED, "cancelled")

enum job_state {
#define STATE(name, text) JOB_##name,
    JOB_STATES(STATE)
#undef STATE
        JOB_STATE_COUNT
};
const char *job_state_name(enum job_state state);

struct job {
    const char *id, *owner, *model, *training_file, *validation_file, *suffix;
    const char *metadata;        /* JSON of an object; NULL */
    const char *grader;          /* JSON of an object, of a reinforcement; NULL */
    const char *response_format; /* as the grader: what a sample has to be, to be graded; NULL */
    struct job_hyper hyper;
    const char *error_code, *error_message, *error_param; /* NULL: no error */
    const char *tuned_model;                              /* NULL: not yet */
    const char *result_files;                             /* JSON of an array of ids */
    const char *fingerprint;     /* of its base (engine_info); NULL: of a time without any */
    const char *ancestor;        /* the tuned model that it goes on from; NULL: it begins anew */
    const char *ancestor_digest; /* of that one's files, when the job was made */
    enum job_state state;
    int64_t created, started, finished, seed; /* times: 0: not yet */
    int64_t trained_tokens;                   /* -1: not known yet */
    int64_t estimated_finish, step, n_step;
    bool is_shared;                 /* asked for: every key may use what it makes */
    bool wants_cancel, wants_pause; /* asked of a running job; the job thread answers */
};

struct job_event {
    const char *id, *level, *type, *message;
    const char *data; /* JSON of an object; NULL */
    int64_t seq, created;
};

/* A model that a job made: the result, or a checkpoint of an epoch. */
struct job_tuned {
    const char *id, *name, *owner, *job, *base,
        *dir;                /* dir: below the data directory's adapters/, or models/ */
    const char *metrics;     /* JSON of an object: of the last step before it; NULL */
    const char *fingerprint; /* as a job's */
    int64_t step, created;
    bool is_checkpoint;
    bool is_full; /* a whole model, which a server of its own serves */
};

/* The body of a creation. The result's texts lie in the arena; has_seed false: ours to draw. */
struct job_ask {
    struct job job;
    bool has_seed;
    const struct grader *grader; /* of a reinforcement: read, in the arena; NULL */
    struct constraint format;    /* as the grader; its kind says whether there is one */
    const char *ignored;         /* names of fields that nobody here knows; NULL: none */
};
/* Of a reinforcement's response_format; the field's name is kept. */
int job_format_read(struct api_reader *r, const char *name, const struct json_t *v,
                    struct constraint *out);
int job_ask_parse(const char *body, size_t n, struct arena *a, struct job_ask *out,
                  struct api_error *e);

void job_write(struct jout *j, const struct job *job);
void job_event_write(struct jout *j, const struct job_event *v);
void job_tuned_write(struct jout *j, const struct job_tuned *t); /* as a checkpoint */
void file_row_write(struct jout *j, const struct file_row *f);

/* Numbers of a step, or of an epoch's end; below 0 where there is none. */
/* Answers to the first prompt of a step by rewards, and what they were worth: the first ones, and
 * of each text its beginning, in whole characters. */
enum { JOB_SAMPLES = 4, JOB_SAMPLE_BYTES = 320 };
struct job_text {
    size_t n;
    bool is_cut;
    char p[JOB_SAMPLE_BYTES];
};
void job_text_set(struct job_text *t, const char *p, size_t n);

struct job_samples {
    size_t n;
    int64_t example;        /* of the file, from 1 */
    struct job_text prompt; /* its last message; empty: not a text */
    struct job_text text[JOB_SAMPLES];
    double reward[JOB_SAMPLES];
};

struct job_metrics {
    int64_t step, n_step;
    double train_loss, train_accuracy;
    double valid_loss, valid_accuracy;           /* of a few rows */
    double full_valid_loss, full_valid_accuracy; /* of all */
    int64_t trained_tokens;                      /* in all steps so far; 0: not of a step */
    double tok_per_s;                            /* since the job last began to run */
    int64_t estimated_finish;                    /* seconds since 1970 */
    bool has_texts;                              /* accuracies are of examples, not of tokens */
    bool has_pairs; /* accuracies are of pairs, and these the mean rewards of preferred rows, and
                     * of the others */
    double train_reward[2], valid_reward[2], full_valid_reward[2];
    bool has_rewards; /* of samples: the mean, its deviation, the share of labels that were clipped,
                       * the mean length, the divergence */
    double reward, reward_std, clipped, length, kl;
    int64_t n_moved, n_fault; /* labels whose ratio was not 1; samples that could not be graded */
    bool has_judged;          /* of samples of the validation file: */
    double judged;            /* their mean reward */
    const int64_t *faults;    /* [GRADE_FAULT_COUNT] borrowed: why; NULL: not told */
    const char *fault_why;    /* borrowed: of one of them, in words; "": none */
    const struct job_samples *samples; /* borrowed; NULL: none are shown */
};
void job_metrics_write(const struct job_metrics *m, struct buf *out); /* an event's data */

/* Each number in it, but for how far the job is and will be. */
void job_metrics_each(const char *data, void (*f)(void *ctx, const char *name, double value),
                      void *ctx);

/* What that said of the losses; step 0: it is none. */
void job_metrics_read(const char *data, struct job_metrics *m);

/* The first line of a result file, and the line of a metrics event's data; none where it is of
 * something else. */
void job_csv_heading(enum hyper_method method, struct buf *out);
void job_csv_line(const char *data, struct buf *out);

#endif
