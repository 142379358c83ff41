/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that is served here, asked as a client of its owner would: by a call that no connection
 * made. What the engine has no room for is asked again.
 */
#include <pthread.h>
#include <string.h>

#include "engine/base/clock.h"
#include "server/graders/graders_own.h"
#include "server/http/inside.h"
#include "server/http/route.h"

enum { LOOK_NS = 50 * 1000 * 1000, REST_MS = 200, GOOD = 200, BUSY = 503, SAID_BYTES = 300 };

/* One call; it is the asking thread's until its `freed`. */
struct here {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_woken, is_freed;
};

static void woken(void *ctx)
{
    struct here *h = ctx;
    pthread_mutex_lock(&h->lock);
    h->is_woken = true;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
}

static void freed(void *ctx)
{
    struct here *h = ctx;
    pthread_mutex_lock(&h->lock);
    h->is_freed = true;
    pthread_cond_signal(&h->wake);
    pthread_mutex_unlock(&h->lock);
}

/* Until the call has news, or it is time to look around. */
static void wait_news(struct here *h)
{
    pthread_mutex_lock(&h->lock);
    if (!h->is_woken)
        clock_cond_wait(&h->wake, &h->lock, clock_ns() + LOOK_NS);
    h->is_woken = false;
    pthread_mutex_unlock(&h->lock);
}

static void wait_freed(struct here *h)
{
    pthread_mutex_lock(&h->lock);
    while (!h->is_freed)
        pthread_cond_wait(&h->wake, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static int run_call(struct graders *g, const struct grader_question *q, int64_t until_us,
                    struct inside_answer *a, struct err *e)
{
    struct here h = {.is_woken = true};
    struct who who;
    int64_t unused;
    struct buf body;
    if (!g->opt.who(g->opt.ctx, q->owner, &who, &unused))
        return err_set(e, ERR_IO, "a model is asked under a key that was taken away");
    who.name = q->owner;
    who.rule = NULL; /* as of batches: limits are those of the door */
    buf_init(&body, q->n_body + 1);
    buf_add(&body, q->body, q->n_body);
    if (buf_check(&body, "a grader's question", e)) {
        buf_release(&body);
        return -1;
    }
    pthread_mutex_init(&h.lock, NULL);
    clock_cond_init(&h.wake);
    const struct inside_ask ask = {
        .route = route_find(routes, n_routes, "POST", "/v1/chat/completions").route,
        .who = &who,
        .id = "grader",
        .body = &body,
        .woken = woken,
        .freed = freed,
        .ctx = &h};
    struct call *c = inside_begin(g->opt.http, &ask);
    bool has = inside_look(c, a);
    while (!has && !grader_is_ended(q) && clock_us() < until_us) {
        wait_news(&h);
        has = inside_look(c, a);
    }
    inside_drop(c);
    wait_freed(&h);
    pthread_cond_destroy(&h.wake);
    pthread_mutex_destroy(&h.lock);
    return has ? 0 : err_set(e, ERR_BUSY, "the model did not answer in time");
}

int grader_ask_here(struct graders *g, const struct grader_question *q, int64_t until_us,
                    struct buf *out, struct err *e)
{
    for (;;) {
        struct inside_answer a;
        if (run_call(g, q, until_us, &a, e))
            return -1;
        if (a.status == GOOD)
            buf_add(out, a.body.data, a.body.len);
        else
            err_set(e, a.status == BUSY ? ERR_BUSY : ERR_BAD_INPUT,
                    "the model answers with status %d: %.*s", a.status,
                    (int)(a.body.len < SAID_BYTES ? a.body.len : SAID_BYTES),
                    a.body.data ? a.body.data : "");
        buf_release(&a.body);
        if (a.status == GOOD)
            return buf_check(out, "the model's answer", e);
        if (a.status != BUSY || !grader_rest(q, REST_MS, until_us))
            return -1;
    }
}
