/* SPDX-License-Identifier: Apache-2.0
 *
 * Each thread takes the next sample as long as there is one. The first that fails ends the others,
 * and is what is told; threads live as long as the step's grading.
 */
#include "engine/train/grading.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"

enum { LOOK_NS = 100 * 1000 * 1000 };

struct run {
    const struct grading *g; /* borrowed */
    atomic_llong next;
    atomic_bool ends;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t wake;
    int64_t n_working; /* threads */
    bool has_failed;
    struct err why;
};

static void fail(struct run *r, const struct err *why)
{
    pthread_mutex_lock(&r->lock);
    if (!r->has_failed)
        r->why = *why;
    r->has_failed = true;
    pthread_mutex_unlock(&r->lock);
    atomic_store(&r->ends, true);
}

static void *work(void *arg)
{
    struct run *r = arg;
    while (!atomic_load(&r->ends)) {
        struct err e = ERR_INIT;
        int64_t i = atomic_fetch_add(&r->next, 1);
        if (i >= r->g->n)
            break;
        if (r->g->grade(r->g->ctx, i, &r->ends, &e))
            fail(r, &e);
    }
    pthread_mutex_lock(&r->lock);
    r->n_working--;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static int64_t begin(struct run *r, pthread_t *thread, int64_t n)
{
    int64_t n_begun = 0;
    for (; n_begun < n; n_begun++) {
        pthread_mutex_lock(&r->lock);
        r->n_working++;
        pthread_mutex_unlock(&r->lock);
        errno = pthread_create(&thread[n_begun], NULL, work, r);
        if (errno == 0)
            continue;
        struct err e = ERR_INIT;
        err_sys(&e, "starting to grade");
        fail(r, &e);
        pthread_mutex_lock(&r->lock);
        r->n_working--;
        pthread_mutex_unlock(&r->lock);
        break;
    }
    return n_begun;
}

/* Until no thread works any more; whether it was to end. */
static bool watch(struct run *r)
{
    bool is_ended = false, works = true;
    while (works) {
        pthread_mutex_lock(&r->lock);
        if (r->n_working)
            clock_cond_wait(&r->wake, &r->lock, clock_ns() + LOOK_NS);
        works = r->n_working > 0;
        pthread_mutex_unlock(&r->lock);
        if (works && !is_ended && r->g->is_to_end(r->g->ctx)) {
            is_ended = true;
            atomic_store(&r->ends, true);
        }
    }
    return is_ended;
}

int grading_run(const struct grading *g, bool *is_ended, struct err *e)
{
    struct run r = {.g = g, .why = ERR_INIT};
    int64_t n = g->at_once < 1 ? 1 : g->at_once < g->n ? g->at_once : g->n;
    pthread_t *thread = xcalloc((size_t)n, sizeof *thread);
    pthread_mutex_init(&r.lock, NULL);
    clock_cond_init(&r.wake);
    int64_t n_begun = begin(&r, thread, n);
    *is_ended = watch(&r);
    for (int64_t i = 0; i < n_begun; i++)
        pthread_join(thread[i], NULL);
    pthread_cond_destroy(&r.wake);
    pthread_mutex_destroy(&r.lock);
    free(thread);
    if (r.has_failed)
        *e = r.why;
    return r.has_failed ? -1 : 0;
}
