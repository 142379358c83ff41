/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that trains: it takes the request whose turn it is, has its model's loop in memory,
 * runs it, and writes down what it came to. A few loops stay in memory; others are made again from
 * their state when they are asked for.
 *
 * A model's state is written where much was computed since the last, behind an update, and when the
 * loop leaves memory; gradients are in no state, so one with some is made again by its passes.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/tinker/tinker_own.h"

enum {
    LIVE_MAX = 4,               /* loops in memory */
    KEEP_US = 20 * 1000 * 1000, /* of computing, behind which a state is written; */
    KEEP_BYTES = 64 << 20,      /* of bodies; */
    KEEP_SHARE = 4,             /* of what its key may keep */
    ANSWERS_KEPT = 1024,        /* of a model, behind its state */
    TICK_NS = 1000 * 1000 * 1000,
    SESSION_S = 7 * 86400, /* without a sign of its client */
    BARE_S = 3600,         /* of one that has no model */
    SAMPLE_S = 3600,       /* that its answer is kept */
    HOUSE_US = 60 * 1000 * 1000
};

struct tinker_live {
    char *model;            /* owned */
    struct tune_loop *loop; /* owned */
    int64_t at, kept;       /* the last request in it; that of the state on the disk, -1: none */
    int64_t spent_us;       /* since that */
    int64_t n_body;         /* bytes that are kept to be run again */
    struct tinker_live *next;
};

/* ---- loops in memory ------------------------------------------------------------------------- */

static void live_free(struct tinker_live *l)
{
    tune_loop_free(l->loop);
    free(l->model);
    free(l);
}

/* Removes a state that is not the model's any more. */
static void forget_state(struct tinker *t, const char *model, int64_t seq, struct arena *a)
{
    struct err e = ERR_INIT;
    if (seq >= 0 && tune_loop_forget(tinker_path(t, tinker_state_name(model, seq, a), a), &e))
        log_event(LOG_WARN, "a training's old state cannot be removed", LOG_TEXT("model", model),
                  LOG_TEXT("why", e.msg));
}

/* The loop's values as the model's state, behind request `at`. */
static int keep(struct tinker *t, struct tinker_live *l, struct arena *a, struct err *e)
{
    if (l->kept == l->at || tune_loop_has_gradient(l->loop))
        return 0;
    if (tune_loop_save(l->loop, tinker_path(t, tinker_state_name(l->model, l->at, a), a), e) ||
        store_loop_keep(t->opt.store, l->model, l->at, ANSWERS_KEPT, e))
        return -1;
    forget_state(t, l->model, l->kept, a);
    l->kept = l->at;
    l->spent_us = l->n_body = 0;
    return 0;
}

static void keep_or_say(struct tinker *t, struct tinker_live *l, struct arena *a)
{
    struct err e = ERR_INIT;
    if (keep(t, l, a, &e))
        log_event(LOG_WARN, "a training's state cannot be written", LOG_TEXT("model", l->model),
                  LOG_TEXT("why", e.msg));
}

static struct tinker_live **place_of(struct tinker *t, const char *model)
{
    struct tinker_live **at = &t->live;
    while (*at && strcmp((*at)->model, model) != 0)
        at = &(*at)->next;
    return at;
}

static void close_live(struct tinker *t, const char *model)
{
    struct tinker_live **at = place_of(t, model), *l = *at;
    if (!l)
        return;
    *at = l->next;
    live_free(l);
}

/* The one that was used least recently makes place. */
static void make_place(struct tinker *t, struct arena *a)
{
    int n = 0;
    for (struct tinker_live **at = &t->live, *l; (l = *at); n++) {
        if (n < LIVE_MAX - 1) {
            at = &l->next;
            continue;
        }
        keep_or_say(t, l, a);
        *at = l->next;
        live_free(l);
    }
}

static struct tinker_live *enter_live(struct tinker *t, const char *model, struct tune_loop *loop,
                                      int64_t at, int64_t kept)
{
    struct tinker_live *l = xcalloc(1, sizeof *l);
    l->model = xstrdup(model);
    l->loop = loop;
    l->at = at;
    l->kept = kept;
    l->next = t->live;
    t->live = l;
    return l;
}

/* Runs again what came behind the state; *n_body: its bytes. */
static int replay(struct tinker *t, struct tinker_run *r, int64_t from, int64_t *n_body,
                  struct err *e)
{
    struct arena a;
    struct buf unused;
    arena_init(&a, TINKER_ARENA_BYTES);
    buf_init(&unused, TINKER_ANSWER_BYTES);
    int rc = 0;
    for (int64_t seq = from; !rc && seq < r->model.next; seq++) {
        struct loop_request q;
        struct tinker_run one = {
            .all = t, .arena = &a, .request = &q, .model = r->model, .loop = r->loop};
        one.answer = &unused;
        rc = store_loop_ran(t->opt.store, r->model.id, seq, &a, &q, e) || tinker_rerun(&one, e) ||
                     atomic_load(&t->stops)
                 ? -1
                 : 0;
        *n_body += rc ? 0 : (int64_t)q.n_body;
        buf_clear(&unused);
        arena_reset(&a);
    }
    buf_release(&unused);
    arena_release(&a);
    return rc;
}

/* The model's loop, as it is behind the request before. */
static int open_live(struct tinker *t, struct tinker_run *r, struct tinker_live **out,
                     struct err *e)
{
    const struct loop_model *m = &r->model;
    int64_t n_body = 0;
    struct tinker_live **at = place_of(t, m->id), *l = *at;
    *out = l;
    if (t->live && t->live != l) /* the memory of a pass is planned for one loop at a time */
        tune_loop_rest(t->live->loop);
    if (l) {
        *at = l->next;
        l->next = t->live;
        t->live = l;
        r->loop = l->loop;
        return 0;
    }
    if (m->rank == 0)
        return 0;
    make_place(t, r->arena);
    if (tinker_begin_loop(r, e))
        return -1;
    if ((m->kept >= 0 &&
         tune_loop_load(r->loop,
                        tinker_path(t, tinker_state_name(m->id, m->kept, r->arena), r->arena), true,
                        e)) ||
        replay(t, r, m->kept + 1, &n_body, e)) {
        tune_loop_free(r->loop);
        r->loop = NULL;
        return -1;
    }
    int64_t last = m->next - 1;
    *out = enter_live(t, m->id, r->loop, last > m->kept ? last : m->kept, m->kept);
    (*out)->n_body = n_body;
    return 0;
}

/* ---- a request ------------------------------------------------------------------------------- */

/* Behind a load the state is written before anybody hears of it: so none is ever run again. */
static int keep_loaded(struct tinker *t, struct tinker_run *r, struct tinker_live **l,
                       struct err *e)
{
    const struct loop_request *q = r->request;
    if (!*l && r->loop)
        *l = enter_live(t, r->model.id, r->loop, q->seq, -1);
    if (q->kind != TINKER_LOAD)
        return 0;
    (*l)->at = q->seq;
    if ((*l)->kept == q->seq) /* a kill came behind the state: it is written again */
        (*l)->kept = -1;
    return keep(t, *l, r->arena, e);
}

static void end_request(struct tinker *t, struct tinker_run *r, enum loop_state state)
{
    struct loop_request q = *r->request;
    q.state = state;
    q.answer = r->answer->data ? r->answer->data : "";
    q.n_answer = r->answer->len;
    q.created = (int64_t)time(NULL);
    const struct loop_end end = {
        .request = &q,
        .model = r->begins && state == LOOP_DONE ? &r->model : NULL,
        .weights = r->weights.path && state == LOOP_DONE ? &r->weights : NULL,
        .sampler = r->sampler.id && state == LOOP_DONE ? &r->sampler : NULL,
        .runs_again = r->changes && state == LOOP_DONE};
    if (tinker_end(t, &end) || !end.weights)
        return;
    if (r->old_dir && strcmp(r->old_dir, r->weights.dir) != 0) {
        struct loop_weights old = {.path = r->weights.path, .dir = r->old_dir};
        tinker_remove(t, &old); /* its name is the new one's */
    }
    tinker_prune(t, q.line);
}

/* Whether the model's state is to be written: much would have to be done again, or is kept for
 * that. */
static bool is_due(struct tinker *t, const struct tinker_live *l, const char *owner)
{
    struct who who;
    int64_t quota = 0, most = KEEP_BYTES;
    if (t->opt.who(t->opt.ctx, owner, &who, &quota) && quota && quota / KEEP_SHARE < most)
        most = quota / KEEP_SHARE;
    return l->spent_us > KEEP_US || l->n_body > most || l->at - l->kept > ANSWERS_KEPT;
}

static bool is_lost(struct tinker *t)
{
    struct err e = ERR_INIT;
    return engine_look(t->opt.engine, &e) != 0;
}

static void run(struct tinker *t, struct tinker_run *r)
{
    const struct loop_request *q = r->request;
    struct tinker_live *l = NULL;
    struct err e = ERR_INIT;
    int64_t begin = clock_us();
    bool had = false;
    if (q->seq == 0)
        make_place(t, r->arena);
    int rc = open_live(t, r, &l, &e);
    if (!rc) {
        had = r->loop && tune_loop_has_gradient(r->loop);
        rc =
            tinker_run(r, &e) || buf_check(r->answer, "the answer", &e) || keep_loaded(t, r, &l, &e)
                ? -1
                : 0;
    }
    if (rc && (atomic_load(&t->stops) || is_lost(t))) /* it is run when the server is back */
        goto done;
    if (rc) {
        bool broke = had && r->loop && !tune_loop_has_gradient(r->loop);
        tinker_fail(r->answer, &e);
        if (!l && r->loop)
            tune_loop_free(r->loop);
        if (l && (q->kind == TINKER_LOAD ||
                  (q->kind == TINKER_STEP && e.code != ERR_DIVERGED && e.code != ERR_BAD_INPUT)))
            close_live(t, q->line), l = NULL, broke = false; /* what it left is not known */
        end_request(t, r, broke ? LOOP_BROKE : LOOP_FAILED);
    } else {
        end_request(t, r, LOOP_DONE);
    }
    if (l) {
        l->at = q->seq;
        l->spent_us += clock_us() - begin;
        l->n_body += r->changes ? (int64_t)q->n_body : 0;
        if (is_due(t, l, q->owner))
            keep_or_say(t, l, r->arena);
    }
    return;
done:
    if (!l && r->loop)
        tune_loop_free(r->loop);
    close_live(t, q->line);
}

static bool bring_on(struct tinker *t, struct arena *a)
{
    struct loop_request q;
    struct err e = ERR_INIT;
    struct buf answer;
    if (store_loop_next(t->opt.store, engine_info(t->opt.engine)->fingerprint, a, &q, &e))
        return false;
    struct tinker_run r = {.all = t, .arena = a, .request = &q, .answer = &answer};
    if (store_loop_model(t->opt.store, NULL, q.line, a, &r.model, &e))
        return false;
    buf_init(&answer, TINKER_ANSWER_BYTES);
    run(t, &r);
    buf_release(&answer);
    return true;
}

/* ---- house ----------------------------------------------------------------------------------- */

static void drop_session(struct tinker *t, const char *id, struct arena *a)
{
    struct loop_model *m;
    struct loop_weights *w;
    struct err e = ERR_INIT;
    size_t n, n_weights;
    if (store_loop_session_models(t->opt.store, id, a, &m, &n, &e))
        return;
    for (size_t i = 0; i < n; i++) {
        close_live(t, m[i].id);
        if (store_loop_weights_list(t->opt.store, NULL, m[i].id, a, &w, &n_weights, &e))
            return;
        for (size_t k = 0; k < n_weights; k++)
            if (!w[k].is_named)
                tinker_remove(t, &w[k]);
    }
    if (store_loop_session_drop(t->opt.store, id, &e))
        return;
    for (size_t i = 0; i < n; i++)
        forget_state(t, m[i].id, m[i].kept, a);
}

static void keep_house(struct tinker *t, struct arena *a)
{
    int64_t now = (int64_t)time(NULL);
    struct err e = ERR_INIT;
    const char *id;
    store_loop_expire(t->opt.store, now - SAMPLE_S, &e);
    tinker_expire(t, now);
    while (!atomic_load(&t->stops) &&
           !store_loop_session_old(t->opt.store, now - SESSION_S, now - BARE_S, a, &id, &e))
        drop_session(t, id, a);
}

static void sleep_for_mail(struct tinker *t)
{
    pthread_mutex_lock(&t->lock);
    if (!t->has_train && !atomic_load(&t->stops))
        clock_cond_wait(&t->train_wake, &t->lock, clock_ns() + TICK_NS);
    t->has_train = false;
    pthread_mutex_unlock(&t->lock);
}

static void leave(struct tinker *t)
{
    struct arena a;
    arena_init(&a, TINKER_ARENA_BYTES);
    for (struct tinker_live *l; (l = t->live); live_free(l)) {
        keep_or_say(t, l, &a);
        t->live = l->next;
        arena_reset(&a);
    }
    arena_release(&a);
}

void *tinker_train(void *arg)
{
    struct tinker *t = arg;
    struct arena a;
    int64_t house_us = 0;
    arena_init(&a, TINKER_ARENA_BYTES);
    while (!atomic_load(&t->stops)) {
        if (clock_us() >= house_us) {
            keep_house(t, &a);
            house_us = clock_us() + HOUSE_US;
        }
        if (!bring_on(t, &a))
            sleep_for_mail(t);
        tinker_tick(t, false);
        arena_reset(&a);
    }
    arena_release(&a);
    leave(t);
    return NULL;
}
