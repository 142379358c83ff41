/* SPDX-License-Identifier: Apache-2.0
 *
 * What there is of fine-tuning: jobs, a job's events and checkpoints, and the models that were made
 * of them. Newest first.
 *
 * Events followed (?stream=true) begin with the oldest and end behind the job's end. The desk looks
 * for new ones every tenth of a second, which costs one indexed query.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "engine/base/vec.h"
#include "engine/engine.h"
#include "server/desk/page.h"
#include "server/desk/tuning.h"
#include "server/http/route.h"
#include "server/jobs/jobs.h"
#include "server/server.h"

enum { LIMIT_MAX = 1000, JOBS = 20, EVENTS = 20, CHECKPOINTS = 10, LOOK = 200 };

/* ---- jobs ---------------------------------------------------------------------------------- */

static int look_jobs(struct errand *t, const struct store_page *page, struct arena *a, void **row,
                     size_t *n, bool *more, struct err *e)
{
    struct job *job = NULL;
    int rc = store_job_list(desk_store(t->desk), t->ask->who->name, page, a, &job, n, more, e);
    *row = job;
    return rc;
}

static bool fits_job(const struct errand *t, const void *row)
{
    const struct job *job = row;
    return page_fits(t, job->metadata);
}

static int put_job(struct errand *t, struct jout *j, const void *row, struct err *e)
{
    (void)t;
    (void)e;
    job_write(j, row);
    return 0;
}

static enum errand_end work_jobs(struct errand *t, struct api_error *e)
{
    static const struct page_kind jobs = {.size = sizeof(struct job),
                                          .id = offsetof(struct job, id),
                                          .look = look_jobs,
                                          .fits = fits_job,
                                          .put = put_job};
    return page_walk(t, &jobs, e);
}

void route_jobs(struct call *c)
{
    struct errand *t = errand_new(c);
    struct api_error e;
    if (!t)
        return;
    if (page_read(c, t, JOBS, LIMIT_MAX, &e))
        errand_refuse(t, &e);
    else
        errand_send(t, work_jobs);
}

/* ---- events -------------------------------------------------------------------------------- */

static enum errand_end work_events(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct job_event *v;
    struct job job;
    size_t n;
    bool more;
    if (tuning_job(t, &job, e))
        return ERRAND_FAILED;
    if (store_event_list(desk_store(t->desk), job.id, &t->page, &t->arena, &v, &n, &more, &why))
        return page_fail(&why, e);
    struct jout j = jout_on(&t->out);
    page_open(&j);
    for (size_t i = 0; i < n; i++)
        job_event_write(&j, &v[i]);
    page_close(&j, false, NULL, NULL, more);
    return ERRAND_DONE;
}

/* The job is read before its events: behind its end there are none. */
static enum errand_end follow(struct errand *t, struct arena *a, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct store *s = desk_store(t->desk);
    struct store_page page = {.after = t->last, .limit = LOOK, .ascending = true};
    struct job_event *v;
    struct job job;
    size_t n;
    bool more;
    if (store_job_get(s, t->ask->who->name, t->ask->param, a, &job, &why) ||
        store_event_list(s, job.id, &page, a, &v, &n, &more, &why))
        return page_fail(&why, e);
    for (size_t i = 0; i < n; i++) {
        struct jout j = jout_on(&t->out);
        buf_str(&t->out, "data: ");
        job_event_write(&j, &v[i]);
        buf_str(&t->out, "\n\n");
    }
    if (n)
        t->last = arena_strdup(&t->arena, v[n - 1].id);
    bool is_over =
        job.state == JOB_SUCCEEDED || job.state == JOB_FAILED || job.state == JOB_CANCELLED;
    if (!server_is_draining(call_server(t->call)) && (more || !is_over))
        return ERRAND_AGAIN;
    buf_str(&t->out, "data: [DONE]\n\n");
    return ERRAND_DONE;
}

static enum errand_end work_follow(struct errand *t, struct api_error *e)
{
    struct arena a;
    arena_init(&a, 16 << 20);
    enum errand_end end = follow(t, &a, e);
    arena_release(&a);
    return end;
}

void route_job_events(struct call *c)
{
    struct errand *t = errand_new(c);
    struct api_error e;
    if (!t)
        return;
    const char *stream = call_query(c, "stream");
    t->is_stream = stream && strcmp(stream, "true") == 0;
    if (page_read(c, t, EVENTS, LIMIT_MAX, &e)) {
        errand_refuse(t, &e);
        return;
    }
    if (t->is_stream) {
        t->last = t->page.after;
        t->type = "text/event-stream";
    }
    errand_send(t, t->is_stream ? work_follow : work_events);
}

/* ---- models -------------------------------------------------------------------------------- */

static enum errand_end work_checkpoints(struct errand *t, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct job_tuned *list;
    struct job job;
    size_t n;
    bool more;
    if (tuning_job(t, &job, e))
        return ERRAND_FAILED;
    if (store_tuned_list(desk_store(t->desk), job.owner, job.id, &t->page, &t->arena, &list, &n,
                         &more, &why))
        return page_fail(&why, e);
    struct jout j = jout_on(&t->out);
    page_open(&j);
    for (size_t i = 0; i < n; i++)
        job_tuned_write(&j, &list[i]);
    page_close(&j, true, n ? list[0].id : NULL, n ? list[n - 1].id : NULL, more);
    return ERRAND_DONE;
}

void route_job_checkpoints(struct call *c)
{
    struct errand *t = errand_new(c);
    struct api_error e;
    if (!t)
        return;
    if (page_read(c, t, CHECKPOINTS, LIMIT_MAX, &e))
        errand_refuse(t, &e);
    else
        errand_send(t, work_checkpoints);
}

/* The row of a tuned model of this owner; its texts in t's arena. */
static int find_tuned(struct errand *t, struct job_tuned *out, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (!store_tuned_get(desk_store(t->desk), t->ask->who->name, t->ask->param, &t->arena, out,
                         &why))
        return 0;
    if (why.code != ERR_NOT_FOUND)
        return errand_fail(&why, e);
    return api_fail(e, 404, "model_not_found", "model",
                    "No model of this name was tuned here with this key.");
}

static enum errand_end work_model_drop(struct errand *t, struct api_error *e)
{
    struct jobs_options o = {.engine = desk_engine(t->desk),
                             .store = desk_store(t->desk),
                             .dir = desk_options(t->desk)->dir};
    struct err why = ERR_INIT;
    struct job_tuned tuned = {.id = NULL};
    if (find_tuned(t, &tuned, e))
        return ERRAND_FAILED;
    if (jobs_tuned_drop(&o, &tuned, &why))
        return errand_fail(&why, e);
    struct jout j = jout_on(&t->out);
    jout_open(&j, '{');
    jout_put_str(&j, "id", tuned.name);
    jout_put_str(&j, "object", "model");
    jout_put_bool(&j, "deleted", true);
    jout_close(&j, '}');
    return ERRAND_DONE;
}

void route_model_drop(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_model_drop);
}
