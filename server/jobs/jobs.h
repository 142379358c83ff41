/* SPDX-License-Identifier: Apache-2.0
 *
 * The job threads. One takes the files of jobs that were made, and validates them; the others take
 * jobs whose files are good, each one at a time, and train them on the weights that are being
 * served, while they are served: so what is wrong with a file is told at once, whatever trains. The
 * store's row is the truth: a job that a killed server was running goes on from its newest
 * checkpoint when the next server starts.
 *
 * Jobs that train at once take turns at the compute threads (engine/base/gate.h). Each is a
 * training of its own, with the bits that it has alone.
 *
 * Below the data directory:
 *   files/ID                what clients uploaded, and result files
 *   checkpoints/JOB/        the training's state, rows.csv, and grades where graders ask others
 *   adapters/JOB-step-N/    checkpoints, as PEFT directories; adapters/JOB/ the result
 *   models/JOB/             the result of a full training, as a model directory
 *
 * Publishing is the row of store.tuned and a switch in the engine's registry: requests in flight
 * end on the version they began with.
 *
 * Where ranks share the model they all train (engine/train/beside.h), one job at a time. When one
 * of them is gone the server ends, and the job is one that a killed server was running.
 *
 * Thread: any.
 */
#ifndef SERVER_JOBS_JOBS_H
#define SERVER_JOBS_JOBS_H

#include <stdint.h>

#include "api/grader_outside.h"
#include "api/job.h"
#include "engine/base/err.h"
#include "engine/base/made.h"
#include "engine/tune.h"

struct engine;
struct jobs;
struct metrics;
struct store;
struct wandb;

enum { JOBS_AT_ONCE_MAX = 64 };

struct jobs_options {
    struct engine *engine;         /* borrowed */
    struct store *store;           /* borrowed */
    struct metrics *metrics;       /* borrowed: counts steps; NULL: nobody does */
    const char *dir;               /* borrowed: the data directory */
    const char *board;             /* borrowed: where event files go; NULL: nowhere */
    struct wandb *wandb;           /* borrowed: is sent the same numbers; NULL: nobody is */
    int64_t min_examples;          /* fewer fail the job */
    int64_t at_once;               /* jobs that train; 0: 1 */
    int64_t train_memory;          /* that a job may take; 0: what is free beside keys and values,
                                    * which they share */
    struct grader_outside graders; /* what graders of samples ask of others; but for who asks */
    int64_t graders_at_once;       /* samples that are graded at a time, of a job that asks any */
};

/* Publishes what was tuned before, and starts the threads. */
struct jobs *jobs_new(const struct jobs_options *o, struct err *e);
void jobs_free(struct jobs *j); /* running jobs stop behind a checkpoint, and go on next time */

void jobs_wake(struct jobs *j); /* a job was added, or asked to end */

/* Lets jobs that a full disk paused go on, where there is room again. */
void jobs_look_room(struct jobs *j);

/* Where a model that was made lies; to be freed. */
char *jobs_tuned_path(const char *dir, const struct job_tuned *t);

/* Deletes one: the row first, so that what is deleted is not published again when a server starts.
 * ERR_NOT_FOUND: somebody else did. */
int jobs_tuned_drop(const struct jobs_options *o, const struct job_tuned *t, struct err *e);

/* It answers from here on, read now or when it is asked for. ERR_TOO_LARGE: there is no place for
 * any; it answers when there is one. ERR_CORRUPT: it cannot be read. */
int jobs_tuned_load(const struct jobs_options *o, const struct job_tuned *t, const char *path,
                    struct err *e);

/* Its name is its owner's from here on, or shared, as the job asked: before it is served. */
int jobs_tuned_claim(const struct jobs_options *o, const struct job_tuned *t, struct err *e);

/* A tuned model that a job of its owner goes on from: its row, and how its adapter was made; texts
 * lie in the arena. ERR_NOT_FOUND: the owner has none of this name. ERR_UNSUPPORTED: none can go on
 * from it here. ERR_CORRUPT: its files are not what was published. */
struct jobs_ancestor {
    struct job_tuned model;
    const char *dir;
    struct tune_ancestor made;
};
int jobs_ancestor_find(const struct jobs_options *o, const char *owner, const char *name,
                       struct arena *a, struct jobs_ancestor *out, struct err *e);

/* The same in steps, for who has others wait: the row; a part of its files, 1: there is more; how
 * its adapter was made. */
int jobs_ancestor_look(const struct jobs_options *o, const char *owner, const char *name,
                       struct arena *a, struct jobs_ancestor *out, struct err *e);
int jobs_ancestor_prove(const struct jobs_ancestor *from, struct made_proof *p, int64_t most,
                        struct err *e);
int jobs_ancestor_read(struct jobs_ancestor *out, struct arena *a, struct err *e);

/* DIR/files/ID and the like; to be freed. */
char *jobs_path(const char *dir, const char *folder, const char *name);

#endif
