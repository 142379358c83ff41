/* SPDX-License-Identifier: Apache-2.0
 *
 * The job threads. One takes the files of jobs that were made, and validates them; the other takes
 * jobs whose files are good, one at a time, and trains them on the weights that are being served,
 * while they are served: so what is wrong with a file is told at once, whatever trains. The store's
 * row is the truth: a job that a killed server was running goes on from its newest checkpoint when
 * the next server starts.
 *
 * Below the data directory:
 *   files/ID                what clients uploaded, and result files
 *   checkpoints/JOB/        the training's state, and rows.csv
 *   adapters/JOB-step-N/    checkpoints, as PEFT directories; adapters/JOB/ the result
 *   models/JOB/             the result of a full training, as a model directory
 *
 * Publishing is the row of store.tuned and a switch in the engine's registry: requests in flight
 * end on the version they began with.
 *
 * Where ranks share the model they all train (engine/train/beside.h). When one of them is gone the
 * server ends, and the job is one that a killed server was running.
 *
 * Thread: any.
 */
#ifndef SERVER_JOBS_JOBS_H
#define SERVER_JOBS_JOBS_H

#include <stdint.h>

#include "engine/base/err.h"

struct engine;
struct job_tuned;
struct jobs;
struct metrics;
struct store;

struct jobs_options {
    struct engine *engine;   /* borrowed */
    struct store *store;     /* borrowed */
    struct metrics *metrics; /* borrowed: counts steps; NULL: nobody does */
    const char *dir;         /* borrowed: the data directory */
    int64_t min_examples;    /* fewer fail the job */
    /* Of one owner that are loaded, as it is now; 0: any number. NULL: so for all. */
    int64_t (*adapters_most)(void *ctx, const char *owner);
    void *ctx;
    int64_t train_memory; /* that a job may take; 0: what is free beside keys and values */
};

/* Publishes what was tuned before, and starts the thread. */
struct jobs *jobs_new(const struct jobs_options *o, struct err *e);
void jobs_free(struct jobs *j); /* a running job stops behind a checkpoint, and goes on next time */

void jobs_wake(struct jobs *j); /* a job was added, or asked to end */

/* Where a model that was made lies; to be freed. */
char *jobs_tuned_path(const char *dir, const struct job_tuned *t);

/* Deletes one: the row first, so that what is deleted is not published again when a server starts.
 * ERR_NOT_FOUND: somebody else did. */
int jobs_tuned_drop(const struct jobs_options *o, const struct job_tuned *t, struct err *e);

/* It answers from here on. ERR_TOO_LARGE: as many of its owner's, or of all, are loaded as may be.
 */
int jobs_tuned_load(const struct jobs_options *o, const struct job_tuned *t, const char *path,
                    struct err *e);

/* Its name is its owner's from here on, or shared, as the job asked: before it is served. */
int jobs_tuned_claim(const struct jobs_options *o, const struct job_tuned *t, struct err *e);

/* DIR/files/ID and the like; to be freed. */
char *jobs_path(const char *dir, const char *folder, const char *name);

#endif
