/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop over epochs and batches. All that decides a step stands in its place (epoch, row), the
 * seed and the trained values, so a checkpoint needs to hold no more.
 */
#include "engine/train/tuning.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/fs.h"
#include "engine/base/mem.h"
#include "engine/train/ask.h"
#include "engine/train/checkpoint.h"
#include "engine/train/order.h"
#include "engine/train/row_log.h"
#include "engine/train/row_set.h"
#include "engine/train/tuning_subject.h"

enum { SUM_TRAINED /* tokens that were in steps */ };

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
    int64_t saved_us, saved_step;
    struct base_id base;             /* whose weights are trained; */
    char subject[SHA256_TEXT_BYTES]; /* both are what its checkpoints must have been made with */
};

/* ---- the gate ------------------------------------------------------------------------------ */

static int64_t go_on_or_wait(void *gate)
{
    return gate_go_on(gate) * 1000;
}

static void let_go(void *gate)
{
    gate_leave(gate, GATE_TRAIN);
}

static void take_again(void *gate)
{
    gate_enter(gate, GATE_TRAIN);
}

/* What a rank waits for it waits for without the gate: another rank may need this one's serving to
 * come so far. */
static void enter(struct tuning *t)
{
    struct comm *c = t->opt.train.ranks.model;
    if (!t->opt.gate)
        return;
    gate_enter(t->opt.gate, GATE_TRAIN);
    stream_between(t->stream, go_on_or_wait, t->opt.gate);
    if (c)
        comm_around(c, let_go, take_again, t->opt.gate);
}

static void leave(struct tuning *t)
{
    struct comm *c = t->opt.train.ranks.model;
    if (!t->opt.gate)
        return;
    if (c)
        comm_around(c, NULL, NULL, NULL);
    stream_between(t->stream, NULL, NULL);
    gate_leave(t->opt.gate, GATE_TRAIN);
}

/* ---- making -------------------------------------------------------------------------------- */

int64_t tuning_n_step(const struct tuning_options *o)
{
    return (dataset_n_usable(o->data) + o->batch - 1) / o->batch * o->n_epoch;
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

/* Goes on from the newest checkpoint, where there is one. */
static int go_on(struct tuning *t, struct err *e)
{
    struct checkpoint c = {0};
    memcpy(c.subject, t->subject, sizeof c.subject);
    c.base = t->base;
    if (!t->opt.checkpoints)
        return 0;
    const struct train_ranks *r = &t->opt.train.ranks;
    int rc = train_is_lead(r) ? checkpoint_open(t->opt.checkpoints, e) : 0;
    if (train_broadcast_end(r, rc, e))
        return -1;
    struct err why = ERR_INIT;
    if (checkpoint_load(t->opt.checkpoints, &c, &trainer_subject(t->trainer)->tensors, t->stream,
                        &why))
        return why.code == ERR_NOT_FOUND ? 0 : err_set(e, why.code, "%s", why.msg);
    trainer_set_step(t->trainer, c.step);
    t->epoch = c.epoch;
    t->at = c.row;
    t->n_trained = c.sum[SUM_TRAINED];
    t->saved_step = c.step;
    return stream_sync(t->stream, e);
}

/* What a rank has for itself. */
static int make(struct tuning *t, struct model *m, struct stream *s, struct err *e)
{
    const struct tuning_options *o = &t->opt;
    if (check(o, e))
        return -1;
    t->opt.train.n_step = tuning_n_step(o);
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
    if (train_agree(&o->train.ranks, make(t, m, s, e), e) || check_alike(t, e) || go_on(t, e) ||
        open_log(t, e)) {
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

static int save(struct tuning *t, struct err *e)
{
    struct checkpoint c = {.step = trainer_n_step(t->trainer), .epoch = t->epoch, .row = t->at};
    struct tuning_event v = {.what = TUNING_CHECKPOINT};
    const struct train_ranks *r = &t->opt.train.ranks;
    if (!t->opt.checkpoints || c.step == t->saved_step)
        return 0;
    if (train_broadcast_end(r, t->log ? row_log_sync(t->log, e) : 0, e))
        return -1;
    c.sum[SUM_TRAINED] = t->n_trained;
    memcpy(c.subject, t->subject, sizeof c.subject);
    c.base = t->base;
    if (checkpoint_save(t->opt.checkpoints, &c, &trainer_subject(t->trainer)->tensors, t->stream,
                        e))
        return -1;
    int rc = train_is_lead(r) ? checkpoint_prune(t->opt.checkpoints, t->opt.keep, e) : 0;
    if (train_broadcast_end(r, rc, e))
        return -1;
    t->saved_us = clock_us();
    t->saved_step = c.step;
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
        for (int k = 0; k < 2; k++)
            reward[k] += part.reward[k] * part.weight;
        out->weight += part.weight;
        out->n_tok += part.n_tok;
        out->n_label += part.n_label;
    }
    out->loss = loss / out->weight;
    out->accuracy = accuracy / out->weight;
    for (int k = 0; k < 2; k++)
        out->reward[k] = reward[k] / out->weight;
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

static int tell_epoch(struct tuning *t, struct err *e)
{
    struct tuning_event v = {.what = TUNING_EPOCH};
    if (t->valid.n) {
        v.has_valid = true;
        if (evaluate(t, 0, t->valid.n, &v.valid, e))
            return -1;
    }
    return say(t, &v, e);
}

static int end_epoch(struct tuning *t, struct err *e)
{
    t->epoch++;
    t->at = 0;
    if (tell_epoch(t, e) || save(t, e))
        return -1;
    if (t->epoch < t->opt.n_epoch)
        enter_epoch(t);
    return 0;
}

/* The rows of a policy are sampled first. *ends: that was ended, and there is no step. */
static int sample(struct tuning *t, struct tuning_event *v, bool *ends, struct err *e)
{
    const struct tuning_options *o = &t->opt;
    *ends = false;
    return o->sample ? o->sample(o->sample_ctx, &t->train, trainer_n_step(t->trainer), &v->rewards,
                                 ends, e)
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
    int64_t every = t->opt.checkpoint_steps;
    return (every > 0 && trainer_n_step(t->trainer) % every == 0) ||
           (t->opt.checkpoint_us > 0 && clock_us() - t->saved_us >= t->opt.checkpoint_us);
}

/* One that is asked for; the end of the training has its own. */
static int save_between(struct tuning *t, struct err *e)
{
    struct tuning_event v = {.what = TUNING_SAVE};
    return say(t, &v, e) || save(t, e) ? -1 : 0;
}

int tuning_run(struct tuning *t, bool *is_done, struct err *e)
{
    *is_done = false;
    if (t->epoch >= t->opt.n_epoch && tell_epoch(t, e))
        return -1;
    while (t->epoch < t->opt.n_epoch) {
        bool ends, is_due = false;
        if (decide(t, is_end_wanted, &ends, e))
            return -1;
        if (ends)
            return save(t, e);
        if (one_step(t, &ends, e))
            return -1;
        if (ends)
            return 0;
        if ((t->at < t->train.n && decide(t, is_checkpoint_due, &is_due, e)))
            return -1;
        if (t->at >= t->train.n ? end_epoch(t, e) : is_due ? save_between(t, e) : 0)
            return -1;
    }
    *is_done = true;
    return 0;
}

struct trainer *tuning_trainer(struct tuning *t)
{
    return t->trainer;
}
