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

#include "api/grader.h"
#include "api/job.h"
#include "engine/engine.h"
#include "engine/tune.h"
#include "server/desk/page.h"
#include "server/desk/retry.h"
#include "server/desk/tuning.h"
#include "server/http/limit.h"
#include "server/http/route.h"
#include "server/jobs/jobs.h"
#include "server/server.h"

enum {
    WAIT_RUNS = 300, /* times the desk's pause: half a minute */
    PROOF_BYTES = 64 << 20
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

/* The field that a hyperparameter is. */
static const char *field_of(struct errand *t, const struct job_hyper *h, const char *name)
{
    return arena_printf(&t->arena, "method.%s.hyperparameters.%s", hyper_method_name(h->method),
                        name);
}

/* An adapter that is trained further stays what it is: what a client says otherwise is an error,
 * and what it leaves out is the adapter's. */
static int take_adapter(struct errand *t, const struct jobs_ancestor *from, struct job_hyper *h,
                        struct api_error *e)
{
    const struct train_lora *l = &from->made.lora;
    const char *wrong =
        h->training_type == HYPER_FULL                                           ? "training_type"
        : h->lora_rank && h->lora_rank != l->rank                                ? "lora_rank"
        : h->lora_alpha != 0 && h->lora_alpha != l->alpha                        ? "lora_alpha"
        : h->says_rslora && h->use_rslora != l->is_rs                            ? "use_rslora"
        : h->says_dora && h->use_dora != l->is_dora                              ? "use_dora"
        : h->says_targets && !tune_ancestor_has(&from->made, h->target_modules)  ? "target_modules"
        : h->says_saves && !tune_ancestor_saves(&from->made, h->modules_to_save) ? "modules_to_save"
                                                                                 : NULL;
    if (wrong)
        return api_fail(
            e, 400, "invalid_value", field_of(t, h, wrong),
            "'%.100s' has the rank %lld, the alpha %g, use_rslora %s, use_dora %s, the target modules "
            "%s and the modules to save '%s': a job that goes on from it leaves these out, or says "
            "the same.",
            from->model.name, (long long)l->rank, l->alpha, l->is_rs ? "true" : "false",
            l->is_dora ? "true" : "false", from->made.targets, from->made.saves);
    if (strlen(from->made.targets) >= sizeof h->target_modules)
        return api_fail(e, 400, "model_not_supported", "model",
                        "The model's adapter has too many modules to go on from it.");
    h->lora_rank = l->rank;
    h->lora_alpha = l->alpha;
    h->use_rslora = l->is_rs;
    h->use_dora = l->is_dora;
    snprintf(h->target_modules, sizeof h->target_modules, "%s", from->made.targets);
    snprintf(h->modules_to_save, sizeof h->modules_to_save, "%s", from->made.saves);
    return 0;
}

/* No tuned model of this key. */
static int refuse_model(struct errand *t, const char *name, struct api_error *e)
{
    struct engine *g = desk_engine(t->desk);
    struct adapter *served = engine_adapter_get(g, name);
    bool is_others = (served || engine_adapter_knows(g, name)) &&
                     engine_adapter_may_use(g, name, t->ask->who->name);
    adapter_unref(served);
    if (is_others)
        return api_fail(e, 400, "model_not_supported", "model",
                        "A job goes on from the base, '%.100s', or from a model that a job of this "
                        "key made; this one is neither.",
                        engine_info(g)->name);
    return api_fail(e, 404, "model_not_found", "model",
                    "No model of this name is served here; GET /v1/models lists them.");
}

/* What a creation keeps between two turns: the model's files are many bytes, and others wait for
 * the desk as well. */
struct ancestry {
    struct jobs_ancestor from;
    struct made_proof proof;
};

static void ancestry_end(void *ctx)
{
    struct ancestry *k = ctx;
    made_proof_end(&k->proof);
}

static int refuse_ancestor(struct errand *t, const char *name, const struct err *why,
                           struct api_error *e)
{
    return why->code == ERR_NOT_FOUND ? refuse_model(t, name, e)
           : why->code == ERR_UNSUPPORTED
               ? api_fail(e, 400, "model_not_supported", "model", "%s.", why->msg)
           : why->code == ERR_CORRUPT ? api_fail(e, 500, "model_altered", "model", "%s.", why->msg)
                                      : api_fail_err(e, why, "model");
}

static struct ancestry *begin_ancestry(struct errand *t, const char *name, struct err *e)
{
    const struct jobs_options o = {.engine = desk_engine(t->desk),
                                   .store = desk_store(t->desk),
                                   .dir = desk_options(t->desk)->dir};
    struct ancestry *k = ARENA_NEW(&t->arena, struct ancestry);
    *k = (struct ancestry){.proof = {NULL}};
    if (jobs_ancestor_look(&o, t->ask->who->name, name, &t->arena, &k->from, e))
        return NULL;
    arena_defer(&t->arena, ancestry_end, k);
    t->kept = k;
    return k;
}

/* The base, or a tuned model that the job goes on from. 1: its files are still looked at. */
static int check_model(struct errand *t, struct job *job, struct api_error *e)
{
    const struct engine_info *on = engine_info(desk_engine(t->desk));
    struct err why = ERR_INIT;
    if (strcmp(job->model, on->name) == 0)
        return 0;
    struct ancestry *k = t->kept ? t->kept : begin_ancestry(t, job->model, &why);
    int rc = k ? jobs_ancestor_prove(&k->from, &k->proof, PROOF_BYTES, &why) : -1;
    if (rc > 0)
        return 1;
    if (rc < 0 || jobs_ancestor_read(&k->from, &t->arena, &why))
        return refuse_ancestor(t, job->model, &why, e);
    job->ancestor = job->model;
    job->ancestor_digest = arena_strdup(&t->arena, k->from.made.is.digest);
    job->model = on->name;
    return take_adapter(t, &k->from, &job->hyper, e);
}

/* Whether what a row counts is known behind its forward alone. */
static bool weighs_labels(const struct job_hyper *h)
{
    return h->method == HYPER_DPO || h->method == HYPER_REINFORCEMENT;
}

/* What the model that is served has to say to the hyperparameters. */
static int check_hyper(struct errand *t, const struct job_hyper *h, struct api_error *e)
{
    struct engine *g = desk_engine(t->desk);
    struct err why = ERR_INIT;
    int64_t most = engine_info(g)->max_lora_rank;
    if (h->training_type == HYPER_FULL &&
        (h->lora_rank || h->lora_alpha != 0 || h->lora_dropout != 0 || h->use_rslora ||
         h->use_dora || h->lora_lr_ratio != 0 || *h->target_modules || *h->modules_to_save))
        return api_fail(e, 400, "invalid_value", field_of(t, h, "training_type"),
                        "A full training has no adapter: lora_*, loraplus_lr_ratio, use_rslora, "
                        "use_dora, target_modules and modules_to_save are for the type 'lora'.");
    if (h->training_type == HYPER_FULL && tune_check_full(g, &why))
        return api_fail(e, 400, "invalid_value", field_of(t, h, "training_type"), "%s.", why.msg);
    if (tune_check_method(g, h->method == HYPER_EMBEDDING, h->method == HYPER_CLASSIFICATION, &why))
        return api_fail(e, 400, "invalid_value", "method.type", "%s.", why.msg);
    if (h->method == HYPER_REINFORCEMENT && tune_check_rewards(g, &why))
        return api_fail(e, 400, "invalid_value", "method.type", "%s.", why.msg);
    if (tune_check_group(g, h->group_size, &why))
        return api_fail(e, 400, "invalid_value", field_of(t, h, "group_size"), "%s.", why.msg);
    if (tune_check_group(g, h->eval_samples, &why))
        return api_fail(e, 400, "invalid_value", field_of(t, h, "eval_samples"), "%s.", why.msg);
    if (most == 0 && h->training_type != HYPER_FULL)
        return api_fail(e, 400, "model_not_supported", "model",
                        "This server has no room for adapters (--max-adapters): a job may train "
                        "all of the model, with 'training_type' \"full\".");
    if (h->lora_rank > most)
        return api_fail(e, 400, "invalid_value", field_of(t, h, "lora_rank"),
                        "'lora_rank' may be at most %lld here: the server's --max-lora-rank.",
                        (long long)most);
    struct train_lora l = {.rank = 1, .dropout = h->lora_dropout};
    if (tune_check_lora(g, l, h->target_modules, &why))
        return api_fail(e, 400, "invalid_value", field_of(t, h, "target_modules"), "%s.", why.msg);
    l.is_dora = h->use_dora;
    if (tune_check_lora(g, l, h->target_modules, &why))
        return api_fail(e, 400, "invalid_value", field_of(t, h, "use_dora"), "%s.", why.msg);
    if (*h->modules_to_save && tune_check_saves(g, h->modules_to_save, weighs_labels(h), &why))
        return api_fail(e, 400, "invalid_value", field_of(t, h, "modules_to_save"), "%s.", why.msg);
    return 0;
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
    int64_t all, waiting, bytes = 0;
    if (!rule)
        return 0;
    if (store_job_count(desk_store(t->desk), t->ask->who->name, &all, &waiting, &why))
        return api_fail_err(e, &why, NULL);
    if (rule->model_bytes && tuning_models_bytes(t, &bytes, &why))
        return api_fail_err(e, &why, NULL);
    if (rule->model_bytes && bytes >= rule->model_bytes)
        return api_fail(e, 400, "models_quota_exceeded", NULL,
                        "Models that jobs of this API key made have %lld bytes, and may have %lld "
                        "(model_bytes): delete some of them.",
                        (long long)bytes, (long long)rule->model_bytes);
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
    struct retry r;
    char event[STORE_ID_BYTES], text[128];
    retry_of(t, &r);
    snprintf(text, sizeof text, "Created fine-tuning job: %s", job->id);
    make_event(&v, event, text);
    if (check_count(t, t->ask->who->rule, e)) { /* what was made before is no further one */
        if (r.within_s < 0 ||
            store_job_retry(s, job, r.name, r.body, r.within_s, &t->arena, &found, &why) ||
            !found.id)
            return ERRAND_FAILED;
        return tell_job(t, &found);
    }
    if (store_job_add(s, job, &v, r.name, r.body, r.within_s, &t->arena, &found, &why))
        return why.code == ERR_EXISTS ? retry_conflict(e) : errand_fail(&why, e);
    if (found.id)
        return tell_job(t, &found);
    desk_wake_jobs(t->desk);
    return tell_job(t, job);
}

/* What a grammar refuses is told now, and not by a job that fails. */
static int check_format(struct errand *t, const struct constraint *c, struct api_error *e)
{
    struct err why = ERR_INIT;
    if (c->kind == CONSTRAINT_NONE)
        return 0;
    struct masks *m = engine_constraint(desk_engine(t->desk), c, t->ask->who->tenant, &why);
    if (!m)
        return api_fail_err(e, &why, c->field);
    masks_unref(m);
    return 0;
}

static enum errand_end work_add(struct errand *t, struct api_error *e)
{
    struct job_ask ask;
    char id[STORE_ID_BYTES];
    if (job_ask_parse(t->ask->body, t->ask->n_body, &t->arena, &ask, e))
        return ERRAND_FAILED;
    int rc = check_model(t, &ask.job, e);
    if (rc > 0)
        return ERRAND_AGAIN;
    if (rc || check_hyper(t, &ask.job.hyper, e) ||
        (ask.grader && grader_check(ask.grader, &desk_options(t->desk)->graders, e)) ||
        check_format(t, &ask.format, e) ||
        errand_file(t, ask.job.training_file, "fine-tune", "training_file", e) ||
        (ask.job.validation_file &&
         errand_file(t, ask.job.validation_file, "fine-tune", "validation_file", e)))
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
    if (t && !retry_read(c, t))
        errand_send(t, work_add);
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
    job->error_code = NULL; /* of a full disk */
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
    case JOB_PAUSED: /* of a full disk: it stays so */
        return job.error_code ? move(t, &job, JOB_PAUSED, "Fine-tuning job paused", e)
                              : tell_job(t, &job);
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
