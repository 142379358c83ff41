/* SPDX-License-Identifier: Apache-2.0
 *
 * The store: files, jobs, their events and checkpoints, published models; one SQLite database in
 * the data directory. What a call here has returned 0 for is on the disk. The row is the truth: a
 * job is what its row says, whatever this process believes.
 *
 * One connection writes and reads, behind one lock; every call is a transaction of its own. The
 * directory is locked for as long as the store is open, so two servers never share one. At the
 * start the database is checked and, where its form is older, backed up and brought up to date.
 *
 * Every thing has an owner, the tenant that made it; lists and look-ups see one owner's things.
 *
 * Thread: any.
 */
#ifndef SERVER_STORE_STORE_H
#define SERVER_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/job.h"
#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/sha256.h"

struct data_dir;
struct store;

/* Opens the data directory `dir` and its store; an empty folder, or none, becomes one. ERR_BUSY:
 * another process has it. ERR_EXISTS: the folder is somebody else's. ERR_CORRUPT: the database is
 * damaged, lost, or of another directory. Where it fails nothing was changed. */
struct store *store_new(const char *dir, struct err *e);
/* Whether directory and store lie where they were opened; where not, calls fail with ERR_BUSY. */
bool store_look_home(struct store *s);
bool store_is_lost(const struct store *s); /* as it was last looked at */
void store_free(struct store *s);
const struct data_dir *store_dir(const struct store *s);

/* A copy in backups/, where the newest is of another day. ERR_BUSY: it was given up. */
int store_back_up_daily(struct store *s, int64_t now, struct err *e);
void store_leave(struct store *s); /* copies are given up from here on */

enum { STORE_ID_BYTES = 40, STORE_STALLED_MAX = 100 };

/* "file-" and the like before 24 random letters and digits. */
void store_id(const char *prefix, char id[STORE_ID_BYTES]);

/* A page of a list: behind the thing `after` (NULL: from the begin), at most limit of them. A list
 * that never had such a thing is ERR_BAD_INPUT; one that was deleted since keeps its place. */
struct store_page {
    const char *after; /* borrowed */
    int64_t limit;
    bool ascending; /* oldest first */
};

/* ---- files --------------------------------------------------------------------------------- */

int store_file_add(struct store *s, const struct file_row *f, struct err *e);
int store_file_get(struct store *s, const char *owner, const char *id, struct arena *a,
                   struct file_row *out, struct err *e); /* ERR_NOT_FOUND */
/* *held: a job or a batch that has not ended reads it. Then it is dropped as far as anybody can
 * see, and stays for that, and in its owner's bytes, until store_file_let_go gives it. */
int store_file_drop(struct store *s, const char *owner, const char *id, bool *held, struct err *e);
/* The same for what reads it: one that was dropped and is held is there. */
int store_file_get_held(struct store *s, const char *owner, const char *id, struct arena *a,
                        struct file_row *out, struct err *e);
/* A dropped one that nothing reads any more: its row is gone, the bytes are the caller's to remove.
 * ERR_NOT_FOUND: none. */
int store_file_let_go(struct store *s, struct arena *a, struct file_row *out, struct err *e);
int store_file_has(struct store *s, const char *id, bool *has, struct err *e); /* of any owner */
/* One whose time is over, of any owner; ERR_NOT_FOUND: none. */
int store_file_expired(struct store *s, int64_t now, struct arena *a, struct file_row *out,
                       struct err *e);
/* out: in the arena, *n of them; *more: there are more behind them. purpose NULL: all. */
int store_file_list(struct store *s, const char *owner, const char *purpose,
                    const struct store_page *page, struct arena *a, struct file_row **out,
                    size_t *n, bool *more, struct err *e);

/* A file's bytes, held to its row before anybody uses them: begin, read until it says 0, and then
 * fd stands at the first byte. ERR_CORRUPT: it is not what was stored; the text is for clients and
 * names the file. */
struct store_proof {
    const struct file_row *file; /* borrowed */
    int fd;                      /* owned, once begun; -1: none */
    struct sha256 hash;
    int64_t n_read;
};
int store_proof_begin(struct store *s, const struct file_row *f, struct store_proof *p,
                      struct err *e);
int store_proof_read(struct store_proof *p, int64_t most, struct err *e); /* 1: there is more */
void store_proof_end(struct store_proof *p);

/* All of that at once: the descriptor; -1. */
int store_file_open(struct store *s, const struct file_row *f, struct err *e);

/* In all; with those that uploads in parts have set aside. */
int store_file_bytes(struct store *s, const char *owner, int64_t *bytes, struct err *e);
int store_file_count(struct store *s, const char *owner, int64_t *n, struct err *e);

/* ---- jobs ---------------------------------------------------------------------------------- */

/* With its first event, v (or NULL). retry: a key under which the same creation, sent again within
 * `retry_s`, finds the first job (*found); NULL: none; another body is ERR_EXISTS. */
int store_job_add(struct store *s, const struct job *j, const struct job_event *v,
                  const char *retry, const char *body, int64_t retry_s, struct arena *a,
                  struct job *found, struct err *e);
/* The look alone, without making it: found->id is NULL where it was not made before. */
int store_job_retry(struct store *s, const struct job *j, const char *retry, const char *body,
                    int64_t retry_s, struct arena *a, struct job *found, struct err *e);
int store_job_get(struct store *s, const char *owner, const char *id, struct arena *a,
                  struct job *out, struct err *e);
int store_job_list(struct store *s, const char *owner, const struct store_page *page,
                   struct arena *a, struct job **out, size_t *n, bool *more, struct err *e);

/* Of owners without a key jobs and trainings stand still. has_key: any thread, under a lock. */
void store_keys(struct store *s, bool (*has_key)(void *ctx, const char *owner), void *ctx);
bool store_has_key(const struct store *s, const char *owner);

/* Whose turn it is: of jobs in these states one that a server was running when it died, of any
 * base, or one that waits and is of this one: of its files, and once a step was taken in its types
 * too. The owner with the fewest of them in hand is next, of several the one behind the last, and
 * so round; of an owner the oldest. */
struct store_turn {
    unsigned states; /* bits 1 << state */
    const char *fingerprint;
    const char *in_hand; /* ids: none of these */
    const char *last;    /* the owner whose job was taken last; "": none was */
};
/* ERR_NOT_FOUND: none. */
int store_job_next(struct store *s, const struct store_turn *t, struct arena *a, struct job *out,
                   struct err *e);

/* Those that wait, or are paused, and do not run over this base. */
int store_job_strange(struct store *s, const char *fingerprint, struct arena *a, struct job **out,
                      size_t *n, struct err *e);
/* Those that are paused with this error's code, or the oldest STORE_STALLED_MAX of them. */
int store_job_stalled(struct store *s, const char *code, struct arena *a, struct job **out,
                      size_t *n, struct err *e);

/* Jobs and whole models that say no base, as those of an older program, and are of this model's
 * name, are of this base from here on: *n of them. */
int store_adopt(struct store *s, const char *model, const char *fingerprint, int64_t *n,
                struct err *e);

/* What becomes of a job, all of it or nothing: its changing fields if its state still is one of
 * `from` (bits 1 << state), and with them events, files that it made (those that are there already
 * stay) and a model. ERR_BUSY: the state is another. */
struct store_change {
    const struct job *job;
    unsigned from;
    const struct job_event *event;
    size_t n_event;
    const struct file_row *file;
    size_t n_file;
    const struct job_tuned *tuned; /* NULL: none */
};
int store_job_change(struct store *s, const struct store_change *c, struct err *e);

/* The same with one event, or NULL. */
int store_job_move(struct store *s, const struct job *j, unsigned from, const struct job_event *v,
                   struct err *e);

/* Asks a job that runs to end: the job thread will see it. ERR_BUSY: it does not run. */
int store_job_ask(struct store *s, const char *owner, const char *id, bool cancel, bool pause,
                  struct err *e);
int store_job_asked(struct store *s, const char *id, bool *cancel, bool *pause, struct err *e);

int store_job_shares(struct store *s, const char *id, bool *shares, struct err *e); /* is_shared */

/* An owner's jobs: all, and those that have not ended. */
int store_job_count(struct store *s, const char *owner, int64_t *all, int64_t *waiting,
                    struct err *e);

/* It has ended; one that is not known has not. */
int store_job_is_over(struct store *s, const char *id, bool *is_over, struct err *e);

int store_event_add(struct store *s, const char *job, const struct job_event *v, struct err *e);
int store_events_add(struct store *s, const char *job, const struct job_event *v, size_t n,
                     struct err *e); /* all or none */
int store_event_list(struct store *s, const char *job, const struct store_page *page,
                     struct arena *a, struct job_event **out, size_t *n, bool *more, struct err *e);

/* ---- models that jobs made ----------------------------------------------------------------- */

int store_tuned_add(struct store *s, const struct job_tuned *t, struct err *e);
int store_tuned_adopt(struct store *s, const char *name, const char *fingerprint, struct err *e);
int store_tuned_drop(struct store *s, const char *owner, const char *name, struct err *e);
int store_tuned_has(struct store *s, const char *dir, bool *has, struct err *e); /* of any owner */
int store_tuned_get(struct store *s, const char *owner, const char *name, struct arena *a,
                    struct job_tuned *out, struct err *e); /* ERR_NOT_FOUND */
/* Whether a job that has not ended goes on from it. */
int store_tuned_is_ancestor(struct store *s, const char *owner, const char *name, bool *is,
                            struct err *e);
/* Newest first; owner or job NULL: any. */
int store_tuned_list(struct store *s, const char *owner, const char *job,
                     const struct store_page *page, struct arena *a, struct job_tuned **out,
                     size_t *n, bool *more, struct err *e);

#endif
