/* SPDX-License-Identifier: Apache-2.0
 *
 * A job's hyperparameters: those that were left to us are chosen, once its rows are known; then all
 * are what the engine is asked for.
 */
#include <math.h>

#include "engine/engine.h"
#include "server/jobs/jobs_own.h"

enum {
    ROWS_SMALL = 60, /* up to so many, every further row is so many more steps */
    EPOCHS_SMALL = 16,
    EPOCHS_AUTO_MIN = 3,
    BATCH_AUTO_MAX = 16,
    BATCH_KTO_MIN = 4, /* rows that are held against each other */
    ANCHORS_AUTO = 16,
    RANK_AUTO = 16,
    GROUP_AUTO = 8,
    GROUP_MAX = 64,
    NEW_AUTO = 256,
    WIDTH_OF_LR = 2048, /* columns of a model whose multiplier is 1 */
    LR_AUTO_MAX = 10,
    CHECKPOINT_US = 5 * 60 * 1000000
};

/* What a multiplier of 1 means. A preference, or a reward, is a smaller step away from what the
 * model is. */
static const double base_lr = 2e-4, base_lr_full = 2e-5, base_lr_dpo = 5e-5;

static const double clip_auto = 0.2;

static bool is_of_texts(const struct job_hyper *h)
{
    return h->method == HYPER_EMBEDDING || h->method == HYPER_CLASSIFICATION;
}

static double base_lr_of(const struct job_hyper *h)
{
    return h->method != HYPER_SUPERVISED && !is_of_texts(h) ? base_lr_dpo
           : h->training_type == HYPER_FULL                 ? base_lr_full
                                                            : base_lr;
}

static struct train_preference preference_of(const struct job_hyper *h)
{
    return h->method == HYPER_DPO ? (struct train_preference){.loss = (enum train_loss)h->loss,
                                                              .beta = h->beta,
                                                              .gamma = h->gamma,
                                                              .desirable = h->desirable_weight,
                                                              .undesirable = h->undesirable_weight}
                                  : (struct train_preference){.loss = TRAIN_CROSS_ENTROPY};
}

/* Their loss, and its numbers. */
static void choose_preference(struct job_hyper *h)
{
    if (h->method != HYPER_DPO)
        return;
    if (h->loss == 0)
        h->loss = TRAIN_DPO;
    struct train_preference p = preference_of(h);
    train_preference_default(&p);
    h->beta = p.beta;
    h->gamma = p.gamma;
    h->desirable_weight = p.desirable;
    h->undesirable_weight = p.undesirable;
}

/* As many as may wait at once, whatever is asked. */
static int64_t group_of(double multiplier, int64_t most)
{
    int64_t n = multiplier != 0 ? llround(GROUP_AUTO * multiplier) : GROUP_AUTO;
    n = n < GROUP_MAX ? n : GROUP_MAX;
    return n < most ? n : most;
}

void job_choose_samples(struct job_run *r)
{
    struct job_hyper *h = &r->job.hyper;
    const struct engine_info *on = engine_info(r->jobs->opt.engine);
    int64_t half = on->ctx / 2;
    if (h->method != HYPER_REINFORCEMENT)
        return;
    if (h->group_size == 0)
        h->group_size = group_of(h->compute_multiplier, on->max_waiting);
    if (h->max_completion_tokens == 0)
        h->max_completion_tokens = half < NEW_AUTO ? half : NEW_AUTO;
    if (h->eval_samples == 0 && r->job.validation_file)
        h->eval_samples = 1;
    if (h->advantage == 0)
        h->advantage = HYPER_GRPO;
    if (h->clip_range == 0)
        h->clip_range = clip_auto;
}

/* The step that suits a model falls with its width: what is a good one for thousands of columns
 * teaches a small model nothing in the few steps of a small file. */
static double lr_multiplier_of(int64_t d_model)
{
    double x = d_model > 0 ? (double)WIDTH_OF_LR / (double)d_model : 1;
    return x < 1 ? 1 : x > LR_AUTO_MAX ? LR_AUTO_MAX : x;
}

/* One of the two that say it is given, or none. */
static void choose_rate(struct job_hyper *h, int64_t d_model)
{
    if (h->learning_rate != 0 && h->lr_multiplier == 0)
        h->lr_multiplier = h->learning_rate / base_lr_of(h);
    if (h->lr_multiplier == 0)
        h->lr_multiplier = lr_multiplier_of(d_model);
    if (h->learning_rate == 0)
        h->learning_rate = base_lr_of(h) * h->lr_multiplier;
}

/* The least steps that a file of so many rows is to have: those of a small file are its rows, as
 * often as a small file is seen, and a larger file never has fewer. docs/tuning.md says why. */
static double steps_auto(const struct job_hyper *h, double n_row)
{
    double small = fmin(n_row, ROWS_SMALL), epochs = EPOCHS_AUTO_MIN;
    if (h->method == HYPER_SUPERVISED)
        epochs = EPOCHS_SMALL;
    return fmax(epochs * small, EPOCHS_AUTO_MIN * n_row / BATCH_AUTO_MAX);
}

/* Rows that a step has at least, for a loss that holds them against each other. */
static int64_t batch_least(const struct job_hyper *h)
{
    return h->method == HYPER_EMBEDDING ? ANCHORS_AUTO : h->loss == HYPER_KTO ? BATCH_KTO_MIN : 1;
}

/* The fewest epochs, and for them the most rows of a step, that come to these steps. Both are whole
 * numbers, so they come to more; what is more by over a quarter is left to one epoch more in larger
 * steps. */
void job_choose_epochs(struct job_hyper *h, int64_t n_row)
{
    double steps = steps_auto(h, n_row > 0 ? (double)n_row : 1), got;
    int64_t least = batch_least(h), epochs = EPOCHS_AUTO_MIN - 1, batch;
    do {
        batch = (int64_t)((double)(n_row * ++epochs) / steps);
        batch = batch < least ? least : batch > BATCH_AUTO_MAX ? BATCH_AUTO_MAX : batch;
        got = (double)((n_row + batch - 1) / batch * epochs);
    } while (epochs < EPOCHS_SMALL && least == 1 && (got < steps || got > steps * 5 / 4));
    if (h->n_epochs == 0)
        h->n_epochs = epochs;
    if (h->batch_size == 0)
        h->batch_size = batch;
}

/* What was left to us. */
void job_choose(struct job_run *r)
{
    struct job_hyper *h = &r->job.hyper;
    const struct tune_rows_info rows = tune_rows_info(r->data);
    int64_t most = engine_info(r->jobs->opt.engine)->max_lora_rank;
    job_choose_epochs(h, rows.n_row);
    if (h->eval_interval == 0 && h->method == HYPER_REINFORCEMENT && r->job.validation_file)
        h->eval_interval = (rows.n_row + h->batch_size - 1) / h->batch_size;
    if (h->training_type == 0)
        h->training_type = HYPER_LORA;
    choose_rate(h, engine_info(r->jobs->opt.engine)->d_model);
    if (h->lora_rank == 0 && h->training_type == HYPER_LORA)
        h->lora_rank = most < RANK_AUTO ? most : RANK_AUTO;
    if (h->lora_alpha == 0 && h->training_type == HYPER_LORA)
        h->lora_alpha = 2 * (double)h->lora_rank;
    if (h->optimizer == 0)
        h->optimizer = HYPER_ADAMW;
    if (h->schedule == 0)
        h->schedule = HYPER_LINEAR;
    if (h->max_grad_norm == 0)
        h->max_grad_norm = 1;
    if (h->long_rows == 0)
        h->long_rows = HYPER_CUT;
    if (h->result == 0)
        h->result = HYPER_LAST;
    if (h->distill == 0 && rows.n_taught)
        h->distill = 1;
    h->max_length = rows.max_tok;
    if (h->scale == 0 && h->method == HYPER_EMBEDDING)
        h->scale = TRAIN_SCALE;
    choose_preference(h);
}

void job_ask(const struct job_run *r, struct tune_options *o)
{
    static const enum train_schedule schedule[] = {TRAIN_LINEAR, TRAIN_CONSTANT, TRAIN_LINEAR,
                                                   TRAIN_COSINE};
    static const enum train_recompute how[] = {RECOMPUTE_AUTO, RECOMPUTE_AUTO, RECOMPUTE_ON,
                                               RECOMPUTE_OFF};
    const struct job_hyper *h = &r->job.hyper;
    bool is_full = h->training_type == HYPER_FULL;
    *o = (struct tune_options){.data = r->data,
                               .valid = r->job.validation_file ? r->valid : NULL,
                               .is_full = is_full,
                               .preference = preference_of(h),
                               .lora = {.rank = h->lora_rank,
                                        .alpha = h->lora_alpha,
                                        .dropout = h->lora_dropout,
                                        .lr_ratio = h->lora_lr_ratio,
                                        .is_rs = h->use_rslora,
                                        .is_dora = h->use_dora},
                               .noise = h->noise,
                               .distill = h->distill,
                               .scale = h->scale,
                               .targets = h->target_modules,
                               .saves = h->modules_to_save,
                               .lr = h->learning_rate,
                               .decay = h->weight_decay,
                               .has_codes = h->optimizer == HYPER_ADAMW_8BIT,
                               .max_norm = h->max_grad_norm,
                               .schedule = schedule[h->schedule],
                               .warmup = h->warmup_steps,
                               .warmup_ratio = h->warmup_ratio,
                               .n_epoch = h->n_epochs,
                               .batch = h->batch_size,
                               .seed = (uint64_t)r->job.seed,
                               .recompute = how[h->activation_checkpointing],
                               .memory = r->jobs->opt.train_memory,
                               .checkpoint_steps = h->checkpoint_steps,
                               .checkpoint_us = h->checkpoint_minutes > 0
                                                    ? (int64_t)(h->checkpoint_minutes * 60e6)
                                                    : CHECKPOINT_US,
                               .keep = JOB_KEEP,
                               .keeps_best = h->result == HYPER_BEST,
                               .patience = h->early_stopping,
                               .judges_saves = h->checkpoint_minutes > 0,
                               .logs_logprobs = h->row_logprobs};
}
