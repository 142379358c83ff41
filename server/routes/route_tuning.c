/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/fine_tuning/jobs: made, shown, cancelled, paused, resumed.
 *
 * What nobody works on changes its row here, by a move that looks at the state; a job that runs is
 * asked, and the answer waits until the job thread has come to the end of a step and said so: so a
 * client that reads "cancelled" or "paused" reads what is. When that takes longer than WAIT_RUNS
 * looks, the answer is the job as it stands; the wish stands too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "api/job.h"
#include "engine/base/sha256.h"
#include "engine/engine.h"
#include "engine/tune.h"
#include "server/desk/page.h"
#include "server/desk/tuning.h"
#include "server/http/limit.h"
#include "server/http/route.h"
#include "server/server.h"

enum {
    WAIT_RUNS = 300, /* times the desk's pause: half a minute */
    RETRY_S = 600,
    KEY_S = 24 * 60 * 60,
    KEY_BYTES_MAX = 255
};

static enum errand_end tell_job(struct errand *t, const struct job *job)
{
    struct jout j = jout_on(&t->out);
    job_write(&j, job);
    return ERRAND_DONE;
}

static void make_event(struct job_event *v, char id[STORE_ID_BYTES], const char *message)
{
    store_id("ftevent-", id);
    *v = (struct job_event){.id = id,
                            .level = "info",
                            .type = "message",
                            .message = message,
                            .created = (int64_t)time(NULL)};
}

/* ---- making -------------------------------------------------------------------------------- */

static int check_model(struct errand *t, const char *name, struct api_error *e)
{
    struct engine *g = desk_engine(t->desk);
    if (strcmp(name, engine_info(g)->name) == 0)
        return 0;
    size_t cap = engine_adapters(g, NULL, 0) + 16;
    struct engine_adapter_info *at = ARENA_ARRAY(&t->arena, struct engine_adapter_info, cap);
    size_t n = engine_adapters(g, at, cap);
    for (size_t i = 0; i < n && i < cap; i++)
        if (strcmp(at[i].name, name) == 0 && engine_adapter_may_use(g, name, t->ask->who->name))
            return api_fail(e, 400, "model_not_supported", "model",
                            "Training goes on from the base, '%.100s'; a tuned model cannot be "
                            "trained further here.",
                            engine_info(g)->name);
    return api_fail(e, 404, "model_not_found", "model",
                    "No model of this name is served here; GET /v1/models lists them.");
}

/* The field that a hyperparameter is. */
static const char *field_of(struct errand *t, const struct job_hyper *h, const char *name)
{
    return arena_printf(&t->arena, "method.%s.hyperparameters.%s", hyper_method_name(h->method),
                        name);
}

/* What the model that is served has to say to the hyperparameters. */
static int check_hyper(struct errand *t, const struct job_hyper *h, struct api_error *e)
{
    struct engine *g = desk_engine(t->desk);
    struct err why = ERR_INIT;
    int64_t most = engine_info(g)->max_lora_rank;
    if (h->training_type == HYPER_FULL &&
        (h->lora_rank || h->lora_alpha != 0 || h->lora_dropout != 0 || h->use_rslora ||
         *h->target_modules))
        return api_fail(e, 400, "invalid_value", field_of(t, h, "training_type"),
                        "A full training has no adapter: lora_*, use_rslora and target_modules "
                        "are for the type 'lora'.");
    if (h->lora_rank > most)
        return api_fail(e, 400, "invalid_value", field_of(t, h, "lora_rank"),
                        "'lora_rank' may be at most %lld here: the server's --max-lora-rank.",
                        (long long)most);
    if (tune_check_targets(g, h->target_modules, &why))
        return api_fail(e, 400, "invalid_value", field_of(t, h, "target_modules"), "%s.", why.msg);
    return 0;
}

/* Under which name the same creation is known again, and the body's digest, in text. The digest of
 * a first try is a name too, for the retry that may follow, but nothing is looked for under it: two
 * creations alike are two jobs. */
static const char *retry_name(struct errand *t, char text[SHA256_TEXT_BYTES], int64_t *within_s)
{
    uint8_t digest[SHA256_BYTES];
    sha256_of(t->ask->body, t->ask->n_body, digest);
    sha256_text(digest, text);
    *within_s = t->retry_key ? KEY_S : t->is_retry ? RETRY_S : -1;
    return t->retry_key ? arena_printf(&t->arena, "key:%s", t->retry_key)
                        : arena_printf(&t->arena, "body:%s", text);
}

static int64_t draw_seed(void)
{
    uint32_t draw;
    if (getrandom(&draw, sizeof draw, 0) != sizeof draw)
        draw = (uint32_t)time(NULL);
    return draw & INT32_MAX;
}

/* The jobs of a key have limits: of the table's rows, and of what others' jobs wait for. */
static int check_count(struct errand *t, const struct limit_rule *rule, struct api_error *e)
{
    struct err why = ERR_INIT;
    int64_t all, waiting;
    if (!rule || (!rule->jobs && !rule->jobs_waiting))
        return 0;
    if (store_job_count(desk_store(t->desk), t->ask->who->name, &all, &waiting, &why))
        return api_fail_err(e, &why, NULL);
    if (rule->jobs_waiting && waiting >= rule->jobs_waiting)
        return api_fail(e, 429, "jobs_waiting_limit", NULL,
                        "This API key has %lld jobs that have not ended, and may have %lld "
                        "(jobs_waiting): wait for one to end, or cancel one.",
                        (long long)waiting, (long long)rule->jobs_waiting);
    if (rule->jobs && all >= rule->jobs) {
        api_fail(e, 429, "jobs_limit", NULL,
                 "This API key has %lld jobs, and may have %lld (jobs): ask who runs the server "
                 "for more.",
                 (long long)all, (long long)rule->jobs);
        e->no_retry = true;
        return -1;
    }
    return 0;
}

static enum errand_end add(struct errand *t, struct job *job, struct api_error *e)
{
    struct store *s = desk_store(t->desk);
    struct err why = ERR_INIT;
    struct job found;
    struct job_event v;
    char event[STORE_ID_BYTES], text[128], digest[SHA256_TEXT_BYTES];
    int64_t within_s;
    const char *retry = retry_name(t, digest, &within_s);
    snprintf(text, sizeof text, "Created fine-tuning job: %s", job->id);
    make_event(&v, event, text);
    if (check_count(t, t->ask->who->rule, e)) { /* what was made before is no further one */
        if (within_s < 0 ||
            store_job_retry(s, job, retry, digest, within_s, &t->arena, &found, &why) || !found.id)
            return ERRAND_FAILED;
        return tell_job(t, &found);
    }
    if (store_job_add(s, job, &v, retry, digest, within_s, &t->arena, &found, &why)) {
        if (why.code != ERR_EXISTS)
            return errand_fail(&why, e);
        api_fail(e, 400, "idempotency_key_reused", "Idempotency-Key",
                 "This Idempotency-Key came with another body before.");
        return ERRAND_FAILED;
    }
    if (found.id)
        return tell_job(t, &found);
    desk_wake_jobs(t->desk);
    return tell_job(t, job);
}

static enum errand_end work_add(struct errand *t, struct api_error *e)
{
    struct job_ask ask;
    char id[STORE_ID_BYTES];
    if (job_ask_parse(t->ask->body, t->ask->n_body, &t->arena, &ask, e) ||
        check_model(t, ask.job.model, e) || check_hyper(t, &ask.job.hyper, e) ||
        tuning_file(t, ask.job.training_file, "training_file", e) ||
        (ask.job.validation_file && tuning_file(t, ask.job.validation_file, "validation_file", e)))
        return ERRAND_FAILED;
    store_id("ftjob-", id);
    t->ignored = ask.ignored;
    ask.job.id = id;
    ask.job.owner = t->ask->who->name;
    ask.job.created = (int64_t)time(NULL);
    ask.job.state = JOB_VALIDATING;
    ask.job.fingerprint = engine_info(desk_engine(t->desk))->fingerprint;
    if (!ask.has_seed)
        ask.job.seed = draw_seed();
    return add(t, &ask.job, e);
}

void route_job_add(struct call *c)
{
    struct errand *t = errand_new(c);
    struct api_error e;
    if (!t)
        return;
    const char *count = call_header(c, "x-stainless-retry-count");
    t->retry_key = call_header(c, "Idempotency-Key");
    t->is_retry = count && strcmp(count, "0") != 0;
    if (t->retry_key && (!*t->retry_key || strlen(t->retry_key) > KEY_BYTES_MAX)) {
        api_fail(&e, 400, "invalid_value", "Idempotency-Key", "It has from 1 to %d bytes.",
                 KEY_BYTES_MAX);
        errand_refuse(t, &e);
    } else {
        if (t->retry_key)
            t->retry_key = arena_strdup(&t->arena, t->retry_key);
        errand_send(t, work_add);
    }
}

static enum errand_end work_get(struct errand *t, struct api_error *e)
{
    struct job job;
    return tuning_job(t, &job, e) ? ERRAND_FAILED : tell_job(t, &job);
}

void route_job(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_get);
}

/* ---- changing ------------------------------------------------------------------------------ */

static bool is_over(enum job_state s)
{
    return s == JOB_SUCCEEDED || s == JOB_FAILED || s == JOB_CANCELLED;
}

static enum errand_end conflict(const struct job *job, const char *what, struct api_error *e)
{
    api_fail(e, 400, "invalid_job_state", NULL, "The job is %s and cannot be %s.",
             job_state_name(job->state), what);
    return ERRAND_FAILED;
}

static bool may_wait(const struct errand *t)
{
    return t->n_run < WAIT_RUNS && !server_is_draining(call_server(t->call));
}

/* A job that nobody works on; when its state changed meanwhile, all is looked at again. */
static enum errand_end move(struct errand *t, struct job *job, enum job_state to,
                            const char *message, struct api_error *e)
{
    struct err why = ERR_INIT;
    struct job_event v;
    char event[STORE_ID_BYTES];
    unsigned from = 1u << job->state;
    job->state = to;
    if (to == JOB_CANCELLED)
        job->finished = (int64_t)time(NULL);
    make_event(&v, event, message);
    if (!store_job_move(desk_store(t->desk), job, from, &v, &why)) {
        desk_wake_jobs(t->desk);
        return tell_job(t, job);
    }
    return why.code == ERR_BUSY && may_wait(t) ? ERRAND_AGAIN : errand_fail(&why, e);
}

/* The wish is written once; then the row is looked at until it is so. */
static enum errand_end wish(struct errand *t, const struct job *job, bool cancel,
                            struct api_error *e)
{
    struct err why = ERR_INIT;
    bool is_written = cancel ? job->wants_cancel : job->wants_pause;
    if (!is_written &&
        store_job_ask(desk_store(t->desk), job->owner, job->id, cancel, !cancel, &why))
        return why.code == ERR_BUSY ? ERRAND_AGAIN : errand_fail(&why, e);
    desk_wake_jobs(t->desk);
    return may_wait(t) ? ERRAND_AGAIN : tell_job(t, job);
}

static enum errand_end work_cancel(struct errand *t, struct api_error *e)
{
    struct job job;
    if (tuning_job(t, &job, e))
        return ERRAND_FAILED;
    if (job.state == JOB_CANCELLED && t->n_run > 0)
        return tell_job(t, &job);
    if (is_over(job.state))
        return conflict(&job, "cancelled", e);
    if (job.state == JOB_RUNNING)
        return wish(t, &job, true, e);
    return move(t, &job, JOB_CANCELLED, "Fine-tuning job cancelled", e);
}

void route_job_cancel(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_cancel);
}

/* A job is validated first: what is paused before is looked at again when it is queued. */
static enum errand_end work_pause(struct errand *t, struct api_error *e)
{
    struct job job;
    if (tuning_job(t, &job, e))
        return ERRAND_FAILED;
    switch (job.state) {
    case JOB_PAUSED:
        return tell_job(t, &job);
    case JOB_RUNNING:
        return wish(t, &job, false, e);
    case JOB_QUEUED:
        return move(t, &job, JOB_PAUSED, "Fine-tuning job paused", e);
    case JOB_VALIDATING:
        return may_wait(t) ? ERRAND_AGAIN : conflict(&job, "paused yet", e);
    default:
        return conflict(&job, "paused", e);
    }
}

void route_job_pause(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_pause);
}

/* What its steps were taken over must be what goes on. */
static int check_base(struct errand *t, const struct job *job, struct api_error *e)
{
    const struct engine *g = desk_engine(t->desk);
    enum engine_base base = engine_base_match(g, job->fingerprint);
    if (base == ENGINE_BASE_SAME || (base == ENGINE_BASE_OTHER_TYPES && job->step == 0))
        return 0;
    return api_fail(e, 400, "base_mismatch", NULL,
                    "The job is over the base '%.100s' (%s), and this server has '%.100s' (%s): it "
                    "goes on where its base is served.",
                    job->model, job->fingerprint ? job->fingerprint : "not known",
                    engine_info(g)->name, engine_info(g)->fingerprint);
}

static enum errand_end work_resume(struct errand *t, struct api_error *e)
{
    struct job job;
    if (tuning_job(t, &job, e))
        return ERRAND_FAILED;
    if (job.state != JOB_PAUSED)
        return conflict(&job, "resumed", e);
    if (check_base(t, &job, e))
        return ERRAND_FAILED;
    return move(t, &job, JOB_QUEUED, "Fine-tuning job resumed", e);
}

void route_job_resume(struct call *c)
{
    struct errand *t = errand_new(c);
    if (t)
        errand_send(t, work_resume);
}
