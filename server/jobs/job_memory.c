/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job takes of the memory, before it takes it: planned by the engine, told to its owner.
 *
 * Jobs that train at once share what is free, where the operator does not say what each may take.
 * One takes an equal part where that is enough, so that others find theirs, else what is left. One
 * that fits in no less than others have yet to give back waits for them, and who comes later waits
 * behind it: so small jobs cannot keep a large one out for ever.
 */
#include <stdio.h>

#include "engine/base/clock.h"
#include "server/jobs/jobs_own.h"
#include "server/metrics/metrics.h"

enum { DATA_BYTES = 1024, LOOK_NS = 1000000000 };

static const char *data_of(const struct job_run *r, const struct train_plan *p)
{
    char text[DATA_BYTES];
    snprintf(text, sizeof text,
             "{\"memory\":{\"total\":%zu,\"limit\":%zu,\"weights\":%zu,\"values\":%zu,"
             "\"gradients\":%zu,\"moments\":%zu,\"inputs\":%zu,\"activations\":%zu,"
             "\"logits\":%zu,\"rows\":%zu,\"total_without_checkpointing\":%zu,"
             "\"total_with_checkpointing\":%zu},\"activation_checkpointing\":%s}",
             p->total, p->limit, p->weights, p->values, p->gradients, p->moments, p->inputs,
             p->activations, p->logits, p->host, p->total_plain, p->total_recomputed,
             p->recomputes ? "true" : "false");
    return arena_strdup(r->arena, text);
}

/* ---- among others -------------------------------------------------------------------------- */

bool job_is_over(const struct job_run *r, bool asked)
{
    struct arena a;
    struct job now;
    struct err unknown = ERR_INIT;
    arena_init(&a, 0);
    bool is_known = !store_job_get(r->jobs->opt.store, r->job.owner, r->job.id, &a, &now, &unknown);
    bool is_wanted =
        is_known && now.state == r->job.state && !(asked && (now.wants_cancel || now.wants_pause));
    arena_release(&a);
    return !is_wanted || atomic_load(&r->jobs->stops);
}

/* Jobs plan one at a time. False: its end is wanted. */
static bool come_in(struct job_run *r)
{
    struct jobs *j = r->jobs;
    bool ends = false;
    pthread_mutex_lock(&j->lock);
    while (j->memory.is_planned && !ends) {
        clock_cond_wait(&j->wake, &j->lock, clock_ns() + LOOK_NS);
        pthread_mutex_unlock(&j->lock);
        ends = job_is_over(r, true);
        pthread_mutex_lock(&j->lock);
    }
    if (!ends)
        j->memory.is_planned = true;
    pthread_mutex_unlock(&j->lock);
    return !ends;
}

/* With its training, or without. */
static void go_out(struct job_run *r)
{
    struct jobs *j = r->jobs;
    pthread_mutex_lock(&j->lock);
    r->planned = r->tune ? tune_plan(r->tune)->total : 0;
    j->memory.taken += r->planned;
    j->memory.n += r->planned > 0;
    j->memory.is_planned = false;
    pthread_cond_broadcast(&j->wake);
    pthread_mutex_unlock(&j->lock);
    if (r->planned && j->opt.metrics)
        metrics_add(j->opt.metrics, METRIC_train_jobs, 0, 1);
}

void job_memory_release(struct job_run *r)
{
    struct jobs *j = r->jobs;
    if (!r->planned)
        return;
    if (j->opt.metrics)
        metrics_add(j->opt.metrics, METRIC_train_jobs, 0, -1);
    pthread_mutex_lock(&j->lock);
    j->memory.taken -= r->planned;
    j->memory.n--;
    pthread_cond_broadcast(&j->wake);
    pthread_mutex_unlock(&j->lock);
    r->planned = 0;
}

/* What is left for one more, and its equal part of all. Those that run have not yet touched all
 * that is planned for them, and the system may have less than they left. */
static size_t find_left(struct jobs *j, size_t *part)
{
    struct jobs_memory *m = &j->memory;
    pthread_mutex_lock(&j->lock);
    size_t now = train_limit(j->opt.engine, 0);
    if (!m->n)
        m->all = now;
    size_t left = m->taken < m->all ? m->all - m->taken : 1;
    *part = m->all / (j->n_worker - 1);
    pthread_mutex_unlock(&j->lock);
    return left < now ? left : now;
}

static struct tune *plan_within(struct job_run *r, const struct tune_options *o, size_t bytes,
                                struct err *e)
{
    struct tune_options within = *o;
    within.memory = (int64_t)bytes;
    *e = (struct err)ERR_INIT;
    return tune_new(r->jobs->opt.engine, &within, e);
}

/* ERR_TOO_LARGE: it does not fit. */
static void plan(struct job_run *r, const struct tune_options *o, struct err *e)
{
    struct jobs *j = r->jobs;
    size_t part = 0, given = (size_t)j->opt.train_memory,
           left = given ? given : find_left(j, &part);
    if (!given && part < left)
        r->tune = plan_within(r, o, part, e);
    if (!r->tune && (given || part >= left || e->code == ERR_TOO_LARGE))
        r->tune = plan_within(r, o, left, e);
}

/* Nothing that others give back would help. */
static bool is_alone(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    bool is_so = j->memory.n == 0 || j->opt.train_memory > 0;
    pthread_mutex_unlock(&j->lock);
    return is_so;
}

/* Until it has its training, or cannot have it; false: its end is wanted. */
static bool wait_for_memory(struct job_run *r, const struct tune_options *o, struct err *why)
{
    bool is_told = false;
    for (;;) {
        struct err unsaid = ERR_INIT;
        bool was_alone = is_alone(r->jobs);
        plan(r, o, why);
        if (r->tune || why->code != ERR_TOO_LARGE || was_alone)
            return true;
        if (!is_told)
            job_say(
                r, "message",
                arena_printf(r->arena, "The job waits for memory that others have: %s", why->msg),
                NULL, &unsaid);
        is_told = true;
        jobs_rest(r->jobs);
        if (job_is_over(r, true))
            return false;
    }
}

int job_plan(struct job_run *r, const struct tune_options *o, struct job_event *said, struct err *e)
{
    char text[TRAIN_PLAN_TEXT_BYTES];
    struct err why = ERR_INIT;
    if (!come_in(r))
        return 0;
    bool is_wanted = wait_for_memory(r, o, &why);
    go_out(r);
    if (!is_wanted)
        return 0;
    if (!r->tune) {
        if (why.code != ERR_TOO_LARGE)
            return err_set(e, why.code, "%s", why.msg);
        return job_fail(r, "not_enough_memory", NULL, arena_strdup(r->arena, why.msg), e) ? -1 : 1;
    }
    const struct train_plan *p = tune_plan(r->tune);
    r->job.hyper.activation_checkpointing = p->recomputes ? HYPER_ON : HYPER_OFF;
    job_event_init(r, said, "message", arena_strdup(r->arena, train_plan_text(p, text)));
    said->data = data_of(r, p);
    return 0;
}
