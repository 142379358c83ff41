/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank trains; the first says how far all are, and puts away what they made.
 */
#include "clients/local/train_rank.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/made.h"
#include "engine/base/mem.h"
#include "engine/model/export.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/full_dir.h"
#include "engine/train/plan.h"
#include "engine/train/preference.h"
#include "engine/train/saved.h"

enum { TARGETS_MAX = TRAIN_TARGET_MAX, BAR = 24 };

/* Ctrl-C ends the training behind a checkpoint; a second one at once. */
static volatile sig_atomic_t is_stopped;

static void stop(int signal_number)
{
    is_stopped = 1;
    signal(signal_number, SIG_DFL);
}

char *train_path(const struct train *t, const char *name)
{
    size_t n = strlen(t->v->out) + strlen(name) + 2;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s", t->v->out, name);
    return path;
}

static void show(struct train *t, const struct tuning_event *v)
{
    double s = (double)(clock_us() - t->begin_us) / 1e6;
    int64_t done = v->step - t->first_step;
    double left = done > 0 ? s / (double)done * (double)(v->n_step - v->step) : 0;
    int full = (int)(BAR * v->step / v->n_step);
    t->n_tok += v->train.n_tok;
    if (t->has_terminal)
        fprintf(stderr,
                "\r\033[K[%.*s%.*s] step %" PRId64 "/%" PRId64 "  loss %.4f  %.0f tokens/s  "
                "%02d:%02d left",
                full, "########################", BAR - full, "........................", v->step,
                v->n_step, v->train.loss, (double)t->n_tok / s, (int)(left / 60),
                (int)fmod(left, 60));
    else
        fprintf(stderr,
                "step %" PRId64 "/%" PRId64 "  loss %.4f  accuracy %.3f  norm %.3f  "
                "%.0f tokens/s\n",
                v->step, v->n_step, v->train.loss, v->train.accuracy, v->train.grad_norm,
                (double)t->n_tok / s);
}

/* Columns of steps.csv. */
static void put_result(const struct train *t, bool is_there, const struct train_result *r)
{
    bool has_pairs = train_of_preferences(t->v);
    if (is_there)
        fprintf(t->csv, ",%.6f,%.6f", r->loss, r->accuracy);
    if (is_there && has_pairs)
        fprintf(t->csv, ",%.6f", r->reward[0] - r->reward[1]);
    if (!is_there)
        fputs(has_pairs ? ",,," : ",,", t->csv);
}

static int hear(void *ctx, const struct tuning_event *v, struct err *e)
{
    struct train *t = ctx;
    (void)e;
    if (v->what == TUNING_STEP) {
        fprintf(t->csv, "%" PRId64, v->step);
        put_result(t, true, &v->train);
        put_result(t, v->has_valid, &v->valid);
        fputc('\n', t->csv);
        show(t, v);
    } else if (v->has_valid) {
        bool is_epoch = v->what == TUNING_EPOCH;
        fprintf(stderr, "%s%s %" PRId64 ": validation loss %.4f, accuracy %.3f\n",
                t->has_terminal ? "\r\033[K" : "", is_epoch ? "epoch" : "step",
                is_epoch ? v->epoch : v->step, v->valid.loss, v->valid.accuracy);
    }
    return fflush(t->csv) ? err_sys(e, "steps.csv") : 0;
}

static bool is_wanted_end(void *ctx)
{
    (void)ctx;
    return is_stopped;
}

static enum train_schedule schedule_of(const char *name)
{
    return strcmp(name, "linear") == 0   ? TRAIN_LINEAR
           : strcmp(name, "cosine") == 0 ? TRAIN_COSINE
                                         : TRAIN_CONSTANT;
}

bool train_of_preferences(const struct train_values *v)
{
    return strcmp(v->method, "dpo") == 0;
}

bool train_of_pairs(const struct train_values *v)
{
    return train_of_preferences(v) && preference_find(v->loss) != TRAIN_KTO;
}

struct dataset_texts train_texts(const struct train *t)
{
    bool has_labels = strcmp(t->v->method, "x_classification") == 0;
    if (!has_labels && strcmp(t->v->method, "x_embedding") != 0)
        return (struct dataset_texts){.n_label = 0};
    struct dataset_texts texts = dataset_texts_of(&t->on.dir.config, has_labels);
    texts.label = (const char *const *)t->on.dir.labels.name;
    return texts;
}

int train_check_method(const struct train *t, struct err *e)
{
    const struct config *c = &t->on.dir.config;
    const char *want = c->classifier   ? "x_classification"
                       : c->is_encoder ? "x_embedding"
                                       : t->v->method;
    if (train_texts(t).loss && t->n_tensor > 1)
        return err_set(e, ERR_UNSUPPORTED, "--method %s: not where ranks share the model (--tp)",
                       t->v->method);
    bool fits = strcmp(want, t->v->method) == 0 && (c->is_encoder || !train_texts(t).loss);
    return fits ? 0
                : err_set(e, ERR_BAD_INPUT, "--method %s: the model %s", t->v->method,
                          c->classifier   ? "has labels: --method x_classification"
                          : c->is_encoder ? "gives vectors: --method x_embedding"
                                          : "writes text");
}

/* An adapter to random weights would have nothing to adapt. */
static int64_t rank_of(const struct train_values *v)
{
    return strcmp(v->init, "random") == 0 ? 0 : v->rank;
}

int train_saves(const struct train_values *v, struct train_lora *l, struct err *e)
{
    l->saves = 0;
    for (size_t i = 0; i < v->save_module.n; i++) {
        unsigned one;
        if (train_saved_parse(v->save_module.at[i], &one, e))
            return -1;
        l->saves |= one;
    }
    return 0;
}

int train_fill(struct train *t, const struct train_ranks *ranks, struct tuning_options *o,
               struct err *e)
{
    const struct train_values *v = t->v;
    train_options_default(&o->train);
    o->train.lora =
        v->from
            ? t->lora
            : (struct train_lora){
                  .rank = rank_of(v), .alpha = v->alpha, .is_rs = v->rslora, .is_dora = v->dora};
    o->train.lora.dropout = v->dropout;
    o->train.lora.lr_ratio = v->lora_lr_ratio;
    o->train.noise = v->noise;
    o->train.distill = v->distill;
    o->ancestor = t->ancestor;
    o->train.has_ancestor = v->from != NULL;
    if (train_of_preferences(v)) {
        o->train.preference = (struct train_preference){.loss = preference_find(v->loss),
                                                        .beta = v->beta,
                                                        .gamma = v->gamma,
                                                        .desirable = v->desirable_weight,
                                                        .undesirable = v->undesirable_weight};
        train_preference_default(&o->train.preference);
    }
    o->train.vectors = (struct train_vectors){.loss = t->data.opt.texts.loss,
                                              .scale = v->scale > 0 ? v->scale : TRAIN_SCALE,
                                              .n_each = dataset_n_each(&t->data)};
    if (v->target.n > TARGETS_MAX)
        return err_set(e, ERR_BAD_INPUT, "--target: at most %d", TARGETS_MAX);
    for (size_t i = 0; i < v->target.n && !v->from; i++)
        o->train.lora.target[o->train.lora.n_target++] = v->target.at[i];
    if (!v->from && train_saves(v, &o->train.lora, e))
        return -1;
    o->train.lr = v->lr;
    o->train.schedule = schedule_of(v->schedule);
    o->train.warmup = v->warmup;
    o->train.decay = v->decay;
    o->train.has_codes = strcmp(v->optimizer, "adamw_8bit") == 0;
    o->train.max_norm = v->clip;
    o->train.seed = (uint64_t)v->seed;
    o->train.cap_tok = v->micro;
    o->n_epoch = v->epochs;
    o->batch = v->batch;
    o->data = &t->data;
    o->valid = v->valid ? &t->valid : NULL;
    o->checkpoint_steps = v->checkpoint_steps;
    o->keep = (int)v->keep;
    o->keeps_best = strcmp(v->result, "best") == 0;
    o->patience = v->early_stopping;
    if (v->warmup == 0)
        o->train.warmup = train_warmup(v->warmup_ratio, tuning_n_step(o));
    o->train.ranks = *ranks;
    if (!train_is_lead(ranks))
        return 0;
    o->event = hear;
    o->is_wanted_end = is_wanted_end;
    o->ctx = t;
    return 0;
}

/* What it takes is said before it takes it. */
static int say_plan(const struct train *t, const struct team_rank *r,
                    const struct tuning_options *o, struct train_plan *p, struct err *e)
{
    const char *how = t->v->recompute;
    char text[TRAIN_PLAN_TEXT_BYTES];
    size_t total, left;
    if (rank_of(t->v) == 0 && model_export_check(&t->on.dir, e))
        return -1;
    device_memory(r->device, &total, &left);
    if (device_get_kind(r->device) == DEVICE_CPU) /* which the ranks on this host share */
        left /= (size_t)t->n_here;
    if (train_plan(r->model, r->device, o,
                   strcmp(how, "on") == 0    ? RECOMPUTE_ON
                   : strcmp(how, "off") == 0 ? RECOMPUTE_OFF
                                             : RECOMPUTE_AUTO,
                   false, t->v->memory ? (size_t)t->v->memory : left, p, e))
        return -1;
    fprintf(stderr, "%s%s\n", train_plan_text(p, text), r->ranks.all ? "; for each rank" : "");
    return 0;
}

/* The first rank's plan is everybody's, and each takes what it says. */
static int plan(const struct train *t, const struct team_rank *r, struct tuning_options *o,
                struct err *e)
{
    struct train_plan p;
    int rc = train_is_lead(&r->ranks) ? say_plan(t, r, o, &p, e) : 0;
    if (train_broadcast_end(&r->ranks, rc, e) || train_broadcast(&r->ranks, &p, sizeof p, e))
        return -1;
    o->train.checkpoints_blocks = p.recomputes;
    o->train.value_bytes = p.value_bytes;
    rc = device_reserve(r->device, p.total - p.host, "the training", e);
    return train_agree(&r->ranks, rc, e);
}

/* Who speaks: the first rank, from behind its last checkpoint on. */
static int begin(struct train *t, struct tuning *tuning, struct err *e)
{
    char *csv = train_path(t, "steps.csv");
    t->first_step = trainer_n_step(tuning_trainer(tuning));
    t->csv = fopen(csv, t->first_step ? "a" : "w");
    int rc = t->csv ? 0 : err_sys(e, "%s", csv);
    free(csv);
    if (rc)
        return -1;
    if (t->first_step)
        fprintf(stderr, "going on behind step %" PRId64 "\n", t->first_step);
    else
        fputs(train_of_preferences(t->v)
                  ? "step,train_loss,train_reward_accuracy,train_reward_margin,valid_loss,"
                    "valid_reward_accuracy,valid_reward_margin\n"
                  : "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy\n",
              t->csv);
    t->begin_us = clock_us();
    return 0;
}

char *train_result_path(const struct train *t)
{
    return train_path(t, rank_of(t->v) == 0 ? "model" : "adapter");
}

static int keep_result(struct train *t, struct tuning *tuning, bool is_lead, struct err *e)
{
    bool is_full = rank_of(t->v) == 0;
    char *path = train_result_path(t);
    struct train_subject *s = trainer_subject(tuning_trainer(tuning));
    int rc = is_lead ? made_remove(path, e) : 0;
    if (!rc)
        rc = is_full ? full_dir_write(path, s, &t->on.dir, e)
                     : adapter_dir_write(path, s, t->v->dir, e);
    if (!rc && is_lead)
        fprintf(stderr, "the %s is in %s\n", is_full ? "model" : "adapter", path);
    if (!rc && is_lead && t->first)
        rc = made_remove(t->first, e);
    free(path);
    return rc;
}

static void say_end(const struct train *t, const struct tuning *tuning)
{
    const struct tuning_best best = tuning_best(tuning);
    if (t->v->early_stopping && best.n_worse >= t->v->early_stopping)
        fprintf(stderr, "stopped early: no lower validation loss at %" PRId64 " looks\n",
                best.n_worse);
    if (strcmp(t->v->result, "best") == 0)
        fprintf(stderr, "the values are those of step %" PRId64 ", validation loss %.4f\n",
                best.step, best.loss);
}

static int run(struct train *t, struct tuning *tuning, bool is_lead, struct err *e)
{
    bool is_done = false;
    if (is_lead && begin(t, tuning, e))
        return -1;
    int rc = tuning_run(tuning, &is_done, e);
    if (is_lead && t->has_terminal)
        fputc('\n', stderr);
    if (rc)
        return -1;
    if (is_done && is_lead)
        say_end(t, tuning);
    if (is_done)
        return keep_result(t, tuning, is_lead, e);
    if (is_lead)
        fprintf(stderr, "stopped behind step %" PRId64 "; the same command goes on from there\n",
                trainer_n_step(tuning_trainer(tuning)));
    return 0;
}

/* The first rank's process ends all; a launcher may send a signal to every one. */
static void listen_to_signals(const struct train *t, bool is_lead)
{
    if (!is_lead && !t->group)
        return; /* a thread of its process */
    signal(SIGINT, is_lead ? stop : SIG_IGN);
    signal(SIGTERM, is_lead ? stop : SIG_IGN);
}

int train_rank(void *train, struct team_rank *r, struct err *e)
{
    struct train *t = train;
    char *checkpoints = train_path(t, "checkpoints");
    struct tuning_options o = {.checkpoints = checkpoints};
    struct tuning *tuning = NULL;
    listen_to_signals(t, train_is_lead(&r->ranks));
    if (!train_fill(t, &r->ranks, &o, e) && !plan(t, r, &o, e))
        tuning = tuning_new(r->model, &o, r->stream, e);
    int rc = tuning ? run(t, tuning, train_is_lead(&r->ranks), e) : -1;
    tuning_free(tuning);
    free(checkpoints);
    return rc;
}
