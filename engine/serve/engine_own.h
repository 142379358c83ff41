/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files behind engine/engine.h share.
 *
 * Requests pass from who submits to the engine's thread through one list under `lock`, whole
 * groups at a time. From there on a work is in the thread's own list until it is over, and beside
 * that in the scheduler.
 *
 * Thread: as the members say.
 */
#ifndef ENGINE_SERVE_ENGINE_OWN_H
#define ENGINE_SERVE_ENGINE_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/buf.h"
#include "engine/base/vec.h"
#include "engine/draft/gain.h"
#include "engine/engine.h"
#include "engine/run/runner.h"
#include "engine/sample/samplers.h"
#include "engine/sched/sched.h"
#include "engine/serve/check.h"
#include "engine/serve/constraints.h"
#include "engine/serve/fetch.h"
#include "engine/serve/owners.h"
#include "engine/serve/registry.h"
#include "engine/serve/resident.h"
#include "engine/serve/room.h"
#include "engine/serve/work.h"

/* Works in the order of their submission. */
struct work_list {
    struct work *first, *last;
    int64_t n;
};

/* What another thread wants done between two steps; it waits. */
struct errand {
    struct errand *next;
    int (*fn)(void *ctx, struct err *e);
    void *ctx;
    struct err *err;
    int rc;
    bool is_done;
};

/* A row of a step that is sampled or scored: whose, and for which place of its text. Behind drafts,
 * which it counts on, it says something only if they were right. */
struct row_use {
    struct work *work;
    int64_t place, row, n_ahead;
};

/* A step that was given to the device, until its answers were told. */
struct flight {
    int slot;                /* which of the two; constant */
    struct event *done;      /* owned */
    struct sched_part *part; /* owned: [cap_seq] the step's, which the scheduler may forget */
    struct sched_step step;
    struct op_view out;
    struct sample_task *task; /* owned: [cap_out] */
    struct row_use *use;      /* owned: [cap_out] */
    int64_t n_task;
    int64_t from_us, took_us;
    bool leads; /* all its tokens are drawn on the device, and nothing of the next step hangs on
                 * the host's knowing them */
};

struct engine {
    /* constant from engine_new on */
    struct resident res;
    char *name;
    void (*broke)(void *ctx);
    void *broke_ctx;
    struct engine_info info;
    char fingerprint[BASE_ID_TEXT_BYTES]; /* info's */
    struct room room;
    struct check_limits limits;
    struct work_model work_model;
    int64_t queue_timeout_us;
    struct gate *gate;
    struct answer_bell *bell;
    struct owners *owners;     /* of adapters' names */
    pthread_mutex_t naming;    /* of a load for an owner: its claim stands or falls with it */
    struct registry *adapters; /* NULL: an encoder, or not wanted */
    struct constraints *constraints;

    /* any thread, under lock */
    pthread_mutex_t lock;
    pthread_cond_t wake, errand_done;
    struct work_list inbox;
    VEC(uint64_t) gone;  /* adapters' versions that no name means any more */
    VEC(uint64_t) ended; /* adapters' versions that nobody uses any more, for other ranks to hear */
    struct errand *errand, **errand_end; /* in the order that they came */
    bool is_asleep, is_called, runs;     /* runs: the thread does, and takes errands */
    struct err why;                      /* a rank is gone; ERR_NONE: none is */

    _Atomic bool has_mail, stops;
    _Atomic int64_t n_waiting; /* submitted and not begun */
    _Atomic size_t hold_bytes; /* of what has not ended */
    _Atomic bool is_idle;
    _Atomic int64_t heartbeat_us;

    pthread_mutex_t stat_lock;
    struct engine_stat stat;

    /* the thread that starts and stops */
    pthread_t thread;
    bool is_started;

    /* engine's thread only */
    struct runner *runner;
    struct sched *sched;
    struct samplers *samplers;               /* NULL: an encoder */
    _Atomic enum engine_speculate speculate; /* any thread */
    struct gain gain;                        /* what steps take, and so how many guesses pay */
    float *chance;                           /* owned: [cap_seq * DRAFT_MAX]; NULL: no guesses */
    struct work_list live;
    bool looks;              /* for cancelled works, in the next round */
    struct work_list over;   /* ended in this step */
    struct work_list parted; /* told, and still in a step under way */
    struct group *dirty;     /* to be notified */
    struct seq **seq;        /* owned: [max_waiting + cap_seq] a group on its way, or a step's */
    struct flight flight[FETCH_SLOTS]; /* the second where the device goes ahead */
    struct flight *up; /* told to the scheduler, its tokens promised, and not landed; NULL: none */
    int64_t landed_us;
    struct fetch fetch;
    struct buf text; /* of one token */
    int64_t expire_us;
    uint64_t tok_prompt, tok_new, tok_drafted, tok_accepted;
    int64_t n_step, n_seq_last, step_us;
    int64_t n_of_size[ENGINE_SIZES], n_seq_all; /* as engine_stat says */
};

/* ---- loop.c: the thread ---- */
void *engine_main(void *arg); /* until g->stops */
void engine_end_all(struct engine *g);

/* ---- ranks.c: the other ranks, where several share the model ---- */
enum { RANKS_PING_US = 500000 };    /* how often, without work */
void ranks_begin(struct engine *g); /* the thread's first act, and its last */
void ranks_end(struct engine *g);
void ranks_errands(struct engine *g); /* does what waits to be done between two steps */
void ranks_ping(struct engine *g, bool goes_on);
bool ranks_lost(struct engine *g, struct err *e);          /* one is gone, or the device, and why */
void ranks_abort(struct engine *g, const struct err *why); /* ends what they do beside serving */
const char *ranks_lost_text(struct engine *g);             /* which it was */
void ranks_explain(struct engine *g,
                   struct err *e); /* to clients, where that is why a step failed */
adapter_tell_fn ranks_tell;        /* ctx is the engine */
/* Runs fn on the engine's thread between two steps, or, before there is one, here. */
int ranks_between(struct engine *g, int (*fn)(void *ctx, struct err *e), void *ctx, struct err *e);

/* ---- ends.c: works that begin and end, and who is told ---- */
void work_list_add(struct work_list *l, struct work *w);
void work_list_drop(struct work_list *l, struct work *w);
void work_let_go(struct engine *g, struct work *w); /* out of the scheduler, if it is there */
void work_begin(struct engine *g, struct work *w, int64_t now);
void work_mark(struct engine *g, struct work *w, bool ended); /* its group is notified */
/* The answer ends; the work goes to `over` and no further step sees it. */
void work_end(struct engine *g, struct work *w, enum gen_end why, int64_t now);
void work_fail(struct engine *g, struct work *w, const struct err *why, int64_t now);
void engine_tell(struct engine *g); /* frees what is over, notifies */

/* ---- step.c: a step from the scheduler's parts to rows ---- */
int step_run(struct engine *g, const struct sched_step *step, struct op_view *out, struct err *e);

/* ---- flight.c: a step from its launch to its answers, the next one given in between ---- */
int flights_init(struct engine *g, struct err *e);
void flights_release(struct engine *g);
void flight_round(struct engine *g, const struct sched_step *step);
void flight_land(struct engine *g); /* what is up, where nothing follows it */

/* ---- drafts.c: guesses, where they gain ---- */
int drafts_init(struct engine *g, enum engine_speculate how, struct err *e);
void drafts_release(struct engine *g);
void drafts_offer(void *ctx, const struct sched_part *part, int64_t n); /* ctx is the engine */
void drafts_ran(struct engine *g, const struct flight *f);

/* ---- constrained.c: texts that must be something ---- */
void constrained_rows(struct engine *g, struct flight *f); /* the masks of its wanted rows */
const uint32_t *constrained_row(const struct work *w, int64_t n_ahead); /* NULL: none */
/* How many of the guesses may come at all; the others are taken back. */
int64_t constrained_guesses(struct work *w, int64_t n);
void constrained_heard(struct work *w, int32_t id); /* it is the text's next token */
bool constrained_is_whole(const struct work *w);    /* nothing can follow */

/* ---- take.c: from rows to answers ---- */
void take_plan(struct flight *f);
void take_promise(struct flight *f); /* the tokens that it draws are on their way */
void take_rows(struct engine *g, struct flight *f, int64_t now);
void take_vectors(struct engine *g, struct flight *f, int64_t now);

#endif
