/* SPDX-License-Identifier: Apache-2.0
 *
 * The store: files, jobs, their events and checkpoints, published models; one SQLite database in
 * the data directory. What a call here has returned 0 for is on the disk. The row is the truth: a
 * job is what its row says, whatever this process believes.
 *
 * One connection writes and reads, behind one lock; every call is a transaction of its own. The
 * directory is locked for as long as the store is open, so two servers never share one. At the
 * start the database is checked and, where its form is older, copied aside and brought up to date.
 *
 * Every thing has an owner, the tenant that made it; lists and look-ups see one owner's things.
 *
 * Thread: any.
 */
#ifndef SERVER_STORE_H
#define SERVER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"

struct store;

/* ERR_BUSY: another process has the directory. ERR_CORRUPT: the database is damaged. */
struct store *store_new(const char *dir, struct err *e);
void store_free(struct store *s);

enum { STORE_ID_BYTES = 40 };

/* "file-" and the like before 24 random letters and digits. */
void store_id(const char *prefix, char id[STORE_ID_BYTES]);

/* A page of a list: behind the thing `after` (NULL: from the begin), at most limit of them. */
struct store_page {
    const char *after; /* borrowed */
    int64_t limit;
    bool ascending; /* oldest first */
};

/* ---- files --------------------------------------------------------------------------------- */

struct store_file {
    const char *id, *owner, *purpose, *name, *sha256; /* in the arena of a look-up */
    int64_t bytes, created, expires;                  /* seconds; 0: never */
};

int store_file_add(struct store *s, const struct store_file *f, struct err *e);
int store_file_get(struct store *s, const char *owner, const char *id, struct arena *a,
                   struct store_file *out, struct err *e); /* ERR_NOT_FOUND */
int store_file_drop(struct store *s, const char *owner, const char *id, struct err *e);
/* out: in the arena, *n of them; *more: there are more behind them. purpose NULL: all. */
int store_file_list(struct store *s, const char *owner, const char *purpose,
                    const struct store_page *page, struct arena *a, struct store_file **out,
                    size_t *n, bool *more, struct err *e);
int store_file_bytes(struct store *s, const char *owner, int64_t *bytes,
                     struct err *e); /* in all */

/* ---- jobs ---------------------------------------------------------------------------------- */

#define STORE_JOB_STATES(X)                                                                        \
    X(VALIDATING, "validating_files")                                                              \
    X(QUEUED, "queued")                                                                            \
    X(RUNNING, "running")                                                                          \
    X(PAUSED, "paused")                                                                            \
    X(SUCCEEDED, "succeeded")                                                                      \
    X(FAILED, "failed")                                                                            \
    X(CANCELLED, "cancelled")

enum job_state {
#define STATE(name, text) JOB_##name,
    STORE_JOB_STATES(STATE)
#undef STATE
        JOB_STATE_COUNT
};
const char *job_state_name(enum job_state state);

/* Texts are in the arena of a look-up; NULL where there is none. JSON stands as text: it is api/'s
 * to read. */
struct store_job {
    const char *id, *owner, *model, *training_file, *validation_file, *suffix;
    const char *hyper, *method, *metadata; /* JSON objects: effective numbers, as asked, as asked */
    const char *error_code, *error_message, *error_param;
    const char *tuned_model, *result_files; /* a JSON array of ids */
    enum job_state state;
    int64_t created, started, finished, seed;
    int64_t trained_tokens; /* -1: not known yet */
    int64_t estimated_finish, step, n_step;
    bool wants_cancel, wants_pause; /* asked of a running job; the job thread answers */
};

struct store_event {
    const char *id, *level, *type, *message, *data; /* data: JSON or NULL */
    int64_t seq, created;
};

/* retry: a key under which the same creation, sent again within `retry_s`, finds the first job
 * (*found), NULL: none; body tells a repetition from a conflict (ERR_EXISTS). */
int store_job_add(struct store *s, const struct store_job *j, const char *retry, const char *body,
                  int64_t retry_s, struct arena *a, struct store_job *found, struct err *e);
int store_job_get(struct store *s, const char *owner, const char *id, struct arena *a,
                  struct store_job *out, struct err *e);
int store_job_list(struct store *s, const char *owner, const struct store_page *page,
                   struct arena *a, struct store_job **out, size_t *n, bool *more, struct err *e);

/* The oldest queued job, or one that a server was running when it died; ERR_NOT_FOUND: none. */
int store_job_next(struct store *s, struct arena *a, struct store_job *out, struct err *e);

/* Writes the job's changing fields if its state still is one of `from` (bits 1 << state), and the
 * event (or NULL) with them, in one transaction. ERR_BUSY: the state is another. */
int store_job_move(struct store *s, const struct store_job *j, unsigned from,
                   const struct store_event *v, struct err *e);

int store_event_add(struct store *s, const char *job, const struct store_event *v, struct err *e);
int store_event_list(struct store *s, const char *job, const struct store_page *page,
                     struct arena *a, struct store_event **out, size_t *n, bool *more,
                     struct err *e);

#endif
