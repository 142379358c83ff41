/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread: looks for a job, brings it on by one stage, looks again.
 */
#include "server/jobs/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
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
    struct err unknown = ERR_INIT; /* one that could not be served is not in the registry */
    if (store_tuned_drop(o->store, t->owner, t->name, e))
        return -1;
    engine_adapter_drop(o->engine, t->name, &unknown);
    char *path = jobs_tuned_path(o->dir, t);
    int rc = fs_remove_tree(path, e);
    free(path);
    return rc;
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
            struct err why = ERR_INIT;
            if (list[i].is_full || list[i].is_checkpoint != checkpoints)
                continue;
            char *path = jobs_tuned_path(j->opt.dir, &list[i]);
            if (engine_adapter_load(j->opt.engine, list[i].name, path, &why))
                log_event(LOG_ERROR, "a tuned model cannot be served",
                          LOG_TEXT("model", list[i].name), LOG_TEXT("why", why.msg));
            free(path);
        }
        if (n)
            page.after = list[n - 1].id;
    }
    arena_release(&a);
    return rc;
}

/* Where there is no room for all, results answer. */
int jobs_publish_all(struct jobs *j, struct err *e)
{
    return publish(j, false, e) || publish(j, true, e) ? -1 : 0;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void sleep_for_mail(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    while (!j->has_mail && !atomic_load(&j->stops))
        pthread_cond_wait(&j->wake, &j->lock);
    j->has_mail = false;
    pthread_mutex_unlock(&j->lock);
}

static void run_release(struct job_run *r)
{
    beside_end(&r->beside);
    dataset_release(&r->data);
    dataset_release(&r->valid);
}

/* The job's end, as its owner may see it: what the log says of the server is not for clients. */
static int fail(struct job_run *r, const struct err *e, struct err *why)
{
    struct api_error said;
    api_fail_err(&said, e, NULL);
    if (said.status >= 500)
        snprintf(said.message, sizeof said.message,
                 "The server failed at this job; its log says more.");
    return job_fail(r, said.code ? said.code : "server_error", NULL, said.message, why);
}

/* A full disk ends no job: it halts where the store has it, until its owner lets it go on. */
static int hold(struct job_run *r, struct err *e)
{
    if (r->job.state != JOB_QUEUED && r->job.state != JOB_RUNNING)
        return -1; /* before its files were looked at: they are looked at again */
    return job_move(r, JOB_PAUSED, 1u << JOB_QUEUED | 1u << JOB_RUNNING, "error",
                    "Fine-tuning job paused: the server's disk is full. Resume it when there is "
                    "room; it goes on from its last checkpoint",
                    e);
}

/* The job as it is on the disk decides: what the run did since was not stored. */
static int store_end_of(struct job_run *r, const struct err *e, struct err *why)
{
    struct job now;
    if (store_job_get(r->jobs->opt.store, r->job.owner, r->job.id, r->arena, &now, why))
        return -1;
    r->job = now;
    return e->code == ERR_NO_SPACE ? hold(r, why) : fail(r, e, why);
}

static void rest(struct jobs *j)
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
        rest(r->jobs);
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

/* One stage of one job; false: none is there, or the store cannot say. */
static bool bring_on(struct jobs *j, struct arena *a)
{
    struct job_run r = {.jobs = j, .arena = a};
    struct err e = ERR_INIT;
    if (store_job_next(j->opt.store, a, &r.job, &e)) {
        if (e.code == ERR_NOT_FOUND)
            return false;
        log_event(LOG_ERROR, "jobs cannot be read", LOG_TEXT("why", e.msg));
        rest(j);
        return true;
    }
    int rc = r.job.state == JOB_VALIDATING ? job_validate(&r, &e) : job_train(&r, &e);
    run_release(&r);
    if (rc && lost_engine(j))
        return true;
    if (rc && e.code != ERR_BUSY) { /* busy: it was cancelled meanwhile, and that stands */
        log_event(LOG_ERROR, "job stopped", LOG_TEXT("job", r.job.id), LOG_TEXT("why", e.msg));
        give_up(&r, &e);
    }
    return true;
}

static void *jobs_main(void *arg)
{
    struct jobs *j = arg;
    struct arena a;
    arena_init(&a, JOB_BYTES_MAX);
    while (!atomic_load(&j->stops)) {
        if (!bring_on(j, &a)) {
            jobs_sweep(j);
            sleep_for_mail(j);
        }
        arena_reset(&a);
    }
    arena_release(&a);
    return NULL;
}

void jobs_wake(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    j->has_mail = true;
    pthread_cond_signal(&j->wake);
    pthread_mutex_unlock(&j->lock);
}

struct jobs *jobs_new(const struct jobs_options *o, struct err *e)
{
    static const char *const folders[] = {"files", "checkpoints", "adapters", "models"};
    struct jobs *j = xcalloc(1, sizeof *j);
    j->opt = *o;
    pthread_mutex_init(&j->lock, NULL);
    clock_cond_init(&j->wake);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path = jobs_path(o->dir, folders[i], "");
        int rc = fs_mkdirs(path, e) || fs_sweep(path, e);
        free(path);
        if (rc)
            goto fail;
    }
    if (jobs_publish_all(j, e))
        goto fail;
    if (pthread_create(&j->thread, NULL, jobs_main, j)) {
        err_set(e, ERR_NO_MEMORY, "the job thread cannot be started");
        goto fail;
    }
    j->has_thread = true;
    return j;
fail:
    jobs_free(j);
    return NULL;
}

void jobs_free(struct jobs *j)
{
    if (!j)
        return;
    atomic_store(&j->stops, true);
    jobs_wake(j);
    if (j->has_thread)
        pthread_join(j->thread, NULL);
    pthread_cond_destroy(&j->wake);
    pthread_mutex_destroy(&j->lock);
    free(j);
}
