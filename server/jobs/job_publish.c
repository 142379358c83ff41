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
    engine_adapter_plain_name(name); /* a base may have any name, and a suffix dots */
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

/* What is wrong with this one model goes into the event. An error is the engine's end: nothing is
 * written, and the next server publishes again. */
static int serve(struct job_run *r, const struct job_tuned *t, char *path, struct job_event *v,
                 struct err *e)
{
    struct err why = ERR_INIT;
    if (jobs_tuned_claim(&r->jobs->opt, t, e))
        return -1;
    if (!jobs_tuned_load(&r->jobs->opt, t, path, &why))
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
    if (!store_job_change(r->jobs->opt.store, c, e)) {
        jobs_unstall(r->jobs);
        return 0;
    }
    engine_adapter_forget(r->jobs->opt.engine, c->tuned->name);
    return -1;
}

/* What the job has published, newest first. */
static int list_models(const struct job_run *r, struct job_tuned **list, size_t *n, struct err *e)
{
    const struct store_page page = {.limit = PAGE};
    bool more;
    return store_tuned_list(r->jobs->opt.store, r->job.owner, r->job.id, &page, r->arena, list, n,
                            &more, e);
}

/* Of a job whose result is not its last step's: that step, and what was known behind it, which the
 * checkpoint there has, unless its owner deleted it. */
static int be_best(struct job_run *r, struct job_tuned *t, struct err *e)
{
    struct job_tuned *list;
    size_t n;
    if (list_models(r, &list, &n, e))
        return -1;
    t->step = tune_best(r->tune).step;
    t->metrics = NULL;
    for (size_t i = 0; i < n; i++)
        if (list[i].step == t->step)
            t->metrics = list[i].metrics;
    return 0;
}

/* How the training ended, where that was not just its last step. */
static void tell_end(struct job_run *r, struct job_event *v, size_t *n)
{
    const struct tuning_best best = tune_best(r->tune);
    bool rewards = r->job.hyper.method == HYPER_REINFORCEMENT;
    double found = rewards ? -best.loss : best.loss;
    if (r->job.step < r->job.n_step)
        job_event_init(r, &v[(*n)++], "message",
                       arena_printf(r->arena,
                                    "Stopped early, behind step %" PRId64 ": %" PRId64
                                    " evaluations have found no %s than that of step %" PRId64
                                    ", %.4f",
                                    r->job.step, best.n_worse,
                                    rewards ? "higher validation reward" : "lower validation loss",
                                    best.step, found));
    if (r->job.hyper.result == HYPER_BEST)
        job_event_init(
            r, &v[(*n)++], "message",
            arena_printf(r->arena, "The result is that of step %" PRId64 ", with the %s, %.4f",
                         best.step,
                         rewards ? "highest validation reward" : "lowest validation loss", found));
}

/* A training that was killed after this was entered, and before its own checkpoint was written,
 * comes here again. */
static int is_entered(struct job_run *r, const char *name, bool *is_there, struct err *e)
{
    struct job_tuned *list;
    size_t n;
    *is_there = false;
    if (list_models(r, &list, &n, e))
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
    struct job_event v[4];
    size_t n_event = 0;
    struct file_row file[JOB_RESULT_FILES];
    describe(r, -1, &t);
    if (job_write_results(r, file, e) ||
        (r->job.hyper.result == HYPER_BEST && tune_best(r->tune).step != r->job.step &&
         be_best(r, &t, e)))
        return -1;
    tell_end(r, v, &n_event);
    struct job_event *made = &v[n_event++];
    r->job.result_files = arena_printf(r->arena, "[\"%s\",\"%s\"]", file[0].id, file[1].id);
    r->job.tuned_model = t.name;
    r->job.finished = (int64_t)time(NULL);
    r->job.state = JOB_SUCCEEDED;
    job_event_init(r, made, "message",
                   arena_printf(r->arena, "New fine-tuned model created: %s", t.name));
    job_event_init(r, &v[n_event++], "message", "The job has successfully completed");
    struct store_change c = {.job = &r->job,
                             .from = 1u << JOB_RUNNING,
                             .event = v,
                             .n_event = n_event,
                             .file = file,
                             .n_file = JOB_RESULT_FILES,
                             .tuned = &t};
    if (!put_model(r, &t, made, e) && !enter(r, &c, e))
        return 0;
    r->job.result_files = "[]"; /* so that the row of a failure is true */
    r->job.tuned_model = NULL;
    r->job.finished = 0;
    r->job.state = JOB_RUNNING;
    return -1;
}

int job_drop_checkpoints(struct job_run *r, size_t keep, int64_t best, struct err *e)
{
    const struct jobs_options *o = &r->jobs->opt;
    struct job_tuned *list;
    size_t n, seen = 0;
    if (list_models(r, &list, &n, e))
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct err why = ERR_INIT;
        bool is_ancestor;
        if (!list[i].is_checkpoint || seen++ < keep || list[i].step == best)
            continue;
        if (store_tuned_is_ancestor(o->store, list[i].owner, list[i].name, &is_ancestor, e))
            return -1;
        if (is_ancestor || !jobs_tuned_drop(o, &list[i], &why))
            continue;
        if (why.code != ERR_NOT_FOUND) /* else its owner was faster */
            return err_set(e, why.code, "%s", why.msg);
    }
    return 0;
}
