/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread and the data directory. Errands wait in one list; those that asked to be run again
 * have a time before which they are not looked at.
 */
#include "server/desk/desk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "server/desk/desk_own.h"
#include "server/jobs/jobs.h"

enum { AGAIN_US = 100 * 1000, KEEP_HOUSE_US = 60 * 1000 * 1000, FULL_BYTES = 256 << 10 };

/* ---- the thread ---------------------------------------------------------------------------- */

/* The first errand whose time has come; else NULL and when to look again. Under the lock. */
static struct errand *take(struct desk *d, int64_t now, int64_t *until_us)
{
    for (struct errand **at = &d->first; *at; at = &(*at)->next) {
        struct errand *t = *at;
        if (t->due_us <= now) {
            *at = t->next;
            if (d->last == &t->next)
                d->last = at;
            t->next = NULL;
            return t;
        }
        if (t->due_us < *until_us)
            *until_us = t->due_us;
    }
    return NULL;
}

static void put(struct desk *d, struct errand *t)
{
    t->next = NULL;
    *d->last = t;
    d->last = &t->next;
}

/* Runs it, without the lock, and brings to the other side what came of it. */
static void run(struct desk *d, struct errand *t)
{
    struct api_error e = {0};
    bool is_full = t->ready.len > FULL_BYTES;
    pthread_mutex_unlock(&d->lock);
    enum errand_end end = is_full ? ERRAND_AGAIN : t->work(t, &e);
    t->n_run++;
    pthread_mutex_lock(&d->lock);
    if (t->is_stream && t->out.len) {
        buf_add(&t->ready, t->out.data, t->out.len);
        buf_clear(&t->out);
    }
    t->end = end;
    t->error = e;
    if (end == ERRAND_AGAIN && !t->is_gone && !d->stops) {
        t->due_us = clock_us() + AGAIN_US;
        put(d, t);
        if (t->ready.len)
            call_wake(t->call);
        return;
    }
    pthread_mutex_unlock(&d->lock);
    call_wake(t->call);
    call_unref(t->call); /* t may be gone */
    pthread_mutex_lock(&d->lock);
}

static void *desk_main(void *arg)
{
    struct desk *d = arg;
    int64_t house_us = clock_us();
    pthread_mutex_lock(&d->lock);
    while (!d->stops) {
        int64_t now = clock_us(), until_us = house_us;
        struct errand *t = take(d, now, &until_us);
        if (t) {
            run(d, t);
        } else if (house_us <= now) {
            pthread_mutex_unlock(&d->lock);
            desk_keep_house(d);
            house_us = clock_us() + KEEP_HOUSE_US;
            pthread_mutex_lock(&d->lock);
        } else {
            clock_cond_wait(&d->wake, &d->lock, until_us * 1000);
        }
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

void desk_put(struct desk *d, struct errand *t)
{
    pthread_mutex_lock(&d->lock);
    put(d, t);
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
}

/* ---- the data directory -------------------------------------------------------------------- */

struct desk *desk_new(const struct desk_options *o, struct err *e)
{
    struct desk *d = xcalloc(1, sizeof *d);
    d->opt = *o;
    d->last = &d->first;
    pthread_mutex_init(&d->lock, NULL);
    clock_cond_init(&d->wake);
    d->store = fs_mkdirs(o->dir, e) ? NULL : store_new(o->dir, e);
    if (d->store && !desk_sweep(d, e))
        return d;
    err_wrap(e, "--data-dir");
    desk_free(d);
    return NULL;
}

int desk_open(struct desk *d, struct engine *g, struct err *e)
{
    struct jobs_options o = {.engine = g,
                             .store = d->store,
                             .metrics = d->opt.metrics,
                             .dir = d->opt.dir,
                             .min_examples = d->opt.min_examples,
                             .train_memory = d->opt.train_memory};
    d->engine = g;
    d->jobs = jobs_new(&o, e);
    if (!d->jobs)
        return -1;
    if (pthread_create(&d->thread, NULL, desk_main, d))
        return err_set(e, ERR_NO_MEMORY, "the desk's thread cannot be started");
    d->has_thread = true;
    atomic_store(&d->is_open, true);
    return 0;
}

void desk_stop(struct desk *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stops = true;
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
    if (d->has_thread)
        pthread_join(d->thread, NULL);
    d->has_thread = false;
    jobs_free(d->jobs);
    d->jobs = NULL;
}

void desk_free(struct desk *d)
{
    if (!d)
        return;
    desk_stop(d);
    for (struct errand *t = d->first, *next; t; t = next) {
        next = t->next;
        call_unref(t->call);
    }
    store_free(d->store);
    pthread_cond_destroy(&d->wake);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

bool desk_is_open(const struct desk *d)
{
    return atomic_load(&d->is_open);
}

const struct desk_options *desk_options(const struct desk *d)
{
    return &d->opt;
}

struct store *desk_store(struct desk *d)
{
    return d->store;
}

struct engine *desk_engine(struct desk *d)
{
    return d->engine;
}

void desk_wake_jobs(struct desk *d)
{
    jobs_wake(d->jobs);
}

char *desk_file_path(const struct desk *d, const char *id)
{
    return jobs_path(d->opt.dir, "files", id);
}

/* ---- claims -------------------------------------------------------------------------------- */

void desk_claim_begin(struct desk *d, struct desk_claim *c, const char *owner)
{
    pthread_mutex_lock(&d->lock);
    *c = (struct desk_claim){.owner = owner, .next = d->claim};
    d->claim = c;
    pthread_mutex_unlock(&d->lock);
}

int desk_claim_grow(struct desk *d, struct desk_claim *c, int64_t n, struct api_error *e)
{
    int64_t all = n, most = d->opt.quota;
    if (most == 0)
        return 0;
    pthread_mutex_lock(&d->lock);
    for (const struct desk_claim *x = d->claim; x; x = x->next)
        if (strcmp(x->owner, c->owner) == 0)
            all += x->bytes;
    /* who is refused holds nothing from here on: it must not refuse the next one, too */
    c->bytes = all <= most ? c->bytes + n : 0;
    pthread_mutex_unlock(&d->lock);
    return all <= most ? 0
                       : api_fail(e, 400, "files_quota_exceeded", "file",
                                  "This key's uploads under way have more than the %lld bytes that "
                                  "its files may have.",
                                  (long long)most);
}

void desk_claim_end(struct desk *d, struct desk_claim *c)
{
    pthread_mutex_lock(&d->lock);
    for (struct desk_claim **at = &d->claim; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&d->lock);
}
