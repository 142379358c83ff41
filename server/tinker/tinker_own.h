/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share.
 *
 * Thread: as each part says; what is under the lock, any.
 */
#ifndef SERVER_TINKER_TINKER_OWN_H
#define SERVER_TINKER_TINKER_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/map.h"
#include "engine/engine.h"
#include "engine/tune.h"
#include "server/tinker/tinker.h"

enum {
    TINKER_ARENA_BYTES = 512 << 20,
    TINKER_ANSWER_BYTES = 256 << 20,
    TINKER_UNNAMED_KEPT = 8, /* weights for samplers without a name, of a model */
    TINKER_ALPHA = 32
};

struct tinker_wait;
struct tinker_live;
struct tinker_flight;

/* A key that has asked for samples. Its counts are the sampler's. */
struct tinker_asker {
    char *owner;              /* owned */
    int64_t place;            /* the last request that was taken */
    int64_t n_flight, n_text; /* requests that were taken; texts that the engine has of them */
    bool has_more;            /* under the lock: there may be others behind the place */
    struct tinker_asker *next;
};

struct tinker {
    struct tinker_options opt;
    atomic_bool stops, leaves; /* the second: nobody waits any more */
    pthread_mutex_t lock;
    pthread_cond_t train_wake, sample_wake;
    bool has_train, has_sample,
        has_threads;            /* under the lock but the last: there is something new */
    struct map open;            /* under the lock: ids of requests that came to nothing yet */
    struct tinker_wait *wait;   /* under the lock */
    struct tinker_asker *asker; /* owned; under the lock the first of them: none goes */
    pthread_t trainer, sampler;
    struct tinker_live *live;     /* the trainer's: the last used first */
    struct tinker_flight *flight; /* the sampler's */
    int64_t n_flight;             /* of all askers */
};

/* DIR/loops/NAME, in the arena; and the names of a model's state, and of what a request saves. */
const char *tinker_path(const struct tinker *t, const char *name, struct arena *a);
const char *tinker_state_name(const char *model, int64_t seq, struct arena *a);
const char *tinker_saved_name(const char *request, struct arena *a);

/* A request's end into the store, however often it must be tried; then who waits is told. -1: the
 * server stops. */
int tinker_end(struct tinker *t, const struct loop_end *end);

/* What an error is to a client: a failed request's answer. */
void tinker_fail(struct buf *out, const struct err *why);

/* waits.c */
void tinker_told(struct tinker *t, const char *id); /* it came to something */
void tinker_tick(struct tinker *t, bool all);       /* who has waited long, or everybody, goes */

/* models.c */
void *tinker_train(void *t);

/* steps.c: one request over a loop. */
struct tinker_run {
    struct tinker *all;
    struct arena *arena;
    const struct loop_request *request;
    struct loop_model model;
    struct tune_loop *loop; /* NULL: not begun */
    struct buf *answer;
    struct loop_weights weights; /* new ones; path NULL: none */
    struct loop_sampler sampler; /* id NULL: none */
    const char *old_dir;         /* of weights that the new ones take the place of; NULL */
    bool begins;                 /* the model's first: model is new */
    bool changes;                /* the loop: where it is made again, this is run again */
};
/* The error is what it comes to. */
int tinker_run(struct tinker_run *r, struct err *e);
int tinker_rerun(struct tinker_run *r, struct err *e); /* of one that has run: for its effect */
int tinker_begin_loop(struct tinker_run *r, struct err *e);

/* saved.c */
int tinker_know(struct tinker *t, const struct loop_weights *w, struct err *e);
void tinker_remove(struct tinker *t, const struct loop_weights *w);
void tinker_prune(struct tinker *t, const char *model); /* of those without a name, the old */
void tinker_expire(struct tinker *t, int64_t now);      /* of all models, whose time is over */
int64_t tinker_bytes(const struct tinker *t, const char *dir); /* of what was saved there */
int tinker_sweep(struct tinker *t, struct err *e);

/* samples.c */
void *tinker_sample(void *t);

/* askers.c */
void tinker_asked(struct tinker *t, const char *owner); /* for a sample: any thread */
void tinker_askers_free(struct tinker *t);
struct tinker_asker *tinker_asker_first(struct tinker *t);
size_t tinker_asker_turn(struct tinker *t, struct tinker_asker *k); /* how many may be taken now */
void tinker_asker_again(struct tinker *t, struct tinker_asker *k);  /* they were not all */
/* Whether the engine may have so many more of its texts. */
bool tinker_asker_may_give(const struct tinker *t, const struct tinker_asker *k, int64_t n);

#endif
