/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that wait for what a request comes to. The store is looked into on the lane of background
 * work; while a request waits its calls are in a list, and cost nothing until it ends, or the
 * client has waited long enough to be asked to come again.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/background.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "server/tinker/tinker_own.h"

enum { LONG_US = 20 * 1000 * 1000 };

struct tinker_wait {
    struct tinker *all;
    struct call *call; /* counted until it is told */
    const char *id;
    int64_t until_us;
    struct buf out;
    struct api_error error; /* status 0: none */
    bool is_wire;
    atomic_bool is_told, is_gone;
    struct tinker_wait *next; /* under the lock of all */
};

static void tell(struct tinker_wait *w)
{
    struct call *c = w->call;
    atomic_store(&w->is_told, true);
    call_wake(c);
    call_unref(c);
}

static void say_later(struct tinker_wait *w, int status)
{
    if (status == 503) {
        api_fail(&w->error, 503, "shutting_down", NULL, "The server is being stopped.");
        w->error.retry_after_s = 1;
    } else {
        api_fail(&w->error, 408, "try_again", NULL,
                 "The request has not come to its end yet: ask again.");
    }
}

/* Into the list; false: it has come to something meanwhile. */
static bool enlist(struct tinker_wait *w)
{
    struct tinker *t = w->all;
    pthread_mutex_lock(&t->lock);
    bool is_open = map_get_str(&t->open, w->id) != NULL && !atomic_load(&t->leaves);
    if (is_open) {
        w->next = t->wait;
        t->wait = w;
    }
    pthread_mutex_unlock(&t->lock);
    return is_open;
}

static void take_answer(struct tinker_wait *w, const struct loop_request *r)
{
    w->is_wire = r->state == LOOP_DONE && (r->kind == TINKER_PASS || r->kind == TINKER_SAMPLE);
    buf_add(&w->out, r->answer ? r->answer : "", r->n_answer);
}

static int64_t look(void *ctx)
{
    struct tinker_wait *w = ctx;
    struct loop_request r;
    struct err e = ERR_INIT;
    struct arena a;
    int64_t again = BACKGROUND_DONE;
    bool is_told = true;
    arena_init(&a, TINKER_ARENA_BYTES);
    const char *owner = call_request(w->call)->who->name;
    if (store_loop_get(w->all->opt.store, owner, w->id, &a, &r, &e)) {
        if (e.code == ERR_NOT_FOUND)
            api_fail(&w->error, 410, "request_gone", "request_id",
                     "This key has no request of this id, or its answer is not kept any more.");
        else
            api_fail_err(&w->error, &e, NULL);
    } else if (r.state != LOOP_WAITS) {
        take_answer(w, &r);
    } else if (enlist(w)) {
        is_told = false;
    } else if (atomic_load(&w->all->leaves)) {
        say_later(w, 503);
    } else {
        is_told = false;
        again = clock_us();
    }
    arena_release(&a);
    if (is_told)
        tell(w);
    return again;
}

static void drop(void *ctx)
{
    struct tinker_wait *w = ctx;
    say_later(w, 503);
    tell(w);
}

static void give(struct tinker_wait *w)
{
    const struct who *who = call_request(w->call)->who;
    const struct background_task task = {
        .run = look, .drop = drop, .ctx = w, .tenant = who->tenant, .weight = who->weight};
    struct err e = ERR_INIT;
    if (background_give(w->all->opt.work, w->all->opt.lane, &task, &e))
        drop(w);
}

static void step(struct call *c, void *ctx)
{
    struct tinker_wait *w = ctx;
    struct err why = ERR_INIT;
    if (!atomic_load(&w->is_told))
        return;
    if (!w->error.status && buf_check(&w->out, "the answer", &why))
        api_fail_err(&w->error, &why, NULL);
    if (w->error.status)
        call_error(c, &w->error);
    else
        call_reply(c, 200, w->is_wire ? "application/x-protobuf" : "application/json", &w->out);
}

static void gone(void *ctx)
{
    struct tinker_wait *w = ctx;
    atomic_store(&w->is_gone, true);
}

static void done(void *ctx)
{
    struct tinker_wait *w = ctx;
    buf_release(&w->out);
    free(w);
}

void tinker_tell(struct tinker *t, struct call *c, const char *id)
{
    struct tinker_wait *w = xcalloc(1, sizeof *w);
    w->all = t;
    w->call = call_ref(c);
    w->id = id;
    w->until_us = clock_us() + LONG_US;
    buf_init(&w->out, TINKER_ANSWER_BYTES);
    call_wait(c, &(struct call_later){.step = step, .gone = gone, .done = done, .ctx = w});
    give(w);
}

/* Takes those out that fit, as a list of their own. */
static struct tinker_wait *take(struct tinker *t, const char *id, int64_t now, bool all)
{
    struct tinker_wait *out = NULL;
    for (struct tinker_wait **at = &t->wait, *w; (w = *at);) {
        bool fits =
            id ? strcmp(w->id, id) == 0 : all || w->until_us <= now || atomic_load(&w->is_gone);
        if (!fits) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = out;
        out = w;
    }
    return out;
}

void tinker_told(struct tinker *t, const char *id)
{
    pthread_mutex_lock(&t->lock);
    map_del_str(&t->open, id);
    struct tinker_wait *list = take(t, id, 0, false);
    pthread_mutex_unlock(&t->lock);
    for (struct tinker_wait *next; list; list = next) {
        next = list->next;
        give(list);
    }
}

void tinker_tick(struct tinker *t, bool all)
{
    pthread_mutex_lock(&t->lock);
    struct tinker_wait *list = take(t, NULL, clock_us(), all);
    pthread_mutex_unlock(&t->lock);
    for (struct tinker_wait *next; list; list = next) {
        next = list->next;
        say_later(list, all ? 503 : 408);
        tell(list);
    }
}
