/* SPDX-License-Identifier: Apache-2.0
 *
 * A training on paper. The model there has the shape of the one that will be trained and no
 * weights; its rows are as long as the longest, and as much of them is learned as of the row of
 * which most is.
 */
#include "engine/train/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/device_dry.h"
#include "engine/op/ops.h"
#include "engine/train/row_set.h"
#include "engine/train/seen.h"

struct paper {
    struct device *device;    /* owned */
    struct stream *stream;    /* owned */
    struct model_share share; /* of ranks that are not there */
    struct model *model;      /* owned */
    struct trainer *trainer;  /* owned */
    struct train_row *row;    /* owned: [n_row] */
    int64_t n_row;
    int32_t *id;      /* owned: [longest], all 0: ids of every row */
    int32_t *label;   /* owned: [longest] */
    float *reference; /* owned: [longest], not known */
    float *target;    /* owned: of a classifier, zeros */
};

static void paper_release(struct paper *p)
{
    trainer_free(p->trainer);
    model_free(p->model);
    stream_free(p->stream);
    if (p->device)
        device_free(p->device);
    free(p->share.n_kv_head);
    mem_free(p->row);
    mem_free(p->id);
    mem_free(p->label);
    mem_free(p->reference);
    mem_free(p->target);
}

static int64_t longest_of(const struct tuning_options *o)
{
    int64_t n = o->data->longest;
    return o->valid && o->valid->longest > n ? o->valid->longest : n;
}

/* Rows of an example. */
static int64_t each_of(const struct tuning_options *o)
{
    return dataset_n_each(o->data);
}

/* Labels of a row of n tokens, where as much is learned as anywhere. */
static int64_t labels_of(const struct dataset *d, int64_t n)
{
    double most = 0;
    for (size_t i = 0; i < d->row.n; i++) {
        double share = (double)d->row.at[i].n_learn / (double)d->row.at[i].n;
        most = share > most ? share : most;
    }
    int64_t labels = (int64_t)(most * (double)n) + 1;
    return labels < n ? labels : n - 1;
}

static int paper_init(struct paper *p, const struct model *like, const struct device *d,
                      const struct train_options *o, struct err *e)
{
    struct model_options mo = {.type = -1,
                               .like = like,
                               .kv_type = (int)like->kv_type,
                               .ctx = o->cap_tok < like->ctx ? o->cap_tok : like->ctx};
    *p = (struct paper){.device = device_dry_new(d), .share = {.at = like->ranks}};
    p->share.at.comm = NULL;
    p->share.param = (struct param_share *)(uintptr_t)like->share; /* read only */
    p->share.n_kv_head = xcalloc((size_t)like->cfg.n_layer + 1, sizeof *p->share.n_kv_head);
    for (int64_t l = 0; l < like->cfg.n_layer; l++)
        p->share.n_kv_head[l] = like->layer[l].n_kv_here;
    p->share.d_conv = like->d_conv;
    mo.share = like->part ? &p->share : NULL;
    p->stream = stream_new(p->device, e);
    p->model = p->stream ? model_new(&like->cfg, &mo, p->device, e) : NULL;
    return p->model ? 0 : -1;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What rows are made of, as many as there may be. */
static int reserve_rows(struct paper *p, int64_t n_row, int64_t longest, struct err *e)
{
    p->row = try_alloc((size_t)n_row, sizeof *p->row, "rows on paper", e);
    p->id = try_alloc((size_t)longest, sizeof *p->id, "a row on paper", e);
    p->label = try_alloc((size_t)longest, sizeof *p->label, "a row on paper", e);
    p->reference = try_alloc((size_t)longest, sizeof *p->reference, "a row on paper", e);
    size_t n_label = (size_t)p->model->cfg.n_label;
    p->target = try_alloc(n_label + 1, sizeof *p->target, "a row on paper", e);
    if (!p->row || !p->id || !p->label || !p->reference || !p->target)
        return -1;
    memset(p->target, 0, (n_label + 1) * sizeof *p->target);
    p->reference[0] = NAN;
    return 0;
}

/* A step's rows, n_tok tokens for each of n_rank ranks: as long as they may be, but for those that
 * a micro-batch of cap_tok ends with. Pairs are of two such rows. */
static int fill_rows(struct paper *p, int64_t n_rank, int64_t n_tok, int64_t cap_tok,
                     int64_t longest, int64_t n_each, int64_t n_label, struct err *e)
{
    int64_t n_micro = (n_tok + cap_tok - 1) / cap_tok, each = (cap_tok + longest - 1) / longest;
    if (reserve_rows(p, n_rank * n_micro * (each + n_each), longest, e))
        return -1;
    for (int64_t i = 0; i < longest; i++)
        p->label[i] = i < n_label ? 0 : -1;
    for (int64_t r = 0; r < n_rank; r++)
        for (int64_t at = 0, n; at < n_tok; at += n * n_each) {
            n = least(longest, least(cap_tok - at % cap_tok, n_tok - at) / n_each);
            n = n > 0 ? n : 1;
            for (int64_t k = 0; k < n_each; k++, p->n_row++)
                p->row[p->n_row] = (struct train_row){.id = p->id,
                                                      .label = p->label,
                                                      .reference = p->reference,
                                                      .sampled = p->reference,
                                                      .target = p->target,
                                                      .n = n,
                                                      .key = (uint64_t)p->n_row};
        }
    return 0;
}

/* Of a step, at each rank. */
static int64_t tokens_of(const struct tuning_options *o)
{
    int64_t n = train_n_data(&o->train.ranks);
    return longest_of(o) * each_of(o) * ((o->batch + n - 1) / n);
}

static bool leaves_experts(const struct train_subject *s)
{
    bool has_any = false;
    for (int32_t i = 0; i < s->model->n_param; i++) {
        const struct param *p = &s->model->param[i];
        if (p->n_half && s->half_a[p->lora] >= 0)
            return false;
        has_any = has_any || p->n_half;
    }
    return has_any && s->lora.rank > 0;
}

/* The bytes that a trainer with these options holds at most: where a step has several micro-batches
 * in the second, which finds the gradients of the first. */
static int measure(const struct model *m, const struct device *d, const struct tuning_options *o,
                   bool recomputes, struct train_plan *out, size_t *total, struct err *e)
{
    struct train_options t = o->train;
    struct train_result unused;
    struct err end = ERR_INIT;
    struct paper p;
    bool has_vectors = train_has_vectors(&o->train.vectors);
    int64_t longest = longest_of(o), n_label = has_vectors ? 1 : labels_of(o->data, longest);
    int64_t n_tok = least(tokens_of(o), 2 * out->n_tok);
    int rc = -1;
    t.checkpoints_blocks = recomputes;
    t.value_bytes = 0;
    t.n_top = tuning_n_top(o);
    t.ranks.all = t.ranks.data = t.ranks.model = NULL;
    /* of a step's rows each rank takes its share */
    int64_t n_each = o->data->opt.has_pairs ? 2 : 1; /* that are not parted */
    if (paper_init(&p, m, d, &t, e) ||
        fill_rows(&p, train_n_data(&t.ranks), n_tok, out->n_tok, longest, n_each, n_label, e))
        goto done;
    size_t before = device_dry_bytes(p.device);
    p.trainer = trainer_new(p.model, &t, p.stream, e);
    if (!p.trainer)
        goto done;
    const struct train_tensors *on = &trainer_subject(p.trainer)->tensors;
    out->leaves_experts = leaves_experts(trainer_subject(p.trainer));
    size_t made = device_dry_bytes(p.device) - before;
    /* nothing is computed on paper, so the step's loss is no number; by then all has been held */
    if (trainer_step(p.trainer, p.row, p.n_row, &unused, &end) && end.code != ERR_DIVERGED) {
        err_set(e, end.code, "%s", end.msg);
        goto done;
    }
    *total = device_dry_peak(p.device) - before;
    out->gradients = (size_t)on->n_elem * sizeof(float);
    out->moments = on->moment_bytes;
    const struct train_saved *saved = &trainer_subject(p.trainer)->saved;
    size_t reference = train_subject_reference_bytes(trainer_subject(p.trainer));
    size_t copies = reference + saved->bytes - saved->reference_bytes;
    const struct train_magnitudes *gains = &trainer_subject(p.trainer)->magnitudes;
    copies += gains->bytes + gains->rows.bytes;
    out->values = on->bytes - out->moments - (size_t)(on->n_elem - on->n_late) * sizeof(float);
    out->values += copies;
    out->inputs = made - on->bytes - copies;
    out->fixed = made;
    out->activations = *total - made - (size_t)on->n_late * sizeof(float);
    out->logits = has_vectors ? 0
                              : op_ce_work_bytes(model_lm_head(p.model),
                                                 (out->n_tok + longest - 1) / longest * n_label);
    rc = 0;
done:
    paper_release(&p);
    return rc;
}

/* A step's vectors, their slopes, and as much in f64 while the loss is found. */
static size_t vector_bytes(const struct model *m, const struct tuning_options *o)
{
    size_t cols = (size_t)config_vector_cols(&m->cfg);
    return train_has_vectors(&o->train.vectors)
               ? (size_t)(o->batch * each_of(o)) * cols * (2 * sizeof(float) + 2 * sizeof(double))
               : 0;
}

static size_t host_bytes(const struct tuning_options *o)
{
    size_t n = row_set_bytes(o->data, o->batch);
    n += o->valid ? row_set_bytes(o->valid, o->batch) : 0;
    size_t n_tok = (size_t)(o->batch * each_of(o) * longest_of(o)); /* of a step */
    n += n_tok * sizeof(struct seen);
    n += (size_t)o->train.cap_tok * (sizeof(struct k_ce_state) + sizeof(float));
    n += o->data->row.n * sizeof(int64_t); /* the order of an epoch */
    return n;
}

static double mb(size_t bytes)
{
    return (double)bytes / 1e6;
}

static int refuse(const struct train_plan *p, struct err *e)
{
    return err_set(e, ERR_TOO_LARGE,
                   "the training takes %.1f MB of memory (%.1f MB where blocks are %srun again), "
                   "and there are %.1f MB: shorter rows, a smaller batch or rank, or an adapter "
                   "instead of a full training take less",
                   mb(p->total), mb(p->recomputes ? p->total_plain : p->total_recomputed),
                   p->recomputes ? "not " : "", mb(p->limit));
}

int train_plan(const struct model *m, const struct device *d, const struct tuning_options *o,
               enum train_recompute how, bool copies, size_t limit, struct train_plan *out,
               struct err *e)
{
    struct train_plan again;
    size_t plain, recomputed;
    if (m->cfg.balance > 0 &&
        (o->train.policy.is_on || train_has_preference(&o->train.preference) ||
         train_has_vectors(&o->train.vectors)))
        return err_set(e, ERR_UNSUPPORTED,
                       "config.json: output_router_logits: the loss that balances a router "
                       "(router_aux_loss_coef) is computed beside that of examples alone: set it "
                       "to false to train without");
    *out = (struct train_plan){.limit = limit,
                               .weights = copies ? m->block_bytes : 0,
                               .host = host_bytes(o) + vector_bytes(m, o),
                               .n_tok = least(tokens_of(o), o->train.cap_tok)};
    again = *out;
    if (measure(m, d, o, false, out, &plain, e) || measure(m, d, o, true, &again, &recomputed, e))
        return -1;
    size_t fixed = out->weights + out->host;
    out->total_plain = again.total_plain = fixed + plain;
    out->total_recomputed = again.total_recomputed = fixed + recomputed;
    bool recomputes = how == RECOMPUTE_ON || (how == RECOMPUTE_AUTO && limit > 0 &&
                                              out->total_plain > limit && recomputed < plain);
    if (recomputes)
        *out = again;
    out->recomputes = recomputes;
    out->fixed += fixed;
    out->total = recomputes ? out->total_recomputed : out->total_plain;
    if (limit > 0 && out->total > limit)
        return refuse(out, e);
    out->value_bytes = limit > 0 ? limit - out->fixed : 0;
    return 0;
}

const char *train_plan_text(const struct train_plan *p, char text[TRAIN_PLAN_TEXT_BYTES])
{
    int n = snprintf(text, TRAIN_PLAN_TEXT_BYTES, "Memory: %.1f MB", mb(p->total));
    if (p->limit)
        n += snprintf(text + n, (size_t)(TRAIN_PLAN_TEXT_BYTES - n), " of %.1f MB", mb(p->limit));
    if (p->weights)
        n += snprintf(text + n, (size_t)(TRAIN_PLAN_TEXT_BYTES - n), "; a copy of the weights %.1f",
                      mb(p->weights));
    snprintf(text + n, (size_t)(TRAIN_PLAN_TEXT_BYTES - n),
             "; trained values %.1f, gradients %.1f, moments %.1f, inputs and K/V %.1f, "
             "activations %.1f (logits %.1f)%s%s",
             mb(p->values), mb(p->gradients), mb(p->moments), mb(p->inputs), mb(p->activations),
             mb(p->logits), p->recomputes ? "; blocks are run again" : "",
             p->leaves_experts ? "; experts have no adapter, which the target " TRAIN_EXPERTS
                                 " gives them"
                               : "");
    return text;
}
