/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop over epochs and batches. All that decides a step stands in its place (epoch, row), the
 * seed and the trained values, so a checkpoint needs to hold no more.
 */
#include "engine/train/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/train/ask.h"
#include "engine/train/checkpoint.h"
#include "engine/train/gated.h"
#include "engine/train/order.h"
#include "engine/train/row_log.h"
#include "engine/train/row_set.h"
#include "engine/train/tuning_subject.h"

/* What a checkpoint has besides values: tokens that were in steps; the best validation loss, its
 * step, looks since, and the step of the last look. */
enum { SUM_TRAINED, SUM_BEST_LOSS, SUM_BEST_STEP, SUM_WORSE, SUM_JUDGED };

struct tuning {
    struct tuning_options opt;
    struct trainer *trainer; /* owned */
    struct stream *stream;   /* borrowed */
    struct row_set train;    /* what steps take */
    struct row_set valid;    /* what is evaluated; none: n is 0 */
    int64_t *order;          /* owned: [train.n] the usable rows as this epoch takes them */
    struct row_log *log;     /* owned; NULL: none */
    int64_t epoch, at;       /* the cursor; at: in order */
    double n_trained;
    struct tuning_best best;
    int64_t judged_step; /* at which the validation set was looked at last */
    char *best_dir;      /* owned: where the best values are kept; NULL: they are not */
    int64_t saved_us, saved_step;
    struct base_id base;             /* whose weights are trained; */
    char subject[SHA256_TEXT_BYTES]; /* both are what its checkpoints must have been made with */
};

static void enter(struct tuning *t)
{
    gated_enter(t->opt.gate, t->stream, t->opt.train.ranks.model);
}

static void leave(struct tuning *t)
{
    gated_leave(t->opt.gate, t->stream, t->opt.train.ranks.model);
}

/* ---- making -------------------------------------------------------------------------------- */

int64_t tuning_n_step(const struct tuning_options *o)
{
    return (dataset_n_usable(o->data) + o->batch - 1) / o->batch * o->n_epoch;
}

int64_t tuning_n_top(const struct tuning_options *o)
{
    int64_t n = o->data->n_top;
    return o->valid && o->valid->n_top > n ? o->valid->n_top : n;
}

static int check_longest(const struct dataset *d, int64_t cap_tok, struct err *e)
{
    if (d->longest * (d->opt.has_pairs ? 2 : 1) <= cap_tok)
        return 0;
    return err_set(e, ERR_BAD_INPUT,
                   "a row of %lld tokens, micro-batches of %lld: the latter must be %s",
                   (long long)d->longest, (long long)cap_tok,
                   d->opt.has_pairs ? "twice as large, for a pair" : "as large");
}

static int check(const struct tuning_options *o, struct err *e)
{
    if (o->batch < 1 || o->n_epoch < 1)
        return err_set(e, ERR_BAD_INPUT, "batches of at least one row, at least one epoch");
    bool has_pairs = train_has_pairs(&o->train.preference);
    ASSERT(o->data->opt.has_pairs == has_pairs);
    ASSERT(!o->valid || o->valid->opt.has_pairs == has_pairs);
    ASSERT(o->data->opt.has_verdicts == train_has_verdicts(&o->train.preference));
    if ((o->keeps_best || o->patience > 0) && !o->valid)
        return err_set(e, ERR_BAD_INPUT,
                       "what is best is told by rows to measure on: there are none");
    ASSERT(!o->keeps_best || o->checkpoints);
    if (o->data->n_learn == 0)
        return err_set(e, ERR_BAD_INPUT, "no row has a token to learn from");
    if (o->valid && o->valid->n_learn == 0)
        return err_set(e, ERR_BAD_INPUT, "no row of the validation set has a token to learn from");
    return check_longest(o->data, o->train.cap_tok, e) ||
                   (o->valid && check_longest(o->valid, o->train.cap_tok, e))
               ? -1
               : 0;
}

static void enter_epoch(struct tuning *t)
{
    train_order(t->opt.train.seed, t->epoch, t->train.n, t->order);
}

static char *best_path(const char *checkpoints)
{
    static const char name[] = "/best";
    size_t n = strlen(checkpoints) + sizeof name;
    char *path = xmalloc(n);
    snprintf(path, n, "%s%s", checkpoints, name);
    return path;
}

/* Checkpoints may be kept at two places: the newest, and the best. */
static int open_checkpoints(struct tuning *t, struct err *e)
{
    const struct train_ranks *r = &t->opt.train.ranks;
    int rc = 0;
    if (t->opt.keeps_best)
        t->best_dir = best_path(t->opt.checkpoints);
    if (train_is_lead(r))
        rc = checkpoint_open(t->opt.checkpoints, e) ||
                     (t->best_dir && checkpoint_open(t->best_dir, e))
                 ? -1
                 : 0;
    return train_broadcast_end(r, rc, e);
}

static void fill_sums(const struct tuning *t, double sum[CHECKPOINT_SUMS])
{
    sum[SUM_TRAINED] = t->n_trained;
    sum[SUM_BEST_LOSS] = t->best.loss;
    sum[SUM_BEST_STEP] = (double)t->best.step;
    sum[SUM_WORSE] = (double)t->best.n_worse;
    sum[SUM_JUDGED] = (double)t->judged_step;
}

static void take_sums(struct tuning *t, const double sum[CHECKPOINT_SUMS])
{
    t->n_trained = sum[SUM_TRAINED];
    t->best = (struct tuning_best){(int64_t)sum[SUM_BEST_STEP], sum[SUM_BEST_LOSS],
                                   (int64_t)sum[SUM_WORSE]};
    t->judged_step = (int64_t)sum[SUM_JUDGED];
}

/* Goes on from the newest checkpoint, where there is one. */
static int go_on(struct tuning *t, struct err *e)
{
    struct checkpoint c = {0};
    memcpy(c.subject, t->subject, sizeof c.subject);
    c.base = t->base;
    if (!t->opt.checkpoints)
        return 0;
    if (open_checkpoints(t, e))
        return -1;
    struct err why = ERR_INIT;
    if (checkpoint_load(t->opt.checkpoints, &c, &trainer_subject(t->trainer)->tensors, t->stream,
                        &why))
        return why.code == ERR_NOT_FOUND ? 0 : err_set(e, why.code, "%s", why.msg);
    trainer_set_step(t->trainer, c.step);
    t->epoch = c.epoch;
    t->at = c.row;
    take_sums(t, c.sum);
    t->saved_step = c.step;
    return stream_sync(t->stream, e);
}

/* The values that a training begins with where they are another adapter's. */
static int begin_with(struct tuning *t, struct err *e)
{
    const struct train_ancestor *from = &t->opt.ancestor;
    return from->dir ? train_ancestor_load(from, trainer_subject(t->trainer), e) : 0;
}

/* What a rank has for itself. */
static int make(struct tuning *t, struct model *m, struct stream *s, struct err *e)
{
    const struct tuning_options *o = &t->opt;
    if (check(o, e))
        return -1;
    t->opt.train.n_step = tuning_n_step(o);
    t->opt.train.has_ancestor = o->ancestor.dir != NULL;
    t->opt.train.row_max = o->data->opt.max_tok;
    t->opt.train.n_top = tuning_n_top(o);
    t->base = m->base;
    tuning_subject(&t->opt, t->subject);
    enter(t);
    t->trainer = trainer_new(m, &t->opt.train, s, e);
    leave(t);
    if (!t->trainer || row_set_init(&t->train, o->data, o->batch, e) ||
        (o->valid && row_set_init(&t->valid, o->valid, o->batch, e)))
        return -1;
    t->order = try_alloc((size_t)t->train.n, sizeof *t->order, "the order of rows", e);
    return t->order ? 0 : -1;
}

/* Processes read their options and rows by themselves. */
static int check_alike(struct tuning *t, struct err *e)
{
    const struct train_ranks *r = &t->opt.train.ranks;
    char first[sizeof t->subject];
    struct base_id base = t->base;
    memcpy(first, t->subject, sizeof first);
    if (train_broadcast(r, first, sizeof first, e) || train_broadcast(r, &base, sizeof base, e))
        return -1;
    const char *other = strcmp(first, t->subject) != 0 ? "other options or other rows"
                        : strcmp(base.files, t->base.files) || strcmp(base.types, t->base.types)
                            ? "another base"
                            : NULL;
    int rc = !other
                 ? 0
                 : err_set(e, ERR_BAD_INPUT, "rank %d has %s than rank 0: all must be told alike",
                           r->all ? comm_rank(r->all) : 0, other);
    return train_agree(r, rc, e);
}

static int open_log(struct tuning *t, struct err *e)
{
    const struct tuning_options *o = &t->opt;
    if (o->row_log)
        t->log = row_log_new(o->row_log, t->saved_step, o->logs_logprobs, e);
    return train_broadcast_end(&o->train.ranks, o->row_log && !t->log ? -1 : 0, e);
}

struct tuning *tuning_new(struct model *m, const struct tuning_options *o, struct stream *s,
                          struct err *e)
{
    struct tuning *t = xcalloc(1, sizeof *t);
    *t = (struct tuning){.opt = *o, .stream = s, .saved_us = clock_us()};
    if (train_agree(&o->train.ranks, make(t, m, s, e), e) || check_alike(t, e) ||
        begin_with(t, e) || go_on(t, e) || open_log(t, e)) {
        tuning_free(t);
        return NULL;
    }
    enter_epoch(t);
    return t;
}

void tuning_free(struct tuning *t)
{
    if (!t)
        return;
    trainer_free(t->trainer);
    mem_free(t->order);
    row_set_release(&t->train);
    row_set_release(&t->valid);
    row_log_free(t->log);
    free(t->best_dir);
    free(t);
}

static int say(struct tuning *t, struct tuning_event *v, struct err *e)
{
    v->step = trainer_n_step(t->trainer);
    v->n_step = t->opt.train.n_step;
    v->epoch = t->epoch;
    v->n_trained = (int64_t)t->n_trained;
    const struct train_ranks *r = &t->opt.train.ranks;
    if (!train_is_lead(r))
        return train_answer(r, trainer_subject(t->trainer), NULL, e);
    return train_ask_end(r, t->opt.event ? t->opt.event(t->opt.ctx, v, e) : 0, e);
}

/* Of a step or an evaluation: what failed for the rows is common; what failed here alone is the end
 * of the group, since others may wait for this rank in the middle of it. */
static int settle(const struct tuning *t, int rc, const struct err *e)
{
    const struct train_ranks *r = &t->opt.train.ranks;
    if (rc && r->all && e->code != ERR_DIVERGED && e->code != ERR_BAD_INPUT)
        comm_abort(r->all, e->msg);
    return rc;
}

/* What is trained now, into a folder of which it is the newest. */
static int save_to(struct tuning *t, const char *dir, int keep, struct err *e)
{
    struct checkpoint c = {.step = trainer_n_step(t->trainer), .epoch = t->epoch, .row = t->at};
    const struct train_ranks *r = &t->opt.train.ranks;
    fill_sums(t, c.sum);
    memcpy(c.subject, t->subject, sizeof c.subject);
    c.base = t->base;
    if (checkpoint_save(dir, &c, &trainer_subject(t->trainer)->tensors, t->stream, e))
        return -1;
    return train_broadcast_end(r, train_is_lead(r) ? checkpoint_prune(dir, keep, e) : 0, e);
}

static int save(struct tuning *t, struct err *e)
{
    struct tuning_event v = {.what = TUNING_CHECKPOINT};
    const struct train_ranks *r = &t->opt.train.ranks;
    int64_t step = trainer_n_step(t->trainer);
    if (!t->opt.checkpoints || step == t->saved_step)
        return 0;
    if (train_broadcast_end(r, t->log ? row_log_sync(t->log, e) : 0, e) ||
        save_to(t, t->opt.checkpoints, t->opt.keep, e))
        return -1;
    t->saved_us = clock_us();
    t->saved_step = step;
    return say(t, &v, e);
}

/* Usable rows [lo, hi) of the validation set, a batch at a time. */
static int evaluate(struct tuning *t, int64_t lo, int64_t hi, struct train_result *out,
                    struct err *e)
{
    struct row_set *v = &t->valid;
    double loss = 0, accuracy = 0, reward[2] = {0};
    *out = (struct train_result){0};
    for (int64_t i = lo; i < hi;) {
        struct train_result part;
        row_set_clear(v);
        while (i < hi && row_set_add(v, i))
            i++;
        enter(t);
        int rc = settle(t, trainer_eval(t->trainer, v->row, v->n_row, &part, e), e);
        leave(t);
        if (rc)
            return err_wrap(e, "validation");
        loss += part.loss * part.weight;
        accuracy += part.accuracy * part.weight;
        for (int k = 0; k < 2; k++) {
            reward[k] += part.reward[k] * part.n_reward[k];
            out->n_reward[k] += part.n_reward[k];
        }
        out->weight += part.weight;
        out->n_tok += part.n_tok;
        out->n_label += part.n_label;
    }
    out->loss = loss / out->weight;
    out->accuracy = accuracy / out->weight;
    for (int k = 0; k < 2; k++)
        out->reward[k] = out->n_reward[k] > 0 ? reward[k] / out->n_reward[k] : 0;
    return 0;
}

/* Of a policy: its answers to the validation set's prompts. What it is best at is a reward, which
 * stands for a loss with its sign turned. */
static int judge_samples(struct tuning *t, struct tuning_event *v, bool *ends, struct err *e)
{
    const struct tuning_options *o = &t->opt;
    struct row_set *rows = &t->valid;
    struct train_rewards *sum = &v->rewards;
    *sum = (struct train_rewards){0};
    for (int64_t i = 0, at = 0; i < rows->n && !*ends; at += rows->n_row) {
        struct train_rewards part;
        row_set_clear(rows);
        while (i < rows->n && row_set_add(rows, i))
            i++;
        if (o->sample(o->sample_ctx, rows, trainer_n_step(t->trainer), at, &part, ends, e))
            return err_wrap(e, "validation");
        sum->reward += part.reward * (double)part.n;
        sum->length += part.length * (double)part.n;
        sum->n += part.n;
        sum->n_fault += part.n_fault;
    }
    if (*ends)
        return 0;
    sum->reward /= (double)sum->n;
    sum->length /= (double)sum->n;
    v->valid.loss = -sum->reward;
    return 0;
}

/* A few rows beside a step, which ones goes round the set. */
static int glance(struct tuning *t, struct tuning_event *v, struct err *e)
{
    const struct tuning_options *o = &t->opt;
    int64_t step = trainer_n_step(t->trainer), n = t->valid.n, lo;
    if (n == 0 || o->valid_rows < 1 || o->valid_every < 1 || step % o->valid_every)
        return 0;
    lo = step / o->valid_every * o->valid_rows % n;
    v->has_valid = true;
    return evaluate(t, lo, lo + o->valid_rows < n ? lo + o->valid_rows : n, &v->valid, e);
}

/* ---- the best ------------------------------------------------------------------------------ */

struct tuning_best tuning_best(const struct tuning *t)
{
    return t->best;
}

bool tuning_is_over(const struct tuning *t)
{
    return t->epoch >= t->opt.n_epoch ||
           (t->opt.patience > 0 && t->best.n_worse >= t->opt.patience);
}

/* Of the whole set. A step is looked at once, however often it is told. *is_best: it is the best so
 * far, and was not known. */
static void judge(struct tuning *t, double loss, bool *is_best)
{
    int64_t step = trainer_n_step(t->trainer);
    *is_best = false;
    if (step == t->judged_step)
        return;
    t->judged_step = step;
    t->best.n_worse++;
    if (t->best.step && loss >= t->best.loss)
        return;
    t->best = (struct tuning_best){.step = step, .loss = loss};
    *is_best = true;
}

static bool is_at(const struct tuning *t, int64_t every)
{
    return every > 0 && trainer_n_step(t->trainer) % every == 0;
}

static bool is_multiple(const struct tuning *t)
{
    return is_at(t, t->opt.checkpoint_steps) || is_at(t, t->opt.judge_every);
}

/* An epoch's end, or a checkpoint that is asked for: measured on all rows there are for that, told,
 * and kept where it is the best. Those by time are told alone: when they come is no matter of the
 * training. *ends: it was ended meanwhile, and nothing is told. */
static int tell_values(struct tuning *t, enum tuning_what what, bool *ends, struct err *e)
{
    struct tuning_event v = {.what = what};
    bool counts = what == TUNING_EPOCH || is_multiple(t), is_best = false;
    v.has_valid = t->valid.n > 0 && (counts || t->opt.judges_saves);
    *ends = false;
    if (v.has_valid &&
        (t->opt.sample ? judge_samples(t, &v, ends, e) : evaluate(t, 0, t->valid.n, &v.valid, e)))
        return -1;
    if (*ends)
        return 0;
    if (v.has_valid && counts)
        judge(t, v.valid.loss, &is_best);
    v.is_last = tuning_is_over(t);
    return say(t, &v, e) || (is_best && t->best_dir && save_to(t, t->best_dir, 1, e)) ? -1 : 0;
}

/* Behind the last step: the values become the best ones. */
static int take_best(struct tuning *t, struct err *e)
{
    struct checkpoint c = {0};
    if (!t->best_dir || t->best.step == trainer_n_step(t->trainer))
        return 0;
    memcpy(c.subject, t->subject, sizeof c.subject);
    c.base = t->base;
    if (checkpoint_load(t->best_dir, &c, &trainer_subject(t->trainer)->tensors, t->stream, e))
        return err_wrap(e, "the best values");
    return c.step == t->best.step ? stream_sync(t->stream, e)
                                  : err_set(e, ERR_CORRUPT,
                                            "the best values are of step %lld, and "
                                            "those of step %lld are wanted",
                                            (long long)c.step, (long long)t->best.step);
}

int tuning_forget(const char *checkpoints, struct err *e)
{
    char *best = best_path(checkpoints);
    int rc = checkpoint_forget(best, e) || checkpoint_forget(checkpoints, e) ? -1 : 0;
    if (!rc && rmdir(best) && errno != ENOENT && errno != ENOTEMPTY && errno != ENOTDIR)
        rc = err_sys(e, "removing %s", best);
    free(best);
    return rc;
}

/* ---- epochs and steps ---------------------------------------------------------------------- */

/* One that is ended while its values are looked at is at its end still. */
static int end_epoch(struct tuning *t, bool *ends, struct err *e)
{
    t->epoch++;
    t->at = 0;
    if (tell_values(t, TUNING_EPOCH, ends, e))
        return -1;
    if (*ends) {
        t->epoch--;
        t->at = t->train.n;
    }
    if (save(t, e))
        return -1;
    if (*ends)
        return 0;
    if (t->epoch < t->opt.n_epoch)
        enter_epoch(t);
    return 0;
}

/* The rows of a policy are sampled first. *ends: that was ended, and there is no step. */
static int sample(struct tuning *t, struct tuning_event *v, bool *ends, struct err *e)
{
    const struct tuning_options *o = &t->opt;
    *ends = false;
    return o->sample ? o->sample(o->sample_ctx, &t->train, trainer_n_step(t->trainer), -1,
                                 &v->rewards, ends, e)
                     : 0;
}

/* Samples without a difference teach nothing: the step counts, and changes nothing. */
static int take_step(struct tuning *t, struct tuning_event *v, struct err *e)
{
    if (v->rewards.is_even) {
        for (int64_t i = 0; i < t->train.n_row; i++) {
            const struct train_row *r = &t->train.row[i];
            for (int64_t k = 0; k < r->n; k++)
                r->logprob[k] = r->label[k] < 0 ? 0 : r->sampled[k];
            v->train.n_tok += r->n;
        }
        trainer_set_step(t->trainer, trainer_n_step(t->trainer) + 1);
        return 0;
    }
    enter(t);
    int rc = settle(t, trainer_step(t->trainer, t->train.row, t->train.n_row, &v->train, e), e);
    leave(t);
    return rc;
}

static int one_step(struct tuning *t, bool *ends, struct err *e)
{
    struct tuning_event v = {.what = TUNING_STEP};
    struct row_set *rows = &t->train;
    int64_t before = t->at;
    row_set_clear(rows);
    while (t->at < rows->n && row_set_add(rows, t->order[t->at]))
        t->at++;
    if (sample(t, &v, ends, e))
        return -1;
    if (*ends) {
        t->at = before;
        return save(t, e);
    }
    if (take_step(t, &v, e))
        return err_wrap(e, "step %lld", (long long)trainer_n_step(t->trainer) + 1);
    t->n_trained += (double)v.train.n_tok;
    for (int64_t i = 0; t->log && i < rows->n_row; i++)
        row_log_add(t->log, trainer_n_step(t->trainer), t->epoch + 1, rows->example[i],
                    &rows->row[i]);
    return glance(t, &v, e) || say(t, &v, e) ? -1 : 0;
}

/* What is asked of a clock or of somebody outside is asked at the first rank, for all. */
static int decide(struct tuning *t, bool (*is_so)(const struct tuning *t), bool *out, struct err *e)
{
    *out = train_is_lead(&t->opt.train.ranks) && is_so(t);
    return train_broadcast(&t->opt.train.ranks, out, sizeof *out, e);
}

static bool is_end_wanted(const struct tuning *t)
{
    return t->opt.is_wanted_end && t->opt.is_wanted_end(t->opt.ctx);
}

/* Of steps it is the count that is asked, not how many there were since the last: a training that
 * was halted in between has its checkpoints at the steps of one that was not. */
static bool is_checkpoint_due(const struct tuning *t)
{
    return is_multiple(t) ||
           (t->opt.checkpoint_us > 0 && clock_us() - t->saved_us >= t->opt.checkpoint_us);
}

/* One that is asked for; the end of the training has its own. */
static int save_between(struct tuning *t, bool *ends, struct err *e)
{
    return tell_values(t, TUNING_SAVE, ends, e) || save(t, e) ? -1 : 0;
}

/* Whether the last step's look was ended before it had come to its end. */
static bool owes_look(const struct tuning *t)
{
    return t->opt.sample && t->valid.n > 0 && t->at > 0 && t->at < t->train.n && is_multiple(t) &&
           t->judged_step != trainer_n_step(t->trainer);
}

/* What is due behind a step. */
static int settle_step(struct tuning *t, bool *ends, struct err *e)
{
    bool is_due = false;
    if (t->at >= t->train.n)
        return end_epoch(t, ends, e);
    return decide(t, is_checkpoint_due, &is_due, e) || (is_due && save_between(t, ends, e)) ? -1
                                                                                            : 0;
}

int tuning_run(struct tuning *t, bool *is_done, struct err *e)
{
    bool ends = false;
    *is_done = false;
    if (tuning_is_over(t) && tell_values(t, t->at ? TUNING_SAVE : TUNING_EPOCH, &ends, e))
        return -1;
    while (!tuning_is_over(t) && !ends) {
        if (decide(t, is_end_wanted, &ends, e))
            return -1;
        if (ends)
            return save(t, e);
        bool steps = t->at < t->train.n && !owes_look(t);
        if ((steps && one_step(t, &ends, e)) || (!ends && settle_step(t, &ends, e)))
            return -1;
    }
    if (ends)
        return 0;
    *is_done = true;
    return take_best(t, e);
}

struct trainer *tuning_trainer(struct tuning *t)
{
    return t->trainer;
}
