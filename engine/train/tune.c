/* SPDX-License-Identifier: Apache-2.0
 *
 * A training on the model that an engine serves, or for a full one on a copy of it. Its memory is
 * planned before any is taken: keys and values may yet come to fill all of theirs, so what is free
 * now is not all a training's. Where ranks share the model the plan is of one of them.
 */
#include "engine/tune.h"

#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/engine.h"
#include "engine/model/export.h"
#include "engine/run/ranks.h"
#include "engine/serve/resident.h"
#include "engine/train/adapter_dir.h"
#include "engine/train/ask.h"
#include "engine/train/beside.h"
#include "engine/train/full_dir.h"
#include "engine/train/limit.h"
#include "engine/train/plan.h"
#include "engine/train/tune_rows.h"
#include "engine/train/tune_samples.h"

enum {
    MICRO_BATCH = 2048, /* tokens that are computed at once, where rows are not longer */
    VALID_ROWS = 8,     /* of a step that is measured */
    VALID_EVERY = 10,
    NAMES_BYTES = 1 << 16
};

struct tune {
    struct engine *engine;   /* borrowed */
    struct arena arena;      /* the targets' names */
    struct tuning_options o; /* its texts and rows are borrowed from who asked */
    struct train_plan plan;
    struct beside beside;
    bool is_full;
    struct tune_samples samples; /* of a policy */
};

/* ---- what is asked for --------------------------------------------------------------------- */

/* A batch where it is small, and the longest row, or a pair of such, in any case. */
static int64_t micro_batch(const struct tune_options *o)
{
    int64_t longest = o->data->data.longest;
    if (o->valid && o->valid->data.longest > longest)
        longest = o->valid->data.longest;
    int64_t batch = longest * dataset_n_each(&o->data->data) * o->batch;
    longest *= o->data->data.opt.has_pairs ? 2 : 1;
    int64_t most = batch < MICRO_BATCH ? batch : MICRO_BATCH;
    return most > longest ? most : longest;
}

static void fill_train(const struct tune_options *from, struct train_options *o)
{
    const struct dataset *d = &from->data->data;
    train_options_default(o);
    o->vectors = (struct train_vectors){.loss = d->opt.texts.loss,
                                        .scale = from->scale > 0 ? from->scale : TRAIN_SCALE,
                                        .n_each = dataset_n_each(d)};
    o->lora = from->lora;
    o->preference = from->preference;
    o->policy = from->policy.loss;
    if (from->is_full)
        o->lora.rank = 0;
    o->lr = from->lr;
    o->schedule = from->schedule;
    o->decay = from->decay;
    o->has_codes = from->has_codes;
    o->noise = from->noise;
    o->distill = from->distill;
    o->max_norm = from->max_norm;
    o->seed = from->seed;
    o->cap_tok = micro_batch(from);
}

static void fill(const struct tune_options *from, struct tuning_options *o)
{
    fill_train(from, &o->train);
    o->n_epoch = from->n_epoch;
    o->batch = from->batch;
    o->ancestor = from->ancestor;
    o->train.has_ancestor = from->ancestor.dir != NULL;
    o->data = &from->data->data;
    if (from->valid) {
        o->valid = &from->valid->data;
        o->valid_rows = from->policy.loss.is_on ? 0 : VALID_ROWS;
        o->valid_every = VALID_EVERY;
        o->judge_every = from->policy.judge_every;
    }
    o->checkpoints = from->checkpoints;
    o->checkpoint_steps = from->checkpoint_steps;
    o->checkpoint_us = from->checkpoint_us;
    o->keep = from->keep;
    o->keeps_best = from->keeps_best;
    o->patience = from->patience;
    o->judges_saves = from->judges_saves;
    o->row_log = from->row_log;
    o->logs_logprobs = from->logs_logprobs;
    o->event = from->event;
    o->is_wanted_end = from->is_wanted_end;
    o->ctx = from->ctx;
}

static int64_t warmup_of(const struct tune_options *o, const struct tuning_options *to)
{
    return o->warmup ? o->warmup : train_warmup(o->warmup_ratio, tuning_n_step(to));
}

int64_t tune_n_step(const struct tune_options *o)
{
    struct tuning_options to = {.n_epoch = 0};
    fill(o, &to);
    return tuning_n_step(&to);
}

static const char *join_targets(const struct train_lora *l, struct arena *a)
{
    const char *all = "";
    for (int32_t i = 0; i < l->n_target; i++)
        all = arena_printf(a, "%s%s%s", all, i ? "," : "", l->target[i]);
    return all;
}

int tune_ancestor_read(const char *dir, struct tune_ancestor *out, struct arena *a, struct err *e)
{
    if (train_ancestor_read(dir, &out->is, &out->lora, a, e))
        return -1;
    out->targets = join_targets(&out->lora, a);
    out->saves = train_saved_text(out->lora.saves);
    return 0;
}

bool tune_ancestor_has(const struct tune_ancestor *from, const char *targets)
{
    struct arena a;
    struct train_lora l = {.rank = 0};
    arena_init(&a, NAMES_BYTES);
    train_lora_split(&l, targets, &a);
    bool has = train_lora_same_targets(&l, &from->lora);
    arena_release(&a);
    return has;
}

bool tune_ancestor_saves(const struct tune_ancestor *from, const char *names)
{
    struct err unknown = ERR_INIT;
    unsigned saves;
    return !train_saved_parse(names, &saves, &unknown) && saves == from->lora.saves;
}

int tune_check_saves(const struct engine *g, const char *names, bool weighs, struct err *e)
{
    struct train_options o = {.lora = {.rank = 1}, .policy = {.is_on = weighs}};
    return train_saved_parse(names, &o.lora.saves, e) ||
                   train_saved_check(engine_resident(g)->model, &o, e)
               ? -1
               : 0;
}

int tune_check_lora(const struct engine *g, struct train_lora l, const char *names, struct err *e)
{
    const struct model *m = engine_resident(g)->model;
    struct arena a;
    arena_init(&a, NAMES_BYTES);
    train_lora_split(&l, names, &a);
    int rc = train_lora_check(&l, m, e) || train_magnitudes_check(m, &l, e) ? -1 : 0;
    arena_release(&a);
    return rc;
}

int tune_check_rewards(const struct engine *g, struct err *e)
{
    return engine_resident(g)->crew
               ? err_set(
                     e, ERR_UNSUPPORTED,
                     "a training by rewards is not supported where ranks share the model (--tp)")
               : 0;
}

int tune_check_group(const struct engine *g, int64_t group, struct err *e)
{
    int64_t most = engine_info(g)->max_waiting;
    return group > most
               ? err_set(e, ERR_UNSUPPORTED,
                         "groups of %lld samples: %lld requests may wait here (--max-waiting)",
                         (long long)group, (long long)most)
               : 0;
}

/* What could not be published is not trained. */
int tune_check_full(const struct engine *g, struct err *e)
{
    return model_export_check(&engine_resident(g)->dir, e);
}

int tune_check_method(const struct engine *g, bool has_anchors, bool has_labels, struct err *e)
{
    const struct engine_info *on = engine_info(g);
    if ((has_anchors || has_labels) && engine_resident(g)->crew)
        return err_set(e, ERR_UNSUPPORTED,
                       "vectors and labels are not trained where ranks share the model (--tp)");
    if (has_anchors && !on->embeds)
        return err_set(e, ERR_UNSUPPORTED, "the model gives no vectors of texts to train");
    if (has_labels && !on->n_label)
        return err_set(e, ERR_UNSUPPORTED, "the model has no labels to train");
    if (!has_anchors && !has_labels && !on->generates)
        return err_set(e, ERR_UNSUPPORTED, "the model writes no text: the method is \"%s\"",
                       on->n_label ? "x_classification" : "x_embedding");
    return 0;
}

static int check(const struct tune *t, struct err *e)
{
    bool samples = t->o.sample != NULL;
    return (samples &&
            (tune_check_rewards(t->engine, e) ||
             tune_check_group(t->engine, t->samples.policy.samples.group, e) ||
             (t->o.valid && tune_check_group(t->engine, dataset_n_each(t->o.valid), e)))) ||
                   (t->is_full && tune_check_full(t->engine, e))
               ? -1
               : 0;
}

/* ---- memory -------------------------------------------------------------------------------- */

/* A model of the copy's shape at one rank, without weights. */
static struct model *copy_shape(const struct resident *on, struct model_share *share, struct err *e)
{
    struct model_options mo = model_options_trained(on->model, on->dir.weights);
    struct op_ranks at = {.rank = on->model->ranks.rank, .size = on->model->ranks.size};
    if (on->model->part && ranks_share_for(share, &on->model->cfg, &mo, &at, MODEL_LOSS, e))
        return NULL;
    mo.share = on->model->part ? share : NULL;
    return model_new(&on->model->cfg, &mo, NULL, e);
}

static int plan(struct tune *t, const struct tune_options *o, struct err *e)
{
    const struct resident *on = engine_resident(t->engine);
    struct model_share share = {0};
    struct model *copy = t->is_full ? copy_shape(on, &share, e) : NULL;
    const struct model *m = t->is_full ? copy : on->model;
    int rc = m ? train_plan(m, on->device, &t->o, o->recompute, t->is_full,
                            train_limit(t->engine, o->memory), &t->plan, e)
               : -1;
    model_free(copy);
    ranks_share_release(&share);
    t->o.train.checkpoints_blocks = t->plan.recomputes;
    t->o.train.value_bytes = t->plan.value_bytes;
    return rc;
}

/* ---- its life ------------------------------------------------------------------------------ */

struct tune *tune_new(struct engine *g, const struct tune_options *o, struct err *e)
{
    struct tune *t = xcalloc(1, sizeof *t);
    t->engine = g;
    t->is_full = o->is_full;
    fill(o, &t->o);
    t->o.train.warmup = warmup_of(o, &t->o);
    if (o->policy.loss.is_on) {
        t->samples = (struct tune_samples){.engine = g,
                                           .policy = o->policy,
                                           .seed = o->seed,
                                           .is_wanted_end = o->is_wanted_end,
                                           .ctx = o->ctx};
        t->o.sample = tune_samples_draw;
        t->o.sample_ctx = &t->samples;
    }
    train_lora_split(&t->o.train.lora, o->targets, &t->arena);
    if (!train_saved_parse(o->saves ? o->saves : "", &t->o.train.lora.saves, e) && !check(t, e) &&
        !plan(t, o, e))
        return t;
    tune_free(t);
    return NULL;
}

void tune_free(struct tune *t)
{
    if (!t)
        return;
    beside_end(&t->beside);
    if (t->samples.subject)
        tune_samples_end(&t->samples);
    arena_release(&t->arena);
    free(t);
}

const struct train_plan *tune_plan(const struct tune *t)
{
    return &t->plan;
}

int tune_begin(struct tune *t, struct err *e)
{
    const struct resident *on = engine_resident(t->engine);
    const struct crew_rank seat = {.model = on->model,
                                   .dir = &on->dir,
                                   .device = on->device,
                                   .gate = engine_gate(t->engine),
                                   .comm = on->crew ? crew_beside(on->crew) : NULL};
    return beside_begin(&t->beside, &seat, on->crew, &t->o, t->is_full, e);
}

int64_t tune_step(const struct tune *t)
{
    return trainer_n_step(tuning_trainer(t->beside.tuning));
}

int tune_run(struct tune *t, bool *is_done, struct err *e)
{
    if (t->o.sample)
        t->samples.subject = trainer_subject(tuning_trainer(t->beside.tuning));
    return beside_run(&t->beside, is_done, e);
}

bool tune_is_over(const struct tune *t)
{
    return tuning_is_over(t->beside.tuning);
}

struct tuning_best tune_best(const struct tune *t)
{
    return tuning_best(t->beside.tuning);
}

bool tune_lacks_place(const struct tune *t)
{
    return t->samples.lacks_place;
}

int tune_publish(struct tune *t, const char *path, const char *base, struct err *e)
{
    struct train_subject *s = trainer_subject(tuning_trainer(t->beside.tuning));
    if (train_ask_state(&t->beside.ranks, e))
        return -1;
    return t->is_full ? full_dir_write(path, s, &engine_resident(t->engine)->dir, e)
                      : adapter_dir_write(path, s, base, e);
}

int tune_forget(const char *checkpoints, struct err *e)
{
    return tune_samples_forget(checkpoints, e) || tuning_forget(checkpoints, e) ? -1 : 0;
}

int tune_work(const struct crew_rank *seat, struct err *e)
{
    return beside_work(seat, e);
}
