/* SPDX-License-Identifier: Apache-2.0
 *
 * The desk: where requests about files, jobs and tuned models are dealt with. It holds the data
 * directory, that is the store and the job thread; errands are background work of one lane, which
 * runs them one after the other. So no HTTP thread ever waits for a disk, and tokens of other
 * clients do not either. One at a time is enough: the store has one lock.
 *
 * An errand is what a handler leaves to the desk: a function, and what it is to look at. It answers
 * with JSON, or with an error, or asks to be run again a little later, which is how requests wait
 * for a job and how events are followed; what it has written until then goes out as a stream where
 * it is one.
 *
 * Thread: desk_new, desk_open, desk_stop, desk_free by main; errand_* by the call's HTTP thread; an
 * errand's work on its lane's; desk_claim_*: any.
 */
#ifndef SERVER_DESK_DESK_H
#define SERVER_DESK_DESK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/error.h"
#include "api/grader_outside.h"
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "server/http/call.h"
#include "server/store/store.h"

struct background;
struct desk;
struct engine;
struct jobs;
struct metrics;

struct desk_options {
    const char *dir;               /* borrowed: --data-dir */
    int64_t file_bytes_max, quota; /* of one file; of all files of one key, 0: no limit */
    int64_t responses_quota;       /* of all responses of one key; 0: none is kept */
    int64_t min_examples, jobs_at_once, train_memory; /* as jobs_options */
    const char *board;                                /* as jobs_options, like the next three */
    struct wandb *wandb;
    struct grader_outside graders;
    int64_t graders_at_once;
    struct metrics *metrics;
    struct background *work; /* borrowed: runs the errands */
};

struct desk *desk_new(const struct desk_options *o, struct err *e); /* locks the directory */
int desk_open(struct desk *d, struct engine *g, struct err *e);     /* errands and jobs begin */
void desk_leave(struct desk *d); /* what takes long gives up; NULL is fine */
void desk_stop(struct desk *d);  /* background work has stopped; then jobs. desk may be NULL */
void desk_free(struct desk *d);  /* when no call can come any more; NULL is fine */

const struct desk_options *desk_options(const struct desk *d);
struct store *desk_store(struct desk *d);
struct engine *desk_engine(struct desk *d);
void desk_wake_jobs(struct desk *d);
char *desk_file_path(const struct desk *d, const char *id);                  /* to be freed */
char *desk_part_path(const struct desk *d, const char *id);                  /* the same */
int desk_file_drop(struct desk *d, const struct file_row *f, struct err *e); /* row and bytes */

/* Bytes of an upload that are on the disk and counted by no row yet. The claims of a key are
 * bounded by a quota of the same size as its files: so files and uploads together take at most
 * twice the quota, and no HTTP thread has to ask the store. */
struct desk_claim {
    const char *owner; /* borrowed */
    int64_t bytes, most;
    struct desk_claim *next;
};

/* What all files of who asks may have; 0: no limit. */
int64_t desk_quota(const struct desk *d, const struct call_request *ask);
void desk_claim_begin(struct desk *d, struct desk_claim *c, const char *owner, int64_t most);
int desk_claim_grow(struct desk *d, struct desk_claim *c, int64_t n, struct api_error *e);
void desk_claim_end(struct desk *d, struct desk_claim *c); /* twice is fine */

/* Whether its directory is gone, as it was last looked at: then the error says so. */
bool desk_is_lost(struct desk *d, struct api_error *e);

/* The desk, where it is open; NULL: the error says why. */
struct desk *desk_of(struct call *c, struct api_error *e);

enum errand_end {
    ERRAND_FAILED = -1, /* the error is the answer; of a stream that has begun, its last event */
    ERRAND_DONE,
    ERRAND_AGAIN, /* run me again, a little later */
    ERRAND_ON     /* there is more to do: run me again when others had their turn */
};

enum { ERRAND_FILTERS_MAX = 16 };

struct errand {
    struct desk *desk;              /* borrowed */
    struct call *call;              /* counted while it waits or runs */
    const struct call_request *ask; /* borrowed from the call */
    enum errand_end (*work)(struct errand *t, struct api_error *e);
    struct arena arena; /* the work's */
    /* what is asked for; texts lie in the call's arena */
    struct store_page page;
    const char *purpose, *model, *retry_key;
    struct errand_filter {
        const char *key, *value;
    } filter[ERRAND_FILTERS_MAX]; /* metadata[key]=value */
    size_t n_filter;
    bool wants_none; /* metadata=null */
    bool is_retry, is_stream;
    bool asks_others; /* for long, and looks at no file: it runs on the graders' lane */
    const char *last; /* the work's: the newest event that was sent */
    int n_run;        /* how often it ran before */
    bool is_again;    /* the work's: it had been asked before, and counts nothing */
    void *kept;       /* the work's, for its next turn: in the arena; NULL at first */
    void (*let_go)(struct errand *t); /* of what `kept` holds, at its end, however it came; NULL */
    /* what comes of it: the work writes out, and sets the others or not */
    struct buf out;
    const char *ignored;       /* for x-tandem-ignored */
    struct store_proof *proof; /* of the file that is the answer, in the arena; NULL: none */
    int64_t n_sent;            /* of its bytes */
    const char *type;          /* of the answer */
    /* between the threads, under the desk's lock */
    struct buf ready;
    struct api_error error;
    enum errand_end end;
    struct errand *next; /* of those that ask others, while they run */
    atomic_bool is_gone; /* the client, or the server: the work may look at it */
};

struct errand *errand_new(struct call *c);                       /* NULL: the call was answered */
void errand_refuse(struct errand *t, const struct api_error *e); /* instead of errand_send */
void errand_send(struct errand *t, enum errand_end (*work)(struct errand *, struct api_error *));

/* For work: what err says, as an answer; and a row that is not there, as a 404. */
enum errand_end errand_fail(const struct err *why, struct api_error *e);

/* That the asker may have one file more, of so many bytes; -1 with a 400 that names `param`. */
int errand_quota(struct errand *t, int64_t more, const char *param, struct api_error *e);

/* A file of the asker with this purpose; -1 with a 400 that names `param`. */
int errand_file(struct errand *t, const char *id, const char *purpose, const char *param,
                struct api_error *e);

#endif
