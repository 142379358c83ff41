/* SPDX-License-Identifier: Apache-2.0
 *
 * The second stage of a job: training. Each step's event and the job's progress are one
 * transaction; steps that the store has already heard of, before a kill, are computed again and
 * not told again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/engine.h"
#include "server/jobs/jobs_own.h"
#include "server/metrics/metrics.h"

enum {
    TEXT_BYTES = 256,
    DATA_BYTES = 1024,
    CHECKPOINT_ARENA_BYTES = 16 << 20,
    KEEP = 3,
    PAGE = 1000,
    VALID_ROWS = 8,
    VALID_EVERY = 10,
    CHECKPOINT_US = 5 * 60 * 1000000,
    MICRO_BATCH = 2048
};

static const double base_lr = 2e-4, base_lr_full = 2e-5; /* what a multiplier of 1 means */

static struct job_metrics metrics_of(const struct tuning_event *v)
{
    bool is_step = v->what == TUNING_STEP;
    struct job_metrics m = {.step = v->step,
                            .n_step = v->n_step,
                            .train_loss = is_step ? v->train.loss : -1,
                            .train_accuracy = is_step ? v->train.accuracy : -1,
                            .valid_loss = -1,
                            .valid_accuracy = -1,
                            .full_valid_loss = -1,
                            .full_valid_accuracy = -1};
    if (v->has_valid && is_step) {
        m.valid_loss = v->valid.loss;
        m.valid_accuracy = v->valid.accuracy;
    } else if (v->has_valid) {
        m.full_valid_loss = v->valid.loss;
        m.full_valid_accuracy = v->valid.accuracy;
    }
    return m;
}

/* "Step 3/300: training loss=0.22, validation loss=0.27". */
static void step_text(const struct job_metrics *m, char text[TEXT_BYTES])
{
    int n = snprintf(text, TEXT_BYTES, "Step %" PRId64 "/%" PRId64 ": training loss=%.2f", m->step,
                     m->n_step, m->train_loss);
    if (m->valid_loss >= 0)
        snprintf(text + n, (size_t)(TEXT_BYTES - n), ", validation loss=%.2f", m->valid_loss);
}

/* How far the job is, in its row and in what is told of the step. */
static void progress(struct job_run *r, const struct tuning_event *v, struct job_metrics *m)
{
    double s = (double)(clock_us() - r->begin_us) / 1e6;
    int64_t done = v->step - r->begin_step;
    double left = done > 0 ? s / (double)done * (double)(v->n_step - v->step) : 0;
    r->job.step = v->step;
    r->job.trained_tokens = v->n_trained;
    r->job.estimated_finish = (int64_t)time(NULL) + (int64_t)left;
    m->trained_tokens = v->n_trained;
    m->tok_per_s = s > 0 ? (double)r->ran_tok / s : 0;
    m->estimated_finish = r->job.estimated_finish;
}

static int tell(struct job_run *r, const char *message, const char *data, struct err *e)
{
    char id[STORE_ID_BYTES];
    struct job_event ev = {.id = id,
                           .level = "info",
                           .type = "metrics",
                           .message = message,
                           .data = data,
                           .created = (int64_t)time(NULL)};
    store_id("ftevent-", id);
    return store_job_move(r->jobs->opt.store, &r->job, 1u << JOB_RUNNING, &ev, e);
}

static int on_step(struct job_run *r, const struct tuning_event *v, struct job_metrics *m,
                   struct err *e)
{
    char text[TEXT_BYTES];
    struct buf data;
    r->ran_tok += v->train.n_tok;
    if (r->jobs->opt.metrics) {
        metrics_add(r->jobs->opt.metrics, METRIC_train_steps, 0, 1);
        metrics_add(r->jobs->opt.metrics, METRIC_train_tokens, 0, v->train.n_tok);
    }
    if (v->step <= r->job.step)
        return 0;
    progress(r, v, m);
    step_text(m, text);
    buf_init(&data, DATA_BYTES);
    job_metrics_write(m, &data);
    int rc = tell(r, text, data.data, e);
    buf_release(&data);
    return rc;
}

/* A checkpoint answers; what is made for it on the way is not kept until the job's end. Its row has
 * the losses of the step before it; the event has what is new. */
static int on_checkpoint(struct job_run *r, const struct tuning_event *v,
                         const struct job_metrics *m, struct err *e)
{
    struct arena here, *const whole = r->arena;
    struct buf data;
    arena_init(&here, CHECKPOINT_ARENA_BYTES);
    buf_init(&data, DATA_BYTES);
    if (v->has_valid)
        job_metrics_write(m, &data);
    r->arena = &here;
    int rc = job_publish_checkpoint(r, v->step, v->has_valid ? data.data : NULL, e) ||
                     job_drop_checkpoints(r, KEEP, e)
                 ? -1
                 : 0;
    r->arena = whole;
    buf_release(&data);
    arena_release(&here);
    return rc;
}

/* Those that only a kill needs are the training's own, as are whole models; the last is the result.
 */
static bool is_published(const struct job_run *r, const struct tuning_event *v)
{
    const struct job_hyper *h = &r->job.hyper;
    int64_t every = h->checkpoint_steps;
    bool is_asked = h->checkpoint_minutes > 0 || (every > 0 && v->step % every == 0);
    return h->training_type == HYPER_LORA && v->step < v->n_step &&
           (v->what == TUNING_EPOCH || (v->what == TUNING_SAVE && is_asked));
}

static int hear(void *ctx, const struct tuning_event *v, struct err *e)
{
    struct job_run *r = ctx;
    struct job_metrics m = metrics_of(v);
    if (v->what == TUNING_STEP) {
        r->last = m;
        return on_step(r, v, &m, e);
    }
    if (v->has_valid) {
        r->last.full_valid_loss = m.full_valid_loss;
        r->last.full_valid_accuracy = m.full_valid_accuracy;
    }
    return is_published(r, v) ? on_checkpoint(r, v, &m, e) : 0;
}

static bool is_wanted_end(void *ctx)
{
    struct job_run *r = ctx;
    bool cancel = false, pause = false;
    if (atomic_load(&r->jobs->stops))
        return true;
    return store_job_asked(r->jobs->opt.store, r->job.id, &cancel, &pause, NULL) || cancel || pause;
}

/* Tokens that are computed at once: a batch where it is small, and the longest row in any case. */
static int64_t micro_batch(const struct job_run *r)
{
    int64_t longest = r->data.longest > r->valid.longest ? r->data.longest : r->valid.longest;
    int64_t batch = longest * r->job.hyper.batch_size;
    int64_t most = batch < MICRO_BATCH ? batch : MICRO_BATCH;
    return most > longest ? most : longest;
}

/* What is trained, and at what rate. */
static void fill_subject(struct job_run *r, struct train_options *o)
{
    const struct job_hyper *h = &r->job.hyper;
    bool is_full = h->training_type == HYPER_FULL;
    o->lr = (is_full ? base_lr_full : base_lr) * h->lr_multiplier;
    o->lora = (struct train_lora){.rank = is_full ? 0 : h->lora_rank,
                                  .alpha = h->lora_alpha,
                                  .dropout = h->lora_dropout,
                                  .is_rs = h->use_rslora};
    train_lora_split(&o->lora, h->target_modules, r->arena);
}

static void fill_train(struct job_run *r, struct train_options *o)
{
    static const enum train_schedule schedule[] = {TRAIN_LINEAR, TRAIN_CONSTANT, TRAIN_LINEAR,
                                                   TRAIN_COSINE};
    const struct job_hyper *h = &r->job.hyper;
    train_options_default(o);
    fill_subject(r, o);
    o->schedule = schedule[h->schedule];
    o->warmup = h->warmup_steps;
    o->decay = h->weight_decay;
    o->max_norm = h->max_grad_norm;
    o->seed = (uint64_t)r->job.seed;
    o->cap_tok = micro_batch(r);
}

static void fill(struct job_run *r, struct tuning_options *o)
{
    const struct job_hyper *h = &r->job.hyper;
    fill_train(r, &o->train);
    o->n_epoch = h->n_epochs;
    o->batch = h->batch_size;
    o->data = &r->data;
    if (r->job.validation_file) {
        o->valid = &r->valid;
        o->valid_rows = VALID_ROWS;
        o->valid_every = VALID_EVERY;
    }
    o->checkpoint_steps = h->checkpoint_steps;
    o->checkpoint_us =
        h->checkpoint_minutes > 0 ? (int64_t)(h->checkpoint_minutes * 60e6) : CHECKPOINT_US;
    o->keep = KEEP;
    o->logs_logprobs = h->row_logprobs;
    o->event = hear;
    o->is_wanted_end = is_wanted_end;
    o->ctx = r;
}

/* The last step that was told of, for a training that had ended before, and takes none here. */
static int recall_last(struct job_run *r, struct err *e)
{
    struct store_page page = {.limit = PAGE};
    struct job_event *list;
    size_t n, i = 0;
    bool more;
    if (store_event_list(r->jobs->opt.store, r->job.id, &page, r->arena, &list, &n, &more, e))
        return -1;
    while (i < n && strcmp(list[i].type, "metrics") != 0)
        i++;
    if (i < n)
        job_metrics_read(list[i].data, &r->last);
    return 0;
}

/* memory: what the plan says. */
static int begin(struct job_run *r, struct job_event *memory, struct err *e)
{
    struct job_event v[2];
    r->begin_us = clock_us();
    r->begin_step = trainer_n_step(tuning_trainer(r->beside.tuning));
    if (r->begin_step >= r->job.n_step && recall_last(r, e))
        return -1;
    if (r->job.state == JOB_RUNNING)
        return 0;
    if (!r->job.started)
        r->job.started = (int64_t)time(NULL);
    job_event_init(r, &v[0], "message", "Fine-tuning job started");
    v[1] = *memory;
    r->job.state = JOB_RUNNING;
    return store_job_change(
        r->jobs->opt.store,
        &(struct store_change){.job = &r->job, .from = 1u << JOB_QUEUED, .event = v, .n_event = 2},
        e);
}

/* The training ended before its end: who wanted that? */
static int stand_still(struct job_run *r, struct err *e)
{
    bool cancel, pause;
    if (store_job_asked(r->jobs->opt.store, r->job.id, &cancel, &pause, e))
        return -1;
    if (cancel) {
        r->job.finished = (int64_t)time(NULL);
        return job_move(r, JOB_CANCELLED, 1u << JOB_RUNNING, "info", "Fine-tuning job cancelled",
                        e);
    }
    if (pause)
        return job_move(r, JOB_PAUSED, 1u << JOB_RUNNING, "info", "Fine-tuning job paused", e);
    return 0; /* the server stops: the job goes on when it is back */
}

/* The weights that are served are trained, or for a full training a copy of them, which is its own.
 */
static int train(struct job_run *r, struct tuning_options *o, struct err *e)
{
    const struct resident *on = engine_resident(r->jobs->opt.engine);
    bool copies = r->job.hyper.training_type == HYPER_FULL;
    struct crew_seat seat = {.model = on->model,
                             .dir = &on->dir,
                             .device = on->device,
                             .gate = engine_gate(r->jobs->opt.engine),
                             .comm = on->crew ? crew_beside(on->crew) : NULL};
    struct job_event memory;
    bool is_done;
    int rc = job_plan(r, o, &memory, e);
    if (rc)
        return rc < 0 ? -1 : 0;
    if (beside_begin(&r->beside, &seat, on->crew, o, copies ? job_copy_type(on) : -1, e) ||
        begin(r, &memory, e) || beside_run(&r->beside, &is_done, e))
        return -1;
    return is_done ? job_publish_result(r, e) : stand_still(r, e);
}

int job_train(struct job_run *r, struct err *e)
{
    struct tuning_options o = {.n_epoch = 0};
    int rc = job_read_files(r, e);
    if (rc)
        return rc < 0 ? -1 : 0;
    job_choose(r);
    fill(r, &o);
    char *checkpoints = jobs_path(r->jobs->opt.dir, "checkpoints", r->job.id);
    char *rows = job_row_log_path(r);
    o.checkpoints = checkpoints;
    o.row_log = rows;
    r->job.n_step = tuning_n_step(&o);
    rc = train(r, &o, e);
    free(checkpoints);
    free(rows);
    if (rc && e->code == ERR_DIVERGED) /* the truth, and not a fault of the server */
        return job_fail(r, "training_diverged", NULL, e->msg, e);
    if (rc &&
        e->code == ERR_NO_MEMORY) /* more than its plan, or the machine has less than it had */
        return job_fail(r, "not_enough_memory", NULL, e->msg, e);
    return rc;
}
