/* SPDX-License-Identifier: Apache-2.0
 *
 * Each lane has its list and its threads; a thread takes of the tasks whose time has come the first
 * one of the tenant whose turn it is, and sleeps until the next one's time otherwise.
 *
 * A turn advances its tenant's clock by a step over its weight, and the least clock is next. Who
 * comes anew begins a turn behind the clock of who was last served, as if it had just had one.
 */
#include "engine/base/background.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"

enum { STEP = 1 << 20 };

struct tenant {
    uint64_t id, clock, step;
    size_t n_task, n_bytes; /* that wait and that run */
    struct tenant *next;
};

struct item {
    struct background_task task;
    struct tenant *of; /* borrowed from the lane: it is there as long as it has tasks */
    int64_t due_us;
    bool runs;
    struct item *next;
};

struct lane {
    struct background_lane is;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct item *first, **last; /* owned: those that wait and that run */
    struct tenant *tenant;      /* owned: those with tasks */
    uint64_t clock;             /* of who was last served, as it was before */
    size_t n_task, n_bytes;     /* that wait and that run */
    bool stops;
    pthread_t *thread; /* owned: [n_thread] */
    int n_thread;
};

struct background {
    size_t n_lane;
    struct lane lane[];
};

/* ---- a lane's threads ---------------------------------------------------------------------- */

static void put(struct lane *l, struct item *t)
{
    t->next = NULL;
    *l->last = t;
    l->last = &t->next;
    pthread_cond_signal(&l->wake);
}

/* Whoever waits or runs is in the list. */
static void unlink_item(struct lane *l, struct item *t)
{
    struct item **at = &l->first;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (l->last == &t->next)
        l->last = at;
}

/* That of the tenant whose turn it is; else NULL, and when the first one's time comes. */
static struct item *take(struct lane *l, int64_t *until_us)
{
    int64_t now = clock_us();
    struct item *found = NULL;
    *until_us = INT64_MAX / 1000;
    for (struct item *t = l->first; t; t = t->next) {
        if (t->runs)
            continue;
        if (t->due_us > now)
            *until_us = t->due_us < *until_us ? t->due_us : *until_us;
        else if (!found || t->of->clock < found->of->clock)
            found = t;
    }
    if (!found)
        return NULL;
    found->runs = true;
    l->clock = found->of->clock;
    found->of->clock += found->of->step;
    return found;
}

/* Whoever it is, with one task more of so many bytes. */
static struct tenant *tenant_of(struct lane *l, const struct background_task *t)
{
    struct tenant *of = l->tenant;
    while (of && of->id != t->tenant)
        of = of->next;
    if (!of) {
        of = xcalloc(1, sizeof *of);
        *of = (struct tenant){.id = t->tenant, .next = l->tenant};
        of->step = STEP / (uint64_t)(t->weight > 0 ? t->weight : 1);
        of->clock = l->clock + of->step;
        l->tenant = of;
    }
    of->n_task++;
    of->n_bytes += t->bytes;
    return of;
}

static void forget(struct lane *l, struct item *t)
{
    struct tenant *of = t->of, **at = &l->tenant;
    unlink_item(l, t);
    l->n_task--;
    l->n_bytes -= t->task.bytes;
    of->n_bytes -= t->task.bytes;
    free(t);
    if (--of->n_task > 0)
        return;
    while (*at != of)
        at = &(*at)->next;
    *at = of->next;
    free(of);
}

static void drop(struct item *t)
{
    if (t->task.drop)
        t->task.drop(t->task.ctx);
}

/* Where it got nothing in its turn that comes again, before those of others. */
static void wait_again(struct lane *l, struct item *t, int64_t due_us)
{
    t->due_us = due_us;
    t->runs = false;
    if (t->task.keeps_turn) {
        t->of->clock -= t->of->step;
        pthread_cond_signal(&l->wake);
        return;
    }
    unlink_item(l, t);
    put(l, t);
}

static void run(struct lane *l, struct item *t)
{
    pthread_mutex_unlock(&l->lock);
    int64_t again = t->task.run(t->task.ctx);
    pthread_mutex_lock(&l->lock);
    if (again != BACKGROUND_DONE && !l->stops) {
        wait_again(l, t, again);
        return;
    }
    if (again != BACKGROUND_DONE) {
        pthread_mutex_unlock(&l->lock);
        drop(t);
        pthread_mutex_lock(&l->lock);
    }
    forget(l, t);
}

static void *lane_main(void *arg)
{
    struct lane *l = arg;
    /* jemalloc makes what it keeps for a thread at the thread's first call, and crashes where there
     * is no memory for it: a lane's first task may come when there is little left */
    free(xmalloc(1));
    pthread_mutex_lock(&l->lock);
    while (!l->stops) {
        int64_t until_us;
        struct item *t = take(l, &until_us);
        if (t)
            run(l, t);
        else
            clock_cond_wait(&l->wake, &l->lock, until_us * 1000);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- making and ending --------------------------------------------------------------------- */

static int start(struct lane *l, struct err *e)
{
    sigset_t all, before; /* signals are for the threads that expect them */
    int rc = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; !rc && l->n_thread < l->is.at_once; l->n_thread += rc == 0) {
        rc = pthread_create(&l->thread[l->n_thread], NULL, lane_main, l);
        if (!rc)
            pthread_setname_np(l->thread[l->n_thread], l->is.name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = rc;
    return rc ? err_sys(e, "starting a thread for %s", l->is.name) : 0;
}

struct background *background_new(const struct background_lane *lane, size_t n_lane, struct err *e)
{
    struct background *b = xcalloc(1, sizeof *b + n_lane * sizeof *b->lane);
    int rc = 0;
    for (size_t i = 0; i < n_lane; i++) {
        struct lane *l = &b->lane[b->n_lane++];
        l->is = lane[i];
        l->last = &l->first;
        l->thread = xcalloc((size_t)lane[i].at_once, sizeof *l->thread);
        pthread_mutex_init(&l->lock, NULL);
        clock_cond_init(&l->wake);
    }
    for (size_t i = 0; i < n_lane && !rc; i++)
        rc = start(&b->lane[i], e);
    if (!rc)
        return b;
    background_free(b);
    return NULL;
}

static void stop(struct lane *l)
{
    pthread_mutex_lock(&l->lock);
    l->stops = true;
    pthread_cond_broadcast(&l->wake);
    pthread_mutex_unlock(&l->lock);
    for (; l->n_thread > 0; l->n_thread--)
        pthread_join(l->thread[l->n_thread - 1], NULL);
    while (l->first) { /* nobody else looks at it any more */
        drop(l->first);
        forget(l, l->first);
    }
}

void background_stop(struct background *b)
{
    for (size_t i = 0; i < b->n_lane; i++)
        stop(&b->lane[i]);
}

void background_free(struct background *b)
{
    if (!b)
        return;
    background_stop(b);
    for (size_t i = 0; i < b->n_lane; i++) {
        free(b->lane[i].thread);
        pthread_cond_destroy(&b->lane[i].wake);
        pthread_mutex_destroy(&b->lane[i].lock);
    }
    free(b);
}

/* ---- giving -------------------------------------------------------------------------------- */

static int make_room(struct lane *l, const struct background_task *t, struct err *e)
{
    const struct background_lane *is = &l->is;
    const struct tenant *of = l->tenant;
    size_t part = t->tenant ? 2 : 1;
    while (of && of->id != t->tenant)
        of = of->next;
    size_t n_own = of ? of->n_task : 0, own = of ? of->n_bytes : 0;
    if (l->stops)
        return err_set(e, ERR_BUSY, "%s: the server is stopping", is->name);
    if ((is->max_tasks && l->n_task >= is->max_tasks) ||
        (is->max_bytes && l->n_task && l->n_bytes + t->bytes > is->max_bytes))
        return err_set(e, ERR_BUSY, "%s: %zu tasks of %zu bytes are waiting already; try again",
                       is->name, l->n_task, l->n_bytes);
    if ((is->max_tasks && n_own >= (is->max_tasks + part - 1) / part) ||
        (is->max_bytes && n_own && own + t->bytes > is->max_bytes / part))
        return err_set(e, ERR_BUSY,
                       "%s: %zu tasks of %zu bytes of yours are waiting already, which is your "
                       "part; try again",
                       is->name, n_own, own);
    l->n_task++;
    l->n_bytes += t->bytes;
    return 0;
}

int background_give(struct background *b, size_t lane, const struct background_task *t,
                    struct err *e)
{
    struct lane *l = &b->lane[lane];
    struct item *item = xcalloc(1, sizeof *item);
    item->task = *t;
    pthread_mutex_lock(&l->lock);
    int rc = make_room(l, t, e);
    if (!rc) {
        item->of = tenant_of(l, t);
        put(l, item);
    }
    pthread_mutex_unlock(&l->lock);
    if (rc)
        free(item);
    return rc;
}
