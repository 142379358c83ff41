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
#include "engine/base/log.h"
#include "engine/engine.h"
#include "server/jobs/jobs_own.h"
#include "server/metrics/metrics.h"

enum { TEXT_BYTES = 256, DATA_BYTES = 32 << 10, CHECKPOINT_ARENA_BYTES = 16 << 20, PAGE = 1000 };

static void copy_rewards(double to[2], const struct train_result *from)
{
    to[0] = from->reward[0];
    to[1] = from->reward[1];
}

static struct job_metrics metrics_of(const struct job_run *r, const struct tuning_event *v)
{
    bool is_step = v->what == TUNING_STEP, rewards = r->job.hyper.method == HYPER_REINFORCEMENT;
    struct job_metrics m = {.step = v->step,
                            .n_step = v->n_step,
                            .train_loss = is_step ? v->train.loss : -1,
                            .train_accuracy = is_step ? v->train.accuracy : -1,
                            .valid_loss = -1,
                            .valid_accuracy = -1,
                            .full_valid_loss = -1,
                            .full_valid_accuracy = -1,
                            .has_texts = r->job.hyper.method == HYPER_EMBEDDING ||
                                         r->job.hyper.method == HYPER_CLASSIFICATION,
                            .has_pairs = r->job.hyper.method == HYPER_DPO,
                            .has_rewards = rewards && is_step,
                            .has_judged = rewards && !is_step && v->has_valid,
                            .judged = v->rewards.reward};
    if (m.has_rewards) {
        m.reward = v->rewards.reward;
        m.reward_std = v->rewards.deviation;
        m.length = v->rewards.length;
        m.kl = v->train.kl;
        m.n_moved = v->train.n_moved;
        m.n_fault = v->rewards.n_fault;
        m.faults = r->faults.n;
        m.fault_why = r->faults.why;
        m.samples = is_step ? &r->samples : NULL;
        m.clipped = v->train.n_label ? (double)v->train.n_clipped / (double)v->train.n_label : 0;
    }
    copy_rewards(m.train_reward, &v->train);
    copy_rewards(is_step ? m.valid_reward : m.full_valid_reward, &v->valid);
    if (rewards)
        return m;
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
    if (m->has_rewards)
        n += snprintf(text + n, (size_t)(TEXT_BYTES - n), ", reward=%.3f", m->reward);
    if (m->valid_loss >= 0)
        n += snprintf(text + n, (size_t)(TEXT_BYTES - n), ", validation loss=%.2f", m->valid_loss);
    if (m->has_pairs)
        snprintf(text + n, (size_t)(TEXT_BYTES - n), ", reward margin=%.3f",
                 m->train_reward[0] - m->train_reward[1]);
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

/* Outside of the API. */
static void show(struct job_run *r, int64_t step, const char *data)
{
    job_board_add(r, step, data);
    job_wandb_add(r, step, data);
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
    show(r, v->step, data.data);
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
                     job_drop_checkpoints(r, JOB_KEEP, tune_best(r->tune).step, e)
                 ? -1
                 : 0;
    r->arena = whole;
    buf_release(&data);
    arena_release(&here);
    return rc;
}

/* Checkpoints are published as models where the job asked for them and behind each epoch, but for
 * the last where that is the result. Others serve to go on after a kill, and so do all of a full
 * training. */
static bool is_published(const struct job_run *r, const struct tuning_event *v)
{
    const struct job_hyper *h = &r->job.hyper;
    int64_t every = h->checkpoint_steps, looks = h->eval_interval;
    bool is_asked = h->checkpoint_minutes > 0 || (every > 0 && v->step % every == 0) ||
                    (looks > 0 && v->step % looks == 0);
    bool is_result = v->is_last && (h->result != HYPER_BEST || tune_best(r->tune).step == v->step);
    return h->training_type == HYPER_LORA && !is_result &&
           (v->what == TUNING_EPOCH || (v->what == TUNING_SAVE && is_asked));
}

/* What the answers to the validation file's prompts are worth now. */
static int tell_judged(struct job_run *r, const struct tuning_event *v, const struct job_metrics *m,
                       struct err *e)
{
    char text[TEXT_BYTES], data[TEXT_BYTES];
    r->last.has_judged = true;
    r->last.judged = m->judged;
    snprintf(text, sizeof text, "Step %" PRId64 "/%" PRId64 ": validation reward=%.3f", v->step,
             v->n_step, m->judged);
    snprintf(data, sizeof data,
             "{\"step\":%" PRId64 ",\"full_valid_reward_mean\":%.6f,"
             "\"full_valid_completion_tokens_mean\":%.2f,\"full_valid_samples\":%" PRId64
             ",\"full_valid_ungraded_samples\":%" PRId64 "}",
             v->step, m->judged, v->rewards.length, v->rewards.n, v->rewards.n_fault);
    show(r, v->step, data);
    return job_say(r, "message", text, data, e);
}

/* A loss of the whole validation file: its event is the checkpoint's that stands there, if one
 * does. */
static void tell_valid(struct job_run *r, const struct job_metrics *m)
{
    struct buf data;
    buf_init(&data, DATA_BYTES);
    job_metrics_write(m, &data);
    show(r, m->step, data.data);
    buf_release(&data);
}

static int hear(void *ctx, const struct tuning_event *v, struct err *e)
{
    struct job_run *r = ctx;
    struct job_metrics m = metrics_of(r, v);
    if (v->what == TUNING_STEP) {
        r->last = m;
        return on_step(r, v, &m, e);
    }
    if (m.has_judged && tell_judged(r, v, &m, e))
        return -1;
    if (v->has_valid && !m.has_judged) {
        r->last.full_valid_loss = m.full_valid_loss;
        r->last.full_valid_accuracy = m.full_valid_accuracy;
        copy_rewards(r->last.full_valid_reward, &v->valid);
        tell_valid(r, &m);
    }
    return is_published(r, v) ? on_checkpoint(r, v, &m, e) : 0;
}

static bool is_wanted_end(void *ctx)
{
    struct job_run *r = ctx;
    bool cancel = false, pause = false;
    if (atomic_load(&r->jobs->stops) || !store_has_key(r->jobs->opt.store, r->job.owner))
        return true;
    return store_job_asked(r->jobs->opt.store, r->job.id, &cancel, &pause, NULL) || cancel || pause;
}

/* The numbers of the last step, from its event: a training that had taken all its steps before a
 * kill takes none here. */
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
    r->begin_step = tune_step(r->tune);
    if (tune_is_over(r->tune) && recall_last(r, e))
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

int job_stand_still(struct job_run *r, struct err *e)
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
    if (!store_has_key(r->jobs->opt.store, r->job.owner))
        log_event(LOG_WARN, "a job waits: no key has its owner's name any more",
                  LOG_TEXT("job", r->job.id), LOG_TEXT("owner", r->job.owner));
    return 0; /* the server stops, or its owner has no key: it goes on when they are back */
}

static int train(struct job_run *r, const struct tune_options *o, struct err *e)
{
    struct job_event memory;
    bool is_done;
    int rc = job_plan(r, o, &memory, e);
    if (rc)
        return rc < 0 ? -1 : 0;
    if (!r->tune)
        return job_stand_still(r, e);
    if (tune_begin(r->tune, e) || begin(r, &memory, e) || tune_run(r->tune, &is_done, e))
        return -1;
    if (!is_done)
        return job_stand_still(r, e);
    job_policy_retire(r);
    return job_publish_result(r, e);
}

/* What its steps were taken over must be what goes on. The same files in another type may be asked
 * for by mistake, and come back: the job halts; over other files it ends. 1: it does not run. */
static int check_base(struct job_run *r, struct err *e)
{
    const struct engine *g = r->jobs->opt.engine;
    const struct engine_info *on = engine_info(g);
    enum engine_base base = engine_base_match(g, r->job.fingerprint);
    bool is_new = base == ENGINE_BASE_OTHER_TYPES && r->job.step == 0;
    const char *why = arena_printf(
        r->arena, "its base is '%s' (%s), and this server has '%s' (%s)", r->job.model,
        r->job.fingerprint ? r->job.fingerprint : "not known", on->name, on->fingerprint);
    if (base == ENGINE_BASE_SAME || is_new) {
        r->job.fingerprint = on->fingerprint;
        return 0;
    }
    if (base == ENGINE_BASE_OTHER_TYPES)
        return job_move(r, JOB_PAUSED, 1u << JOB_RUNNING, "error",
                        arena_printf(r->arena,
                                     "Fine-tuning job paused: %s. Resume it where its base is "
                                     "served; it goes on from its last checkpoint",
                                     why),
                        e)
                   ? -1
                   : 1;
    return job_fail(r, "base_mismatch", NULL,
                    arena_printf(r->arena, "The job cannot go on: %s.", why), e)
               ? -1
               : 1;
}

int job_train(struct job_run *r, struct err *e)
{
    struct tune_options o;
    int rc = check_base(r, e);
    if (!rc && !job_take_rows(r))
        rc = job_read_files(r, e);
    if (rc)
        return rc < 0 ? -1 : 0;
    job_choose(r);
    job_ask(r, &o);
    rc = job_find_ancestor(r, &o, e);
    if (rc)
        return rc < 0 ? -1 : 0;
    char *checkpoints = jobs_path(r->jobs->opt.dir, "checkpoints", r->job.id);
    char *rows = job_row_log_path(r);
    o.checkpoints = checkpoints;
    o.row_log = rows;
    o.event = hear;
    o.is_wanted_end = is_wanted_end;
    o.ctx = r;
    r->job.n_step = tune_n_step(&o);
    rc = job_policy_begin(r, &o, e) ? -1 : train(r, &o, e);
    bool lacks_place = r->tune && tune_lacks_place(r->tune);
    job_policy_end(r);
    free(checkpoints);
    free(rows);
    if (rc && lacks_place)
        return job_fail(r, "adapters_limit", NULL,
                        arena_printf(r->arena,
                                     "There is no place for the adapter that is sampled: %.300s.",
                                     e->msg),
                        e);
    if (rc && e->code == ERR_DIVERGED) /* the truth, and not a fault of the server */
        return job_fail(r, "training_diverged", NULL, e->msg, e);
    if (rc &&
        e->code == ERR_NO_MEMORY) /* more than its plan, or the machine has less than it had */
        return job_fail(r, "not_enough_memory", NULL, e->msg, e);
    return rc;
}
