/* SPDX-License-Identifier: Apache-2.0
 *
 * What an engine holds, cut by who owns it: each part of struct engine says which thread may touch
 * it, or under which lock.
 *
 * Requests pass from who submits to the engine's thread through one list in `mail`, whole groups at
 * a time. From there on a work is in a list of the thread's own part until it is over, and beside
 * that in the scheduler.
 *
 * Thread: as the parts say.
 */
#ifndef ENGINE_SERVE_ENGINE_PARTS_H
#define ENGINE_SERVE_ENGINE_PARTS_H

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

/* Set by engine_new and not changed after it: any thread reads them. What a pointer leads to keeps
 * itself by a lock of its own or by the gate, but for what only the engine's thread may use: the
 * stream of `res`, and the comm of its model's ranks. */
struct engine_fixed {
    struct resident res;
    char *name; /* owned */
    void (*broke)(void *ctx);
    void *broke_ctx;
    struct engine_info info;
    char fingerprint[BASE_ID_TEXT_BYTES]; /* info's */
    struct room room;
    struct check_limits limits;
    struct work_model work_model;
    int64_t queue_timeout_us;
    struct gate *gate;               /* owned */
    struct answer_bell *bell;        /* counted */
    int32_t *mark;                   /* owned: info's */
    struct constraints *constraints; /* owned */
};

/* Adapters by name. Any thread: owners and registry have their locks; `lock` is held over a load
 * for an owner, whose claim stands or falls with it. */
struct engine_names {
    pthread_mutex_t lock;
    struct owners *owners;     /* owned */
    struct registry *registry; /* owned; NULL: an encoder, or not wanted */
};

/* What others want of the engine's thread. Any thread under `lock`; atomics without. */
struct engine_mail {
    pthread_mutex_t lock;
    pthread_cond_t wake, errand_done;
    struct work_list inbox;
    VEC(uint64_t) gone;  /* adapters' versions that no name means any more */
    VEC(uint64_t) ended; /* adapters' versions that nobody uses any more, for other ranks to hear */
    struct errand *errand, **errand_end; /* in the order that they came */
    bool is_asleep, is_called, runs;     /* runs: the thread does, and takes errands */
    struct err why;                      /* a rank is gone; ERR_NONE: none is */
    _Atomic bool has_mail, stops;
    _Atomic bool is_wanted; /* the inbox has what goes before idle work */
    _Atomic enum engine_speculate speculate;
};

enum { HOLD_PLACES = 4096 };

/* What works that have not ended hold. */
struct engine_hold {
    _Atomic size_t bytes;
    _Atomic int64_t beam_seats, beam_cells;
};

/* What the engine's thread says of itself, for any thread to read. Atomics, and `stat` under
 * `lock`. */
struct engine_told {
    _Atomic int64_t n_waiting; /* submitted and not begun; who submits counts up */
    _Atomic size_t hold_bytes; /* of what has not ended; who submits counts up */
    /* of it each tenant's; of two that meet here both together have what one may */
    struct engine_hold hold_of[HOLD_PLACES];
    _Atomic int64_t beam_seats[2], beam_cells[2]; /* of searches that have not ended, those of idle
                                                   * work behind; likewise */
    _Atomic bool is_idle;
    _Atomic int64_t heartbeat_us;
    pthread_mutex_t lock;
    struct engine_stat stat;
};

/* The engine's thread itself. Only the thread that starts and stops the engine touches it. */
struct engine_start {
    pthread_t thread;
    bool is_started;
};

/* What works and steps are made of. The engine's thread only; before it is started and after it was
 * joined, who makes and frees the engine. */
struct engine_own {
    struct runner *runner;
    struct sched *sched;
    struct samplers *samplers; /* NULL: an encoder */
    struct gain gain;          /* what steps take, and so how many guesses pay */
    float *chance;             /* owned: [cap_seq * DRAFT_MAX]; NULL: no guesses */
    struct work_list live;
    bool looks;              /* for cancelled works, in the next round */
    struct work_list over;   /* ended in this step */
    struct work_list parted; /* told, and still in a step under way */
    struct group *dirty;     /* to be notified */
    struct beams *beams;     /* whose texts change places, or end, behind this step */
    struct seq **seq;        /* owned: [max_waiting + cap_seq] a group on its way, or a step's */
    struct flight flight[FETCH_SLOTS]; /* the second where the device goes ahead */
    bool gives_up;                     /* the step of idle work at hand, for who came */
    struct flight *up; /* told to the scheduler, its tokens promised, and not landed; NULL: none */
    int64_t landed_us;
    struct fetch fetch;
    struct buf text; /* of one token */
    int64_t expire_us;
    uint64_t tok_prompt, tok_new, tok_drafted, tok_accepted;
    int64_t n_step, n_given_up, n_seq_last, step_us;
    int64_t n_of_size[ENGINE_SIZES], n_seq_all; /* as engine_stat says */
};

struct engine {
    struct engine_fixed fixed;
    struct engine_names names;
    struct engine_mail mail;
    struct engine_told told;
    struct engine_start start;
    struct engine_own own;
};

#endif
