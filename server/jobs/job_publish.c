/* SPDX-License-Identifier: Apache-2.0
 *
 * From what was trained to a model that answers: a PEFT directory, a switch in the registry, and
 * one transaction for all that is said of it, in this order. What a kill leaves before the
 * transaction is written over by the next attempt; behind it all is done.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/engine.h"
#include "server/data/data_dir.h"
#include "server/jobs/jobs_own.h"

enum { NAME_BYTES = 256, METRICS_BYTES = 1024, PAGE = 1000, TAIL = 8 };

static void name_of(const struct job_run *r, int64_t step, char name[NAME_BYTES])
{
    const char *id = r->job.id;
    size_t n = strlen(id);
    int at = snprintf(name, NAME_BYTES, "ft:%.100s:tandem:%s:%s", r->job.model,
                      r->job.suffix ? r->job.suffix : "", id + (n > TAIL ? n - TAIL : 0));
    if (step >= 0)
        snprintf(name + at, (size_t)(NAME_BYTES - at), ":ckpt-step-%" PRId64, step);
}

const char *job_policy_name(const struct job_run *r)
{
    char name[NAME_BYTES];
    name_of(r, -1, name);
    return arena_printf(r->arena, "%s:policy", name);
}

/* What is known of the training where the model is from; NULL: nothing. */
static const char *metrics_text(const struct job_run *r)
{
    struct buf b;
    if (r->last.step == 0)
        return NULL;
    buf_init(&b, METRICS_BYTES);
    job_metrics_write(&r->last, &b);
    const char *text = arena_strdup(r->arena, b.data);
    buf_release(&b);
    return text;
}

/* The published model's row; its texts lie in the arena. step -1: the result. */
static void describe(const struct job_run *r, int64_t step, struct job_tuned *t)
{
    char name[NAME_BYTES], id[STORE_ID_BYTES];
    struct arena *a = r->arena;
    name_of(r, step, name);
    store_id(step >= 0 ? "ftckpt_" : "ftmodel_", id);
    *t = (struct job_tuned){.id = arena_strdup(a, id),
                            .name = arena_strdup(a, name),
                            .owner = r->job.owner,
                            .job = r->job.id,
                            .base = r->job.model,
                            .fingerprint = engine_info(r->jobs->opt.engine)->fingerprint,
                            .dir = step < 0 ? r->job.id
                                            : arena_printf(a, "%s-step-%" PRId64, r->job.id, step),
                            .metrics = metrics_text(r),
                            .step = step < 0 ? r->job.step : step,
                            .created = (int64_t)time(NULL),
                            .is_checkpoint = step >= 0,
                            .is_full = r->job.hyper.training_type == HYPER_FULL};
}

/* Of a model that is kept but cannot be served here: the event says why, behind a semicolon. */
static void say_more(struct job_run *r, struct job_event *v, const char *level, const char *more)
{
    v->level = level;
    v->message = arena_printf(r->arena, "%s; %s", v->message, more);
}

/* A result that finds no room takes the place of its owner's oldest checkpoint that answers: that
 * name; NULL: there is none. */
static const char *make_room(struct job_run *r)
{
    struct store_page page = {.limit = PAGE, .ascending = true};
    struct job_tuned *list;
    struct err unknown = ERR_INIT;
    size_t n;
    bool more = true;
    while (more && !store_tuned_list(r->jobs->opt.store, r->job.owner, NULL, &page, r->arena, &list,
                                     &n, &more, &unknown)) {
        for (size_t i = 0; i < n; i++)
            if (list[i].is_checkpoint &&
                !engine_adapter_drop(r->jobs->opt.engine, list[i].name, &unknown))
                return list[i].name;
        more = more && n > 0;
        page.after = n ? list[n - 1].id : NULL;
    }
    return NULL;
}

static int load(struct job_run *r, const struct job_tuned *t, const char *path, struct job_event *v,
                struct err *e)
{
    const char *gone;
    if (!jobs_tuned_load(&r->jobs->opt, t, path, e))
        return 0;
    if (t->is_checkpoint || e->code != ERR_TOO_LARGE || !(gone = make_room(r)))
        return -1;
    say_more(r, v, "info",
             arena_printf(r->arena,
                          "as many adapters are loaded as may be, so %s does not "
                          "answer any more",
                          gone));
    return jobs_tuned_load(&r->jobs->opt, t, path, e);
}

/* What is wrong with this one model goes into the event. An error is the engine's end: nothing is
 * written, and the next server publishes again. */
static int serve(struct job_run *r, const struct job_tuned *t, char *path, struct job_event *v,
                 struct err *e)
{
    struct err why = ERR_INIT;
    if (jobs_tuned_claim(&r->jobs->opt, t, e))
        return -1;
    if (!load(r, t, path, v, &why))
        return 0;
    if (engine_look(r->jobs->opt.engine, e))
        return -1;
    adapter_folder_hide(path, &why);
    say_more(r, v, "warn",
             arena_printf(r->arena,
                          "it is kept, but not served now: %.300s. It will be when the server "
                          "starts with room for it",
                          why.msg));
    return 0;
}

/* Its files, then its name in the registry. One for which there is no room there is kept, and said:
 * what was trained is not lost for it. A whole model is for a server of its own. */
static int put_model(struct job_run *r, const struct job_tuned *t, struct job_event *v,
                     struct err *e)
{
    char *path = jobs_tuned_path(r->jobs->opt.dir, t);
    int rc = data_remove_made(store_dir(r->jobs->opt.store),
                              t->is_full ? DATA_MODELS : DATA_ADAPTERS, t->dir, e) ||
                     tune_publish(r->tune, path, r->job.model, e)
                 ? -1
                 : 0;
    if (!rc && t->is_full)
        say_more(r, v, "info",
                 arena_printf(r->arena,
                              "it is a whole model, and this server answers with '%.100s' alone: "
                              "its files are in models/%s of the data directory, for `tandem "
                              "serve`",
                              r->job.model, t->dir));
    else if (!rc)
        rc = serve(r, t, path, v, e);
    free(path);
    return rc ? -1 : 0;
}

/* The change that makes it so; where that fails the name is not served. */
static int enter(struct job_run *r, const struct store_change *c, struct err *e)
{
    struct err unknown = ERR_INIT;
    if (!store_job_change(r->jobs->opt.store, c, e))
        return 0;
    engine_adapter_drop(r->jobs->opt.engine, c->tuned->name, &unknown);
    engine_adapter_disown(r->jobs->opt.engine, c->tuned->name);
    return -1;
}

/* A training that was killed after this was entered, and before its own checkpoint was written,
 * comes here again. */
static int is_entered(struct job_run *r, const char *name, bool *is_there, struct err *e)
{
    struct store_page page = {.limit = PAGE};
    struct job_tuned *list;
    size_t n;
    bool more;
    *is_there = false;
    if (store_tuned_list(r->jobs->opt.store, r->job.owner, r->job.id, &page, r->arena, &list, &n,
                         &more, e))
        return -1;
    for (size_t i = 0; i < n; i++)
        *is_there = *is_there || strcmp(list[i].name, name) == 0;
    return 0;
}

int job_publish_checkpoint(struct job_run *r, int64_t step, const char *data, struct err *e)
{
    struct job_tuned t;
    struct job_event v;
    bool is_there;
    describe(r, step, &t);
    if (is_entered(r, t.name, &is_there, e) || is_there)
        return is_there ? 0 : -1;
    job_event_init(r, &v, "message",
                   arena_printf(r->arena, "Checkpoint created at step %" PRId64, step));
    v.data = data;
    struct store_change c = {
        .job = &r->job, .from = 1u << JOB_RUNNING, .event = &v, .n_event = 1, .tuned = &t};
    return put_model(r, &t, &v, e) || enter(r, &c, e) ? -1 : 0;
}

int job_publish_result(struct job_run *r, struct err *e)
{
    struct job_tuned t;
    struct job_event v[2];
    struct file_row file[JOB_RESULT_FILES];
    if (job_write_results(r, file, e))
        return -1;
    describe(r, -1, &t);
    r->job.result_files = arena_printf(r->arena, "[\"%s\",\"%s\"]", file[0].id, file[1].id);
    r->job.tuned_model = t.name;
    r->job.finished = (int64_t)time(NULL);
    r->job.state = JOB_SUCCEEDED;
    job_event_init(r, &v[0], "message",
                   arena_printf(r->arena, "New fine-tuned model created: %s", t.name));
    job_event_init(r, &v[1], "message", "The job has successfully completed");
    struct store_change c = {.job = &r->job,
                             .from = 1u << JOB_RUNNING,
                             .event = v,
                             .n_event = 2,
                             .file = file,
                             .n_file = JOB_RESULT_FILES,
                             .tuned = &t};
    if (!put_model(r, &t, &v[0], e) && !enter(r, &c, e))
        return 0;
    r->job.result_files = "[]"; /* so that the row of a failure is true */
    r->job.tuned_model = NULL;
    r->job.finished = 0;
    r->job.state = JOB_RUNNING;
    return -1;
}

int job_drop_checkpoints(struct job_run *r, size_t keep, struct err *e)
{
    const struct jobs_options *o = &r->jobs->opt;
    struct store_page page = {.limit = PAGE};
    struct job_tuned *list;
    size_t n, seen = 0;
    bool more;
    if (store_tuned_list(o->store, r->job.owner, r->job.id, &page, r->arena, &list, &n, &more, e))
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct err why = ERR_INIT;
        if (!list[i].is_checkpoint || seen++ < keep || !jobs_tuned_drop(o, &list[i], &why))
            continue;
        if (why.code != ERR_NOT_FOUND) /* else its owner was faster */
            return err_set(e, why.code, "%s", why.msg);
    }
    return 0;
}
