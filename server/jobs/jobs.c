/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads: each looks for a job in its stage, brings it on by that, looks again.
 */
#include "server/jobs/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "server/data/data_dir.h"
#include "server/jobs/jobs_own.h"

enum { JOB_BYTES_MAX = 64 << 20, TUNED_PAGE = 1000, REST_NS = 1000000000 };

char *jobs_path(const char *dir, const char *folder, const char *name)
{
    size_t n = strlen(dir) + strlen(folder) + strlen(name) + 3;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s/%s", dir, folder, name);
    return path;
}

char *jobs_tuned_path(const char *dir, const struct job_tuned *t)
{
    return jobs_path(dir, t->is_full ? "models" : "adapters", t->dir);
}

/* ---- models that were made before ---------------------------------------------------------- */

int jobs_tuned_drop(const struct jobs_options *o, const struct job_tuned *t, struct err *e)
{
    if (store_tuned_drop(o->store, t->owner, t->name, e))
        return -1;
    engine_adapter_forget(o->engine, t->name);
    return data_remove_made(store_dir(o->store), t->is_full ? DATA_MODELS : DATA_ADAPTERS, t->dir,
                            e);
}

int jobs_tuned_load(const struct jobs_options *o, const struct job_tuned *t, const char *path,
                    struct err *e)
{
    struct adapter *a = NULL;
    if (engine_adapter_know(o->engine, t->name, path, t->created, e))
        return -1;
    int rc = engine_adapter_fetch(o->engine, t->name, &a, e);
    adapter_unref(a);
    if (!rc || e->code != ERR_BUSY)
        return rc;
    *e = (struct err)ERR_INIT; /* who asks for it waits for a place */
    return 0;
}

int jobs_tuned_claim(const struct jobs_options *o, const struct job_tuned *t, struct err *e)
{
    bool shares;
    return store_job_shares(o->store, t->job, &shares, e) ||
                   engine_adapter_claim(o->engine, t->name, t->owner, shares, e)
               ? -1
               : 0;
}

/* Asked for, it is refused with both names. */
static void bar(struct jobs *j, const struct job_tuned *t)
{
    const struct engine_info *on = engine_info(j->opt.engine);
    struct err why = ERR_INIT;
    err_set(&why, ERR_UNSUPPORTED,
            "'%.100s' was trained over the base '%.80s' (%s), and this server has '%.80s' (%s).",
            t->name, t->base, t->fingerprint, on->name, on->fingerprint);
    engine_adapter_bar(j->opt.engine, t->name, &why);
    log_event(LOG_WARN, "a tuned model is of another base", LOG_TEXT("model", t->name),
              LOG_TEXT("base", t->base), LOG_TEXT("fingerprint", t->fingerprint),
              LOG_TEXT("here", on->fingerprint));
}

/* One that an older program made, which says no base: that its names and shapes fit, as they had to
 * then, makes it this one's. */
static int adopt(struct jobs *j, const struct job_tuned *t, struct err *e)
{
    const char *fingerprint = engine_info(j->opt.engine)->fingerprint;
    log_event(LOG_INFO, "a tuned model without a base is taken for this one's",
              LOG_TEXT("model", t->name), LOG_TEXT("fingerprint", fingerprint));
    return store_tuned_adopt(j->opt.store, t->name, fingerprint, e);
}

static int publish_one(struct jobs *j, const struct job_tuned *t, struct err *e)
{
    struct err why = ERR_INIT;
    if (jobs_tuned_claim(&j->opt, t, e))
        return -1;
    if (engine_base_match(j->opt.engine, t->fingerprint) == ENGINE_BASE_OTHER) {
        bar(j, t);
        return 0;
    }
    char *path = jobs_tuned_path(j->opt.dir, t);
    bool has_room = j->n_loaded < engine_info(j->opt.engine)->max_adapters;
    int rc = has_room ? jobs_tuned_load(&j->opt, t, path, &why)
                      : engine_adapter_know(j->opt.engine, t->name, path, t->created, &why);
    free(path);
    j->n_loaded += has_room && !rc;
    if (rc)
        log_event(LOG_ERROR, "a tuned model cannot be served", LOG_TEXT("model", t->name),
                  LOG_TEXT("why", why.msg));
    return has_room && !rc && !t->fingerprint ? adopt(j, t, e) : 0;
}

/* Results, or checkpoints. */
static int publish(struct jobs *j, bool checkpoints, struct err *e)
{
    struct store_page page = {.limit = TUNED_PAGE};
    struct arena a;
    struct job_tuned *list;
    size_t n = 0;
    bool more = true;
    int rc = 0;
    arena_init(&a, 0);
    while (!rc && more) {
        rc = store_tuned_list(j->opt.store, NULL, NULL, &page, &a, &list, &n, &more, e);
        for (size_t i = 0; !rc && i < n; i++) {
            if (!list[i].is_full && list[i].is_checkpoint == checkpoints)
                rc = publish_one(j, &list[i], e);
        }
        if (n)
            page.after = list[n - 1].id;
    }
    arena_release(&a);
    return rc;
}

/* As many as have room are read; the others when they are asked for. Results first. */
int jobs_publish_all(struct jobs *j, struct err *e)
{
    return publish(j, false, e) || publish(j, true, e) ? -1 : 0;
}

/* ---- jobs of another base ------------------------------------------------------------------ */

/* An event that says what the job waits for, unless that is its newest event already. */
static int say_waits(struct jobs *j, const struct job *job, struct arena *a, struct err *e)
{
    const struct engine_info *on = engine_info(j->opt.engine);
    struct job_run r = {.jobs = j, .job = *job, .arena = a};
    struct store_page page = {.limit = 1};
    struct job_event *last;
    size_t n;
    bool more;
    const char *message = arena_printf(
        a, "The job waits for its base, '%s' (%s): this server has '%s' (%s)", job->model,
        job->fingerprint ? job->fingerprint : "not known", on->name, on->fingerprint);
    log_event(LOG_WARN, "a job is of another base", LOG_TEXT("job", job->id),
              LOG_TEXT("base", job->model), LOG_TEXT("fingerprint", job->fingerprint),
              LOG_TEXT("here", on->fingerprint));
    if (store_event_list(j->opt.store, job->id, &page, a, &last, &n, &more, e))
        return -1;
    return n && strcmp(last->message, message) == 0 ? 0 : job_say(&r, "message", message, NULL, e);
}

/* Rows of an older program are this base's where their model's name is; the others that are not
 * wait. */
static int sort_out(struct jobs *j, struct err *e)
{
    const struct engine_info *on = engine_info(j->opt.engine);
    struct arena a;
    struct job *list;
    size_t n = 0;
    int64_t n_adopted;
    arena_init(&a, JOB_BYTES_MAX);
    int rc = store_adopt(j->opt.store, on->name, on->fingerprint, &n_adopted, e);
    if (!rc && n_adopted)
        log_event(LOG_INFO, "jobs and models without a base are taken for this one's",
                  LOG_INT("n", n_adopted), LOG_TEXT("fingerprint", on->fingerprint));
    if (!rc)
        rc = store_job_strange(j->opt.store, on->fingerprint, &a, &list, &n, e);
    for (size_t i = 0; !rc && i < n; i++)
        rc = say_waits(j, &list[i], &a, e);
    arena_release(&a);
    return rc;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void sleep_for_mail(struct jobs_worker *w)
{
    struct jobs *j = w->jobs;
    pthread_mutex_lock(&j->lock);
    while (!w->has_mail && !atomic_load(&j->stops))
        pthread_cond_wait(&j->wake, &j->lock);
    w->has_mail = false;
    pthread_mutex_unlock(&j->lock);
}

static void run_release(struct job_run *r)
{
    job_board_free(r->board);
    tune_free(r->tune);
    job_memory_release(r);
    tune_rows_free(r->data);
    tune_rows_free(r->valid);
}

/* The job's end, as its owner may see it: what the log says of the server is not for clients. */
static int fail(struct job_run *r, const struct err *e, struct err *why)
{
    struct api_error said;
    api_fail_err(&said, e, NULL);
    if (said.status >= 500)
        snprintf(said.message, sizeof said.message,
                 "The server failed at this job; its log says more.");
    const char *code = said.status >= 500           ? "server_error"
                       : e->code == ERR_UNSUPPORTED ? "unsupported"
                                                    : "invalid_value";
    return job_fail(r, said.code ? said.code : code, NULL, said.message, why);
}

/* A full disk ends no job, nor does a grader that the server could not ask: it halts where the
 * store has it, until there is room again, or its owner lets it go on. */
static int hold(struct job_run *r, const struct err *of, struct err *e)
{
    if (r->job.state != JOB_QUEUED && r->job.state != JOB_RUNNING)
        return -1; /* before its files were looked at: they are looked at again */
    if (r->job.wants_cancel || r->job.wants_pause)
        return job_stand_still(r, e);
    bool is_full = of->code == ERR_NO_SPACE;
    const char *why = "the server's disk is full. When there is room";
    if (!is_full)
        why = arena_printf(r->arena, "%s. Resume it when its grader can be asked again", of->msg);
    r->job.error_code = is_full ? JOB_NO_SPACE : NULL;
    if (job_move(r, JOB_PAUSED, 1u << JOB_QUEUED | 1u << JOB_RUNNING, "error",
                 arena_printf(r->arena,
                              "Fine-tuning job paused: %s%s it goes on from its last checkpoint",
                              why, is_full ? "" : ";"),
                 e))
        return -1;
    if (is_full)
        jobs_stall(r->jobs);
    return 0;
}

/* The job as it is on the disk decides: what the run did since was not stored. */
static int store_end_of(struct job_run *r, const struct err *e, struct err *why)
{
    struct job now;
    if (store_job_get(r->jobs->opt.store, r->job.owner, r->job.id, r->arena, &now, why))
        return -1;
    r->job = now;
    bool halts = e->code == ERR_NO_SPACE || atomic_load(&r->is_unasked);
    return halts ? hold(r, e, why) : fail(r, e, why);
}

void jobs_rest(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    if (!atomic_load(&j->stops))
        clock_cond_wait(&j->wake, &j->lock, clock_ns() + REST_NS);
    pthread_mutex_unlock(&j->lock);
}

/* What cannot be stored now is tried again, without the run. */
static void give_up(struct job_run *r, const struct err *e)
{
    for (bool is_kept = true; is_kept && !atomic_load(&r->jobs->stops);) {
        struct err why = ERR_INIT;
        if (!store_end_of(r, e, &why) || why.code == ERR_BUSY)
            return;
        is_kept = why.code != ERR_NONE;
        if (is_kept)
            log_event(LOG_ERROR, "a job's end cannot be stored", LOG_TEXT("job", r->job.id),
                      LOG_TEXT("why", why.msg));
        jobs_rest(r->jobs);
    }
}

/* The device is lost, or a rank, and with it the engine: the job stays where the store has it, and
 * goes on when the server is back. */
static bool lost_engine(struct jobs *j)
{
    struct err e = ERR_INIT;
    if (!engine_look(j->opt.engine, &e))
        return false;
    log_event(LOG_ERROR, "jobs stand still", LOG_TEXT("why", e.msg));
    pthread_mutex_lock(&j->lock);
    while (!atomic_load(&j->stops))
        pthread_cond_wait(&j->wake, &j->lock);
    pthread_mutex_unlock(&j->lock);
    return true;
}

/* ---- whose job it is ----------------------------------------------------------------------- */

bool jobs_in_hand(const struct jobs *j, const char *job)
{
    bool is_so = false;
    for (size_t i = 0; i < j->n_worker; i++)
        is_so = is_so || strcmp(j->worker[i].job, job) == 0;
    return is_so;
}

/* The next job of the thread's stage that no other has. */
static int take(struct jobs_worker *w, struct arena *a, struct job *out, struct err *e)
{
    struct jobs *j = w->jobs;
    char **last = &j->last[w != j->worker];
    char all[sizeof j->worker / sizeof *j->worker * STORE_ID_BYTES] = "";
    size_t n = 0;
    pthread_mutex_lock(&j->take);
    for (size_t i = 0; i < j->n_worker; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s ", j->worker[i].job);
    const struct store_turn turn = {.states = w->states,
                                    .fingerprint = engine_info(j->opt.engine)->fingerprint,
                                    .in_hand = all,
                                    .last = *last ? *last : ""};
    int rc = store_job_next(j->opt.store, &turn, a, out, e);
    if (!rc) {
        snprintf(w->job, sizeof w->job, "%s", out->id);
        free(*last);
        *last = xstrdup(out->owner);
    }
    pthread_mutex_unlock(&j->take);
    return rc;
}

static void let_go(struct jobs_worker *w)
{
    pthread_mutex_lock(&w->jobs->take);
    w->job[0] = 0;
    pthread_mutex_unlock(&w->jobs->take);
}

/* One stage of one job; false: none is there, or the store cannot say. */
static bool bring_on(struct jobs_worker *w, struct arena *a)
{
    struct jobs *j = w->jobs;
    struct job_run r = {.jobs = j, .arena = a};
    struct err e = ERR_INIT;
    if (take(w, a, &r.job, &e)) {
        if (e.code == ERR_NOT_FOUND)
            return false;
        log_event(LOG_ERROR, "jobs cannot be read", LOG_TEXT("why", e.msg));
        jobs_rest(j);
        return true;
    }
    int rc = r.job.state == JOB_VALIDATING ? job_validate(&r, &e) : job_train(&r, &e);
    run_release(&r);
    bool is_lost = rc && lost_engine(j);
    if (rc && !is_lost &&
        e.code != ERR_BUSY) { /* busy: it was cancelled meanwhile, and that stands */
        log_event(LOG_ERROR, "job stopped", LOG_TEXT("job", r.job.id), LOG_TEXT("why", e.msg));
        give_up(&r, &e);
    }
    job_wandb_end(&r);
    return true;
}

/* Of threads that are woken together one is enough. */
static bool is_to_sweep(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    bool is_due = !j->is_swept;
    j->is_swept = true;
    pthread_mutex_unlock(&j->lock);
    return is_due;
}

static void *jobs_main(void *arg)
{
    struct jobs_worker *w = arg;
    struct jobs *j = w->jobs;
    struct arena a;
    arena_init(&a, JOB_BYTES_MAX);
    while (!atomic_load(&j->stops)) {
        if (bring_on(w, &a)) {
            let_go(w);
            jobs_wake(j); /* another may have to go on with it */
        } else {
            if (w != j->worker && is_to_sweep(j))
                jobs_sweep(j);
            sleep_for_mail(w);
        }
        arena_reset(&a);
    }
    arena_release(&a);
    return NULL;
}

void jobs_wake(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    for (size_t i = 0; i < j->n_worker; i++)
        j->worker[i].has_mail = true;
    j->is_swept = false;
    pthread_cond_broadcast(&j->wake);
    pthread_mutex_unlock(&j->lock);
}

/* Where ranks share the model they train together. */
static size_t trainers(const struct jobs_options *o)
{
    int64_t n = o->at_once < 1 ? 1 : o->at_once < JOBS_AT_ONCE_MAX ? o->at_once : JOBS_AT_ONCE_MAX;
    if (n == 1 || engine_info(o->engine)->n_rank <= 1)
        return (size_t)n;
    log_event(LOG_WARN, "ranks share the model: jobs train one after the other",
              LOG_INT("jobs", n));
    return 1;
}

static int start(struct jobs *j, struct err *e)
{
    for (size_t i = 0; i < j->n_worker; i++) {
        struct jobs_worker *w = &j->worker[i];
        w->jobs = j;
        w->states = i ? 1u << JOB_QUEUED | 1u << JOB_RUNNING : 1u << JOB_VALIDATING;
        if (pthread_create(&w->thread, NULL, jobs_main, w))
            return err_set(e, ERR_NO_MEMORY, "a job thread cannot be started");
        w->has_thread = true;
    }
    return 0;
}

struct jobs *jobs_new(const struct jobs_options *o, struct err *e)
{
    struct jobs *j = xcalloc(1, sizeof *j);
    j->opt = *o;
    j->n_worker = 1 + trainers(o);
    pthread_mutex_init(&j->take, NULL);
    pthread_mutex_init(&j->lock, NULL);
    clock_cond_init(&j->wake);
    atomic_init(&j->stalled.is_any, true);
    if (sort_out(j, e) || jobs_publish_all(j, e) || start(j, e)) {
        jobs_free(j);
        return NULL;
    }
    return j;
}

void jobs_free(struct jobs *j)
{
    if (!j)
        return;
    atomic_store(&j->stops, true);
    jobs_wake(j);
    for (size_t i = 0; i < j->n_worker; i++)
        if (j->worker[i].has_thread)
            pthread_join(j->worker[i].thread, NULL);
    jobs_kept_release(j);
    free(j->last[0]);
    free(j->last[1]);
    pthread_mutex_destroy(&j->take);
    pthread_cond_destroy(&j->wake);
    pthread_mutex_destroy(&j->lock);
    free(j);
}
