/* SPDX-License-Identifier: Apache-2.0
 *
 * The other ranks, where several share the model. Their comm belongs to the engine's thread: steps
 * use it, and what other threads have to say goes between two steps as an errand, in pieces that
 * are short beside one. Without work the thread pings, so that who is gone is missed then, too.
 *
 * A rank that is gone ends the engine: all works end, nothing is taken any more, and who made the
 * engine is told. So does a device that works no more.
 */
#include "engine/base/log.h"
#include "engine/run/crew.h"
#include "engine/run/lead.h"
#include "engine/serve/engine_own.h"

static bool is_shared(const struct engine *g)
{
    return g->fixed.res.crew != NULL;
}

/* ---- errands --------------------------------------------------------------------------------- */

int ranks_between(struct engine *g, int (*fn)(void *ctx, struct err *e), void *ctx, struct err *e)
{
    struct errand t = {.fn = fn, .ctx = ctx, .err = e};
    pthread_mutex_lock(&g->mail.lock);
    if (!g->mail.runs) {
        bool is_over = g->mail.stops;
        pthread_mutex_unlock(&g->mail.lock);
        return is_over ? err_set(e, ERR_BUSY, "the engine is stopping") : fn(ctx, e);
    }
    *g->mail.errand_end = &t;
    g->mail.errand_end = &t.next;
    atomic_store_explicit(&g->mail.has_mail, true, memory_order_release);
    pthread_cond_signal(&g->mail.wake);
    while (!t.is_done)
        pthread_cond_wait(&g->mail.errand_done, &g->mail.lock);
    pthread_mutex_unlock(&g->mail.lock);
    return t.rc;
}

static void tell_ended(struct engine *g)
{
    struct adapter_news n = {.kind = ADAPTER_GONE};
    struct err e = ERR_INIT;
    while (g->mail.ended.n) {
        n.version = vec_pop(&g->mail.ended);
        pthread_mutex_unlock(&g->mail.lock);
        lead_adapter(g->fixed.res.model, &n,
                     &e); /* what fails is the group's end, seen by ranks_lost */
        pthread_mutex_lock(&g->mail.lock);
    }
}

void ranks_errands(struct engine *g)
{
    if (!is_shared(g))
        return;
    pthread_mutex_lock(&g->mail.lock);
    tell_ended(g);
    while (g->mail.errand) {
        struct errand *t = g->mail.errand;
        g->mail.errand = t->next;
        if (!g->mail.errand)
            g->mail.errand_end = &g->mail.errand;
        pthread_mutex_unlock(&g->mail.lock);
        int rc = t->fn(t->ctx, t->err);
        pthread_mutex_lock(&g->mail.lock);
        t->rc = rc;
        t->is_done = true;
        pthread_cond_broadcast(&g->mail.errand_done);
    }
    pthread_mutex_unlock(&g->mail.lock);
}

void ranks_begin(struct engine *g)
{
    if (is_shared(g))
        ranks_ping(g, true);
}

void ranks_end(struct engine *g)
{
    ranks_errands(g);
    pthread_mutex_lock(&g->mail.lock);
    g->mail.runs = false; /* from here on nobody has an errand */
    pthread_mutex_unlock(&g->mail.lock);
    ranks_errands(g); /* of who came in between */
    if (is_shared(g))
        ranks_ping(g, false);
}

/* ---- adapters -------------------------------------------------------------------------------- */

struct news {
    struct engine *engine;
    const struct adapter_news *news;
};

static int pass_on(void *ctx, struct err *e)
{
    const struct news *n = ctx;
    return lead_adapter(n->engine->fixed.res.model, n->news, e);
}

int ranks_adapter_news(void *ctx, const struct adapter_news *n, struct err *e)
{
    struct engine *g = ctx;
    if (n->kind != ADAPTER_GONE)
        return ranks_between(g, pass_on, &(struct news){g, n}, e);
    pthread_mutex_lock(&g->mail.lock);
    vec_push(&g->mail.ended, n->version);
    atomic_store_explicit(&g->mail.has_mail, true, memory_order_release);
    pthread_mutex_unlock(&g->mail.lock);
    return 0;
}

/* ---- who is gone ----------------------------------------------------------------------------- */

void ranks_ping(struct engine *g, bool goes_on)
{
    struct err e = ERR_INIT;
    lead_ping(g->fixed.res.model, goes_on, &e); /* ranks_lost looks */
}

/* The group that trains beside serving is asked, too: a rank may fail there for reasons of its
 * own. */
static int check_beside(const struct engine *g, struct err *e)
{
    struct comm *c = is_shared(g) ? crew_beside(g->fixed.res.crew) : NULL;
    return c ? comm_check(c, e) : 0;
}

bool ranks_lost(struct engine *g, struct err *e)
{
    return (is_shared(g) && comm_check(g->fixed.res.model->ranks.comm, e)) || check_beside(g, e) ||
           device_check(g->fixed.res.device, e);
}

void ranks_abort(struct engine *g, const struct err *why)
{
    struct comm *c = is_shared(g) ? crew_beside(g->fixed.res.crew) : NULL;
    if (c)
        comm_abort(c, why->msg);
}

const char *ranks_lost_text(struct engine *g)
{
    struct err why = ERR_INIT;
    return device_check(g->fixed.res.device, &why) ? "the device that runs this model is lost"
                                                   : "a rank that shares this model is gone";
}

void ranks_explain(struct engine *g, struct err *e)
{
    struct err why = ERR_INIT;
    if (!ranks_lost(g, &why))
        return;
    e->code = ERR_BUSY;
    err_wrap(e, "%s", ranks_lost_text(g));
}

int engine_look(struct engine *g, struct err *e)
{
    if (!ranks_lost(g, e))
        return 0;
    pthread_mutex_lock(&g->mail.lock);
    g->mail.is_called = true;
    pthread_cond_signal(&g->mail.wake);
    pthread_mutex_unlock(&g->mail.lock);
    return -1;
}

int engine_check(struct engine *g, struct err *e)
{
    pthread_mutex_lock(&g->mail.lock);
    int rc = g->mail.why.code ? err_set(e, g->mail.why.code, "%s", g->mail.why.msg) : 0;
    pthread_mutex_unlock(&g->mail.lock);
    return rc;
}
