/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the batches share.
 *
 * Thread: the batches' own, but for what the lock is said to guard.
 */
#ifndef SERVER_BATCHES_BATCHES_OWN_H
#define SERVER_BATCHES_BATCHES_OWN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api/batch.h"
#include "engine/base/vec.h"
#include "server/batches/batches.h"
#include "server/store/store_batch.h"

/* ---- batch_input.c: the lines of the file ---------------------------------------------------- */

enum { BATCH_LINES_MAX = 50000, BATCH_LINE_BYTES_MAX = 32 << 20, BATCH_FILE_BYTES_MAX = 200 << 20 };

struct batch_place {
    int64_t at;
    int32_t n, number; /* bytes; of the line, from 1 */
};

struct batch_input {
    int fd;                       /* owned; -1: none */
    VEC(struct batch_place) line; /* those that are not blank */
};

/* Opens the file as it was stored, and finds its lines. 1: it cannot be a batch, and *fault says
 * why. */
int batch_input_init(struct batch_input *in, struct store *s, const struct batch *b,
                     struct api_error *fault, int64_t *fault_line, struct err *e);
void batch_input_release(struct batch_input *in);
/* The text of a line, in the arena. */
const char *batch_input_read(const struct batch_input *in, size_t i, struct arena *a,
                             struct err *e);

/* ---- batch_check.c --------------------------------------------------------------------------- */

struct batch_run;

/* Looks at every line: fills n_line and model of the batch, or its errors. */
int batch_check(struct batch_run *r, struct err *e);

/* What is wrong with the file as a whole, as the batch's errors. */
void batch_fault(struct batch_run *r, const struct api_error *fault, int64_t line);

/* ---- batch_log.c: what was answered ---------------------------------------------------------- */

enum batch_kind { BATCH_OPEN_LINE = 0, BATCH_FLIES = 'f', BATCH_GOOD = 'o', BATCH_BAD = 'e' };

struct batch_mark {
    int64_t at; /* of the answer's JSON */
    int32_t n;
    char kind; /* enum batch_kind */
};

struct batch_log {
    int fd;                  /* owned; -1: none */
    int64_t end;             /* of what is written whole */
    struct batch_mark *mark; /* owned: [n_line] */
    size_t n_line, n_answered;
    struct buf pending; /* behind end: lines that are not written yet */
    bool is_dirty;      /* written, and maybe not on the disk */
};

/* Opens it, or begins one; what is not a whole line is cut off, and the others are counted in b. */
int batch_log_init(struct batch_log *l, const char *path, size_t n_line, struct batch *b,
                   struct err *e);
void batch_log_release(struct batch_log *l);
/* json: one line. -1: there is no memory for it now. */
int batch_log_add(struct batch_log *l, size_t i, enum batch_kind kind, const struct buf *json);
int batch_log_write(struct batch_log *l, struct err *e); /* all that is pending, or nothing */
int batch_log_sync(struct batch_log *l, struct err *e);
int batch_log_read(const struct batch_log *l, size_t i, struct buf *out, struct err *e);

/* ---- a batch that is worked on --------------------------------------------------------------- */

struct batch_run {
    struct batches *all; /* borrowed */
    struct batch batch;  /* its texts lie in the arena */
    struct arena arena;
    struct arena attempt; /* texts that one go_on makes: freed when the next one begins */
    struct batch_input input;
    struct batch_log log;
    struct who who;
    int64_t quota;      /* what its owner's files may have; 0: any number */
    int64_t bytes_left; /* of that, for answers */
    size_t next;        /* no line before it is open */
    size_t n_flying;
    int64_t told_us;   /* when the row was last given its numbers */
    int64_t rest_us;   /* nothing is tried before: a disk was full */
    int64_t rested_us; /* how long the last rest was; 0: what was tried since could be done */
    bool has_key;      /* its owner is somebody; else nothing of it is begun */
    bool is_open;      /* input and log are there */
    bool is_full;      /* the last line that ended was not kept: a disk was full */
    bool has_news;     /* the row lacks numbers */
    bool says_rest;    /* the log has said why it rests */
    bool is_over;
};

/* One line in flight. */
struct batch_flight {
    struct batches *all;
    struct batch_run *run; /* borrowed; NULL: nobody waits for it any more */
    struct call *call;     /* NULL: dropped */
    struct who who;        /* its name is owned */
    char *custom_id;       /* owned */
    char id[STORE_ID_BYTES];
    size_t line;
    bool is_woken; /* under the lock */
};

struct batches {
    struct batches_options opt;
    VEC(struct batch_run *) run;       /* owned */
    VEC(struct batch_flight *) flight; /* freed by their calls' end */
    size_t turn;                       /* whose is the next place */
    int64_t hold_us;                   /* no line begins before: the engine has no room */
    bool rests;                        /* the store could not be read */
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    bool has_thread, has_mail, stops;
    size_t n_live; /* calls that are not freed */
};

/* ---- batch_flight.c -------------------------------------------------------------------------- */

/* The next open line of a batch begins. 1: there is none. */
int batch_flight_begin(struct batch_run *r, struct err *e);
void batch_flights_look(struct batches *b);         /* answers go to the logs */
void batch_flights_drop(const struct batch_run *r); /* their lines are open again */

/* ---- batches.c ------------------------------------------------------------------------------- */

/* Nothing of it is tried for a while. */
void batch_rest(struct batch_run *r, const struct err *e);

/* ---- batch_end.c ----------------------------------------------------------------------------- */

/* The batch as it is goes to the store, if it is still in one of `from`. */
int batch_tell(struct batch_run *r, unsigned from, struct err *e);
int batch_move(struct batch_run *r, enum batch_state to, unsigned from, struct err *e);

/* What its answers may still take of its owner's bytes. */
int batch_see_quota(struct batch_run *r, struct err *e);

/* Its two files, and the state that it ends in. code and message: of lines that were not answered;
 * NULL: those are left out, and so are they where the owner's bytes are spent. */
int batch_end(struct batch_run *r, enum batch_state to, const char *code, const char *message,
              struct err *e);
char *batch_log_path(const struct batch_run *r); /* to be freed */

#endif
