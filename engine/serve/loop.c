/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's thread. Each round takes in what was submitted, drops what was cancelled or waited
 * too long, and runs one step for all (flight.c); without work the thread sleeps and costs nothing.
 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/gate.h"
#include "engine/base/log.h"
#include "engine/serve/engine_own.h"

enum { EXPIRE_EVERY_US = 10000 };

/* ---- taking in and dropping ---------------------------------------------------------------- */

/* The works of one group, which stand one behind the other; returns the first of the next. */
static struct work *take_group(struct engine *g, struct work *w)
{
    struct group *group = w->group;
    struct work *next = w, *first = w;
    struct err e = ERR_INIT;
    int64_t n = 0, now;
    while ((w = next) != NULL && w->group == group) {
        next = w->next;
        work_list_add(&g->own.live, w);
        g->own.looks |= answer_is_cancelled(w->answer); /* the bell may have rung for it already */
        g->own.seq[n++] = &w->seq;
    }
    if (!sched_submit(g->own.sched, g->own.seq, n, &e))
        return next;
    now = clock_us();
    for (w = first; n-- > 0; w = first) {
        first = w->next;
        work_fail(g, w, &e, now);
    }
    return next;
}

static void take_mail(struct engine *g)
{
    if (!atomic_load_explicit(&g->mail.has_mail, memory_order_acquire))
        return;
    pthread_mutex_lock(&g->mail.lock);
    while (g->mail.gone.n)
        sched_forget(g->own.sched, vec_pop(&g->mail.gone));
    struct work *w = g->mail.inbox.first;
    g->mail.inbox = (struct work_list){0};
    atomic_store_explicit(&g->mail.has_mail, false, memory_order_relaxed);
    atomic_store_explicit(&g->mail.is_wanted, false, memory_order_relaxed);
    pthread_mutex_unlock(&g->mail.lock);
    ranks_errands(g);
    while (w)
        w = take_group(g, w);
}

static void drop(struct engine *g, struct work *w, int64_t now)
{
    work_let_go(g, w);
    work_end(g, w, GEN_CANCELLED, now);
}

static void drop_cancelled(struct engine *g, int64_t now)
{
    struct work *next;
    if (!answer_bell_rang(g->fixed.bell) && !g->own.looks)
        return;
    g->own.looks = false;
    for (struct work *w = g->own.live.first; w; w = next) {
        next = w->next;
        if (answer_is_cancelled(w->answer))
            drop(g, w, now);
    }
}

static void drop_expired(struct engine *g, int64_t now)
{
    struct work *next;
    struct err e = ERR_INIT;
    if (g->fixed.queue_timeout_us <= 0 || now < g->own.expire_us)
        return;
    g->own.expire_us = now + EXPIRE_EVERY_US;
    err_set(&e, ERR_BUSY, "waited %lld ms in the queue without a place: try again later",
            (long long)(g->fixed.queue_timeout_us / 1000));
    for (struct work *w = g->own.live.first; w; w = next) {
        next = w->next;
        if (w->has_begun || w->seq.is_idle || now - w->submit_us < g->fixed.queue_timeout_us)
            continue;
        work_let_go(g, w);
        work_fail(g, w, &e, now);
    }
}

/* ---- the round ----------------------------------------------------------------------------- */

static void put_stat(struct engine *g, int64_t now)
{
    struct sched_stat s = sched_stat(g->own.sched);
    atomic_store_explicit(&g->told.heartbeat_us, now, memory_order_relaxed);
    pthread_mutex_lock(&g->told.lock);
    g->told.stat = (struct engine_stat){.n_running = s.n_running,
                                        .n_step = g->own.n_step,
                                        .n_given_up = g->own.n_given_up,
                                        .step_us = g->own.step_us,
                                        .n_seq_last = g->own.n_seq_last,
                                        .n_seq_all = g->own.n_seq_all,
                                        .cell_used = s.cell_used,
                                        .cell_kept = s.cell_kept,
                                        .cell_all = s.cell_all,
                                        .tok_prompt = g->own.tok_prompt,
                                        .tok_new = g->own.tok_new,
                                        .preempted = s.preempted,
                                        .prefix_asked = s.prefix_asked,
                                        .prefix_hit = s.prefix_hit,
                                        .tok_drafted = g->own.tok_drafted,
                                        .tok_accepted = g->own.tok_accepted};
    memcpy(g->told.stat.n_of_size, g->own.n_of_size, sizeof g->own.n_of_size);
    pthread_mutex_unlock(&g->told.lock);
}

/* Who reads the figures after an answer's end finds it counted. */
static void tell(struct engine *g)
{
    put_stat(g, clock_us());
    engine_tell(g);
}

void engine_end_all(struct engine *g)
{
    take_mail(g);
    for (struct work *w; (w = g->own.live.first) != NULL;)
        drop(g, w, clock_us());
    tell(g);
}

/* A rank is gone, or the device: everybody hears of it, the engine's owner first. */
static void fall(struct engine *g, const struct err *why)
{
    struct err e = *why;
    int64_t now = clock_us();
    pthread_mutex_lock(&g->mail.lock);
    g->mail.why = *why;
    g->mail.stops = true;
    pthread_mutex_unlock(&g->mail.lock);
    ranks_abort(g, why);
    if (g->fixed.broke)
        g->fixed.broke(g->fixed.broke_ctx);
    ranks_explain(g, &e);
    take_mail(g);
    for (struct work *w; (w = g->own.live.first) != NULL;) {
        work_let_go(g, w);
        work_fail(g, w, &e, now);
    }
}

static bool has_mail(const struct engine *g)
{
    return g->mail.inbox.first || g->mail.errand || g->mail.stops || g->mail.is_called;
}

/* Until there is mail, or, where others miss us, for a while; false: nothing came. */
static bool wait_for_mail(struct engine *g)
{
    int64_t until_ns = clock_ns() + RANKS_PING_US * INT64_C(1000);
    while (!has_mail(g))
        if (!g->fixed.res.crew)
            pthread_cond_wait(&g->mail.wake, &g->mail.lock);
        else if (!clock_cond_wait(&g->mail.wake, &g->mail.lock, until_ns))
            return has_mail(g);
    return true;
}

/* Until there is mail, or a ping is due; false: the engine stops. */
static bool sleep_for_mail(struct engine *g)
{
    bool came = true;
    pthread_mutex_lock(&g->mail.lock);
    if (!has_mail(g)) {
        gate_active(g->fixed.gate, -1);
        atomic_store_explicit(&g->told.is_idle, true, memory_order_relaxed);
        g->mail.is_asleep = true;
        came = wait_for_mail(g);
        g->mail.is_asleep = false;
        atomic_store_explicit(&g->told.is_idle, false, memory_order_relaxed);
        gate_active(g->fixed.gate, 1);
    }
    bool goes_on = !g->mail.stops;
    pthread_mutex_unlock(&g->mail.lock);
    if (!came)
        ranks_ping(g, true);
    return goes_on;
}

static bool is_stopped(struct engine *g)
{
    return atomic_load_explicit(&g->mail.stops, memory_order_relaxed);
}

void *engine_main(void *arg)
{
    struct engine *g = arg;
    struct sched_step step;
    struct err lost = ERR_INIT;
    bool goes_on = true;
    gate_active(g->fixed.gate, 1);
    ranks_begin(g);
    while (goes_on && !is_stopped(g)) {
        int64_t now = clock_us();
        take_mail(g);
        drop_cancelled(g, now);
        drop_expired(g, now);
        tell(g);
        if (sched_next(g->own.sched, &step)) {
            flight_round(g, &step);
            tell(g);
        } else if (g->own.up) {
            flight_land(g);
            tell(g);
        } else {
            ASSERT(!g->own.live.first); /* whoever was let in can run when nobody else does */
            put_stat(g, clock_us()); /* those that ended like others were let go behind the last */
            goes_on = sleep_for_mail(g);
        }
        if (goes_on && ranks_lost(g, &lost)) {
            if (g->own.up)
                flight_land(g);
            fall(g, &lost);
            goes_on = false;
        }
    }
    if (g->own.up)
        flight_land(g);
    gate_active(g->fixed.gate, -1);
    engine_end_all(g);
    ranks_end(g);
    return NULL;
}
