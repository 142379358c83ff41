/* SPDX-License-Identifier: Apache-2.0
 *
 * Trainings that clients step through by Tinker's API: passes, updates, saves and loads of adapters
 * over the model that is served, and samples from what was saved.
 *
 * A model is the list of its requests, in the order of their numbers. One that was taken is on the
 * disk, and so is what it came to before anybody is told. A model's values live in memory; behind a
 * kill they are made again, from the newest state on the disk and the requests since, which are run
 * again: the bits are the same, so nobody can tell. One thread runs the requests of all models, a
 * request of each in turn; another gives samples to the engine, among all that it serves.
 *
 * Below the data directory, loops/:
 *   MODEL-state-SEQ/   the values behind request SEQ
 *   MODEL-SEQ/         what request SEQ saved: a state, or for samplers a PEFT directory
 *
 * Thread: any; new, stop and free by one.
 */
#ifndef SERVER_TINKER_TINKER_H
#define SERVER_TINKER_TINKER_H

#include "api/tinker.h"
#include "server/http/call.h"
#include "server/store/store_loop.h"

struct background;
struct engine;
struct tinker;

struct tinker_options {
    struct store *store; /* borrowed, as the others */
    struct engine *engine;
    struct background *work; /* where answers are looked up; */
    size_t lane;             /* of it */
    const char *dir;         /* --data-dir */
    int64_t train_memory;    /* as jobs_options */
    /* As batches_options. */
    bool (*who)(void *ctx, const char *owner, struct who *out, int64_t *files_quota);
    void *ctx;
};

/* Knows all that was saved, and goes on with what waits. */
struct tinker *tinker_new(const struct tinker_options *o, struct err *e);
void tinker_leave(struct tinker *t); /* who waits is told to come back; NULL is fine */
void tinker_stop(struct tinker *t);  /* what runs ends, what waits stays; NULL, twice */
void tinker_free(struct tinker *t);  /* stops, too; NULL is fine */

/* A request of a model or a sampler into its line; *is_new: it was not there. 429, 404: as
 * store_loop_put. */
int tinker_put(struct tinker *t, const struct loop_request *r, const char *session, bool *is_new,
               struct api_error *e);

/* The answer of a call is what that request comes to; or 408 where it takes longer than a client
 * waits, to be asked again. */
void tinker_tell(struct tinker *t, struct call *c, const char *id);

/* Removes what was saved under a path. ERR_NOT_FOUND. */
int tinker_drop(struct tinker *t, const char *owner, const char *path, struct err *e);

#endif
