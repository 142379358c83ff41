/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows go into micro-batches in their order, as many as fit. What each token got is kept until all
 * rows have run; then losses are summed row by row, in the order of the rows, so that neither the
 * cut nor the ranks are seen in them.
 *
 * Of pairs, and of a policy, a micro-batch's forward is waited for before its backward, which is
 * told what each row counts. What the reference says of a row is found once, by its own forward.
 */
#include "engine/train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/eager/eager.h"
#include "engine/train/balance.h"
#include "engine/train/bound.h"
#include "engine/train/function.h"
#include "engine/train/mismatch.h"
#include "engine/train/optimizer.h"
#include "engine/train/preference.h"
#include "engine/train/seen.h"
#include "engine/train/vector_loss.h"

/* Every row of a micro-batch has a cell of its own that may be filled in part. Rows shorter than
 * this fill the room for rows before the room for tokens. */
enum { ROW_LEAST = 16 };

static const double LOSS_LEAST = 1e-3; /* one below may have a gradient of nothing */

struct trainer {
    struct model *model; /* borrowed */
    struct train_options opt;
    struct stream *stream; /* borrowed */
    struct train_subject subject;
    struct train_function function;
    struct exchange exchange;
    struct optimizer optimizer;
    struct balance balance;
    struct packed *packed;    /* owned */
    struct eager *eager;      /* owned */
    struct k_ce_state *state; /* owned: [cap_tok] of a micro-batch, on the host */
    float *by;                /* owned: of a micro-batch, what its rows count, or its labels */
    struct seen *seen;        /* owned: of all tokens of a step */
    int64_t cap_seen, n_step;
    int64_t cap_packed;    /* tokens that packed, state and by have room for */
    float *vector, *slope; /* owned: [cap_vector, n_col] of a step's rows, and the loss's slopes */
    struct vector_told *told; /* owned: [cap_vector] of its examples */
    int64_t cap_vector;
    bool has_gradient; /* of passes, behind which there was no update */
};

/* Rows that belong together: those of a step come in so many. */
static int64_t n_each(const struct trainer *t)
{
    return train_has_pairs(&t->opt.preference) ? 2 : 1;
}

static int64_t cap_row(const struct trainer *t)
{
    return t->opt.cap_tok / ROW_LEAST + n_each(t);
}

static struct packed *packed_for(struct trainer *t, struct err *e)
{
    int64_t cap = t->opt.cap_tok;
    struct packed_options o = {.cap_tok = cap,
                               .cap_row = cap_row(t),
                               .cap_group = t->opt.lora.rank > 0,
                               .n_top = t->opt.n_top,
                               .shares_cells = t->opt.checkpoints_blocks};
    return packed_new(t->model, &o, t->stream, e);
}

/* What micro-batches of cap_tok tokens need, in place of what is there. */
static int make_room(struct trainer *t, struct err *e)
{
    int64_t n_by = t->opt.cap_tok > cap_row(t) ? t->opt.cap_tok : cap_row(t);
    packed_free(t->packed);
    mem_free(t->state);
    mem_free(t->by);
    t->packed = packed_for(t, e);
    t->state = try_alloc((size_t)t->opt.cap_tok, sizeof *t->state, "a micro-batch's losses", e);
    t->by = try_alloc((size_t)n_by, sizeof *t->by, "a micro-batch's losses", e);
    t->cap_packed = t->packed && t->state && t->by ? t->opt.cap_tok : 0;
    return t->cap_packed ? 0 : -1;
}

static int check_loss(const struct train_options *o, struct err *e)
{
    ASSERT(!o->policy.is_on || !train_has_preference(&o->preference));
    return (!train_has_preference(&o->preference) && !o->policy.is_on) || o->lora.rank > 0
               ? 0
               : err_set(e, ERR_UNSUPPORTED,
                         "a loss of preferences, or of rewards, trains an adapter: the model "
                         "without it is the reference");
}

struct trainer *trainer_new(struct model *m, const struct train_options *o, struct stream *s,
                            struct err *e)
{
    struct trainer *t = xcalloc(1, sizeof *t);
    *t = (struct trainer){.model = m, .opt = *o, .stream = s};
    if (check_loss(o, e) || train_subject_init(&t->subject, m, s, o, e))
        goto fail;
    t->eager = eager_new(s, e);
    if (!t->eager || exchange_init(&t->exchange, &t->subject.tensors, m, t->eager, s, e))
        goto fail;
    eager_limit(t->eager, o->value_bytes);
    if (optimizer_init(&t->optimizer, &t->subject.tensors, &t->exchange, s, e) ||
        train_function_init(&t->function, m, o, e) || balance_init(&t->balance, m, s, e))
        goto fail;
    if (!make_room(t, e))
        return t;
fail:
    trainer_free(t);
    return NULL;
}

void trainer_free(struct trainer *t)
{
    if (!t)
        return;
    packed_free(t->packed);
    balance_release(&t->balance);
    eager_free(t->eager);
    mem_free(t->state);
    mem_free(t->by);
    mem_free(t->seen);
    mem_free(t->vector);
    mem_free(t->slope);
    mem_free(t->told);
    train_function_release(&t->function);
    optimizer_release(&t->optimizer);
    exchange_release(&t->exchange);
    train_subject_release(&t->subject);
    free(t);
}

/* The rows of a step or an evaluation: which of them are computed here, and which of these are in
 * the micro-batch at hand. */
struct work {
    const struct train_row *row; /* [n] of the whole step */
    int64_t n, n_tok, n_each;
    int64_t lo, hi;                /* computed here */
    int64_t first, end;            /* in the micro-batch */
    struct seen *seen;             /* of row `first` on */
    const struct label_loss *loss; /* of a pass; NULL: the options say */
    double normaliser;
    double kl;            /* of a loss of verdicts */
    float balance;        /* losses of the micro-batches so far that balance experts */
    bool trains, is_open; /* is_open: there is a tape */
    bool looks;           /* no gradient yet: what the step's vectors are decides it */
    struct val vector;    /* of the tape */
};

/* Tokens of row i and those that belong to it. */
static int64_t tokens_at(const struct work *w, int64_t i)
{
    return w->row[i].n + (w->n_each > 1 ? w->row[i + 1].n : 0);
}

/* The rows that are this rank's: of runs of about as many tokens each, one for each rank. */
static void share_rows(struct trainer *t, struct work *w)
{
    const struct train_ranks *r = &t->opt.ranks;
    int64_t n_rank = train_n_data(r), before = 0, last = -1, tok = 0, most = 0, own = 0;
    w->lo = w->hi = w->n;
    for (int64_t i = 0, n; i < w->n; i += w->n_each, before += n) {
        n = tokens_at(w, i);
        int64_t of = (2 * before + n) * n_rank / (2 * w->n_tok); /* its middle's */
        tok = of == last ? tok + n : n;
        most = tok > most ? tok : most;
        last = of;
        if (of == r->data_rank && w->lo == w->n)
            w->lo = i;
        if (of > r->data_rank && w->hi == w->n)
            w->hi = i;
    }
    w->lo = w->lo < w->hi ? w->lo : w->hi;
    for (int64_t i = w->lo; i < w->hi; i++)
        own += w->row[i].n;
    exchange_begin(&t->exchange, own, most);
}

/* What is to be learned of these rows, room for what each of their tokens gets, and this rank's
 * share. */
static int begin(struct trainer *t, struct work *w, const struct train_row *row, int64_t n,
                 bool trains, const struct label_loss *loss, struct train_result *out,
                 struct err *e)
{
    *out = (struct train_result){0};
    if (trains && train_bound_check(t->model, t->stream, e))
        return -1;
    *w = (struct work){
        .row = row, .n = n, .n_each = n_each(t), .trains = trains, .loss = loss, .normaliser = 1};
    for (int64_t i = 0; i < n; w->n_tok += row[i++].n)
        for (int64_t k = 0; k < row[i].n; k++)
            out->weight += seen_weight(&row[i], k);
    if (!(out->weight > 0))
        return err_set(e, ERR_BAD_INPUT, "no token to learn from");
    ASSERT(n % w->n_each == 0);
    if (train_has_preference(&t->opt.preference))
        out->weight = (double)(n / w->n_each);
    else if (train_has_vectors(&t->opt.vectors))
        out->weight = (double)(n / t->opt.vectors.n_each);
    else if (t->opt.policy.is_on || w->loss)
        out->weight = 1; /* shares, or the labels' own, say what counts */
    else
        w->normaliser = out->weight;
    if (seen_reserve(&t->seen, &t->cap_seen, w->n_tok, e) || train_subject_ready(&t->subject, e))
        return -1;
    w->seen = t->seen;
    share_rows(t, w);
    for (int64_t i = 0; i < w->lo; i++)
        w->seen += row[i].n;
    w->first = w->lo;
    packed_clear(t->packed);
    return 0;
}

/* Whether row i fits with those that belong to it: asked of the first of them. */
static bool fits(const struct trainer *t, const struct work *w, int64_t i)
{
    return i % w->n_each || (packed_n_row(t->packed) + w->n_each <= cap_row(t) &&
                             packed_n_tok(t->packed) + tokens_at(w, i) <= t->opt.cap_tok);
}

/* What a teacher's word counts beside the label. */
static double distill(const struct trainer *t)
{
    return t->opt.distill > 0 ? t->opt.distill : 1;
}

/* As many of this rank's next rows as fit, one behind the other. */
static int pack(struct trainer *t, struct work *w, struct train_result *out, struct err *e)
{
    for (w->end = w->first; w->end < w->hi; w->end++) {
        const struct train_row *r = &w->row[w->end];
        if (w->end > w->first && !fits(t, w, w->end))
            break;
        if (packed_add(t->packed, r->id, r->label, r->weight, r->n, r->key, e))
            return err_wrap(e, "row %lld", (long long)w->end);
        if (r->n_first)
            packed_split(t->packed, r->n_first);
        if (r->n_top)
            packed_teach(t->packed, r->top_id, r->top, distill(t));
    }
    out->n_micro++;
    return 0;
}

static bool runs_adapter(const struct train_options *o, enum train_run run)
{
    return o->lora.rank > 0 && (run != RUN_REFERENCE || o->has_ancestor);
}

static int64_t n_col(const struct trainer *t)
{
    return config_vector_cols(&t->model->cfg);
}

/* What the model gives, to the host. */
static void fetch(struct trainer *t, struct work *w, struct val v)
{
    struct op_view out = eager_view(t->eager, v);
    int64_t n = packed_n_out(t->packed);
    if (train_has_vectors(&t->opt.vectors)) {
        ASSERT(out.ld == n_col(t) && n == w->end - w->first);
        w->vector = v;
        stream_copy(t->stream, t->vector + w->first * out.ld, out.p,
                    (size_t)(n * out.ld) * sizeof(float), COPY_FROM_DEVICE);
        return;
    }
    stream_copy(t->stream, t->state, out.p, (size_t)n * sizeof *t->state, COPY_FROM_DEVICE);
    packed_fetch_top(t->packed);
}

/* Runs the model up to its losses, which are on their way to the host behind it; leaves a tape. */
static int run_model(struct trainer *t, struct work *w, enum train_run run, struct err *e)
{
    const struct train_options *o = &t->opt;
    bool is_last = w->end == w->hi, trains = run == RUN_TRAINED;
    struct eager_options eo = {.wants_grad = trains && !w->looks,
                               .has_lora = runs_adapter(o, run),
                               .has_dora = runs_adapter(o, run) && o->lora.is_dora,
                               .lora_rank_max = (int32_t)o->lora.rank,
                               .checkpoint = o->checkpoints_blocks,
                               .dropout = trains ? (float)o->lora.dropout : 0,
                               .noise = trains ? (float)o->noise : 0,
                               .block_done = is_last ? exchange_block : NULL,
                               .ctx = &t->exchange};
    uint64_t draws = o->seed ^ ((uint64_t)t->n_step << 32);
    packed_ask_load(t->packed, balance_begin(&t->balance, packed_n_tok(t->packed), w->n_tok));
    train_subject_bind(&t->subject, run == RUN_REFERENCE, t->packed, eo.saved);
    eager_begin(t->eager, packed_batch(t->packed, w->normaliser, draws), &eo);
    w->is_open = true;
    struct builder *b = eager_builder(t->eager);
    struct val v = train_function_build(&t->function, b, run);
    if (b->failed)
        return err_set(e, b->err.code, "%s", b->err.msg);
    fetch(t, w, v);
    balance_fetch(&t->balance, t->stream);
    return 0;
}

static void close_tape(struct trainer *t, struct work *w)
{
    if (w->is_open)
        eager_end(t->eager);
    w->is_open = false;
}

static void close_micro(struct trainer *t, struct work *w)
{
    close_tape(t, w);
    packed_clear(t->packed);
}

static bool knows_reference(const struct trainer *t, const struct work *w)
{
    if (!train_has_reference(&t->opt))
        return true;
    for (int64_t i = w->first; i < w->end; i++)
        if (isnan(w->row[i].reference[0]))
            return false;
    return true;
}

/* What the loss compares with: where it is not known of all rows it is found for all of them. */
static int refer(struct trainer *t, struct work *w, struct err *e)
{
    if (knows_reference(t, w))
        return 0;
    if (run_model(t, w, RUN_REFERENCE, e) || stream_sync(t->stream, e))
        return -1;
    for (int64_t i = w->first, at = 0; i < w->end; i++)
        at += seen_reference(&w->row[i], t->state + at);
    close_tape(t, w);
    return 0;
}

static int forward(struct trainer *t, struct work *w, struct err *e)
{
    return refer(t, w, e) || run_model(t, w, w->trains ? RUN_TRAINED : RUN_JUDGED, e) ? -1 : 0;
}

static void read_rows(struct trainer *t, const struct work *w)
{
    const struct batch_top *top = packed_top(t->packed);
    struct seen *seen = w->seen;
    for (int64_t i = w->first, at = 0, n; i < w->end; seen += w->row[i++].n, at += n) {
        n = seen_read(&w->row[i], t->state + at, seen);
        if (w->row[i].n_top)
            seen_teach(&w->row[i], distill(t), t->state, top, at, seen);
    }
}

/* Of a policy, or a pass: what each label counts. */
static void weigh_labels(struct trainer *t, const struct work *w)
{
    const struct seen *seen = w->seen;
    int64_t n = 0;
    for (int64_t i = w->first; i < w->end; seen += w->row[i++].n)
        n += w->loss ? seen_labels(w->loss, &w->row[i], seen, t->by + n)
                     : seen_policy(&t->opt.policy, &w->row[i], seen, t->by + n);
    packed_scale_labels(t->packed, t->by);
}

static void weigh_verdicts(struct trainer *t, const struct work *w)
{
    const struct seen *seen = w->seen;
    for (int64_t i = w->first; i < w->end; seen += w->row[i++].n) {
        struct preference_verdict v = seen_verdict(&t->opt.preference, &w->row[i], seen, w->kl);
        t->by[i - w->first] = (float)(v.by / (double)w->n);
    }
    packed_scale(t->packed, t->by);
}

/* Of preferences and of a policy: what each row's labels count, now that the forward has told. */
static int weigh(struct trainer *t, const struct work *w, struct err *e)
{
    const struct seen *seen = w->seen;
    double n_pair = (double)(w->n / w->n_each);
    bool has_labels = t->opt.policy.is_on || w->loss;
    if (!train_has_preference(&t->opt.preference) && !has_labels)
        return 0;
    if (stream_sync(t->stream, e))
        return -1;
    read_rows(t, w);
    if (has_labels) {
        weigh_labels(t, w);
        return 0;
    }
    if (train_has_verdicts(&t->opt.preference)) {
        weigh_verdicts(t, w);
        return 0;
    }
    for (int64_t i = w->first; i < w->end; seen += tokens_at(w, i), i += w->n_each) {
        struct preference_pair p = seen_pair(&t->opt.preference, &w->row[i], seen);
        t->by[i - w->first] = (float)(p.by[0] / n_pair);
        t->by[i - w->first + 1] = (float)(p.by[1] / n_pair);
    }
    packed_scale(t->packed, t->by);
    return 0;
}

/* Adds the micro-batch's gradients; behind the last one the ranks' sums are on their way. */
static int backward(struct trainer *t, struct err *e)
{
    return eager_backward(t->eager, e);
}

/* Waits for the micro-batch, takes what its labels got, and gives it back. */
static int read_micro(struct trainer *t, struct work *w, struct err *e)
{
    if (stream_sync(t->stream, e) || exchange_check(&t->exchange, e))
        return -1;
    read_rows(t, w);
    w->balance += (float)balance_loss(&t->balance);
    while (w->first < w->end)
        w->seen += w->row[w->first++].n;
    close_micro(t, w);
    return 0;
}

static int gather_seen(struct trainer *t, const struct work *w, struct err *e)
{
    return exchange_rows(&t->exchange, &t->seen->logprob, SEEN_FLOATS * (size_t)w->n_tok, e);
}

/* The loss over the rows of all ranks, in the order of the rows. */
static int sum_losses(struct trainer *t, struct work *w, struct train_result *out, struct err *e)
{
    const struct seen *seen = t->seen;
    if (gather_seen(t, w, e) ||
        (t->balance.coef > 0 && exchange_rows(&t->exchange, &w->balance, 1, e)))
        return -1;
    for (int64_t i = 0; i < w->n; seen += w->row[i++].n) {
        seen_tell(&w->row[i], seen, out);
        if (w->loss)
            seen_add_labels(w->loss, &w->row[i], seen, out);
        else if (t->opt.policy.is_on)
            seen_add_policy(&t->opt.policy, &w->row[i], seen, out);
        else if (train_has_verdicts(&t->opt.preference))
            seen_add_verdict(&t->opt.preference, &w->row[i], seen, w->kl, out);
        else if (w->n_each == 1)
            seen_add(&w->row[i], seen, out);
        else if (i % w->n_each == 0)
            seen_add_pair(&t->opt.preference, &w->row[i], seen, out);
    }
    out->loss = out->loss / out->weight + (double)w->balance;
    out->accuracy /= out->weight;
    for (int k = 0; k < 2; k++)
        if (out->n_reward[k] > 0)
            out->reward[k] /= out->n_reward[k];
    out->kl = t->opt.policy.is_on ? out->kl / (double)out->n_label : w->kl;
    return isfinite(out->loss) ? 0 : err_set(e, ERR_DIVERGED, "the loss is not finite");
}

/* What the labels of rows get, of which nothing is learned. */
static int judge(struct trainer *t, struct work *w, const struct train_row *row, int64_t n,
                 struct train_result *out, struct err *e)
{
    int rc = begin(t, w, row, n, false, NULL, out, e);
    while (!rc && w->first < w->hi)
        rc = pack(t, w, out, e) || forward(t, w, e) || read_micro(t, w, e) ? -1 : 0;
    if (rc)
        close_micro(t, w);
    return rc;
}

/* Of a loss of verdicts, what the rewards of all rows are held against; else 0. */
static int find_divergence(struct trainer *t, const struct train_row *row, int64_t n, double *kl,
                           struct err *e)
{
    struct mismatch m;
    struct train_result unused;
    struct work w;
    int64_t most = t->opt.row_max > 0 ? t->opt.row_max : t->model->ctx;
    *kl = 0;
    if (!train_has_verdicts(&t->opt.preference))
        return 0;
    if (mismatch_init(&m, row, n, most < t->opt.cap_tok ? most : t->opt.cap_tok, e))
        return -1;
    int rc = judge(t, &w, m.row, n, &unused, e) || gather_seen(t, &w, e) ? -1 : 0;
    const struct seen *seen = t->seen;
    for (int64_t i = 0; i < n && !rc; seen += m.row[i++].n)
        seen_tell(&m.row[i], seen, &unused);
    *kl = rc ? 0 : mismatch_divergence(&m);
    mismatch_release(&m);
    return rc;
}

/* ---- vectors ------------------------------------------------------------------------------- */

static int reserve_vectors(struct trainer *t, int64_t n, struct err *e)
{
    static const char what[] = "a step's vectors";
    size_t all = (size_t)(n * n_col(t));
    if (n > t->cap_vector) {
        mem_free(t->vector);
        mem_free(t->slope);
        mem_free(t->told);
        t->vector = try_alloc(all, sizeof *t->vector, what, e);
        t->slope = try_alloc(all, sizeof *t->slope, what, e);
        t->told = try_alloc((size_t)n, sizeof *t->told, what, e);
        t->cap_vector = t->vector && t->slope && t->told ? n : 0;
    }
    if (!t->cap_vector)
        return -1;
    memset(t->vector, 0, all * sizeof *t->vector); /* those of other ranks' rows */
    return 0;
}

/* The vectors of this rank's rows. Where all of them are in one micro-batch its tape stays. */
static int look(struct trainer *t, struct work *w, struct train_result *out, struct err *e)
{
    for (w->first = w->lo; w->first < w->hi; w->first = w->end) {
        if (pack(t, w, out, e))
            return -1;
        w->looks = !w->trains || w->first > w->lo || w->end < w->hi;
        if (run_model(t, w, w->trains ? RUN_TRAINED : RUN_JUDGED, e) || stream_sync(t->stream, e))
            return -1;
        if (!w->looks)
            return 0;
        close_micro(t, w);
    }
    return 0;
}

/* All ranks' vectors, and what they are worth; of a joint loss its slopes, too. */
static int judge_vectors(struct trainer *t, const struct work *w, struct err *e)
{
    const struct train_vectors *o = &t->opt.vectors;
    bool wants = w->trains && vector_loss_is_joint(o);
    return exchange_rows(&t->exchange, t->vector, (size_t)(w->n * n_col(t)), e) ||
                   vector_loss(o, w->row, w->n, w->n / o->n_each, t->vector, n_col(t),
                               wants ? t->slope : NULL, t->told, e)
               ? -1
               : 0;
}

/* Of a loss that is not joint a micro-batch's own vectors say its slopes. */
static int learn_micro(struct trainer *t, const struct work *w, struct err *e)
{
    int64_t at = w->first * n_col(t);
    if (!vector_loss_is_joint(&t->opt.vectors) &&
        (stream_sync(t->stream, e) ||
         vector_loss(&t->opt.vectors, w->row + w->first, w->end - w->first, w->n, t->vector + at,
                     n_col(t), t->slope + at, NULL, e)))
        return -1;
    return eager_seed(t->eager, w->vector, t->slope + at, e) || eager_backward(t->eager, e) ||
                   stream_sync(t->stream, e) || exchange_check(&t->exchange, e)
               ? -1
               : 0;
}

static int learn(struct trainer *t, struct work *w, struct train_result *out, struct err *e)
{
    w->looks = false;
    for (w->first = w->lo; w->first < w->hi; w->first = w->end) {
        if (!w->is_open && (pack(t, w, out, e) || run_model(t, w, RUN_TRAINED, e)))
            return -1;
        if (learn_micro(t, w, e))
            return -1;
        close_micro(t, w);
    }
    return 0;
}

/* Gradients of a step, and its loss; where it does not train the loss alone. Of a joint loss each
 * micro-batch but an only one is run twice: first for its vectors, then for their gradients. */
static int over_vectors(struct trainer *t, struct work *w, struct train_result *out, struct err *e)
{
    bool is_joint = vector_loss_is_joint(&t->opt.vectors);
    if (reserve_vectors(t, w->n, e))
        return -1;
    if ((is_joint || !w->trains) && (look(t, w, out, e) || judge_vectors(t, w, e)))
        return -1;
    if (w->trains) {
        out->n_micro = w->is_open ? out->n_micro : 0;
        if (learn(t, w, out, e) || (!is_joint && judge_vectors(t, w, e)) ||
            exchange_end(&t->exchange, e))
            return -1;
    }
    return vector_sum(&t->opt.vectors, w->row, w->n, t->told, out, e);
}

int trainer_eval(struct trainer *t, const struct train_row *row, int64_t n,
                 struct train_result *out, struct err *e)
{
    struct work w;
    double kl;
    int rc;
    if (train_has_vectors(&t->opt.vectors)) {
        rc = begin(t, &w, row, n, false, NULL, out, e) || over_vectors(t, &w, out, e) ? -1 : 0;
        if (rc)
            close_micro(t, &w);
        return rc;
    }
    if (find_divergence(t, row, n, &kl, e) || judge(t, &w, row, n, out, e))
        return -1;
    w.kl = kl;
    return sum_losses(t, &w, out, e);
}

/* Values whose squares overflow leave a norm as zeros, so that everything behind it is finite, the
 * same for all tokens, and never changes again. (Dropout may really leave a step nothing.) */
static bool has_collapsed(const struct trainer *t, const struct train_result *r)
{
    return r->grad_norm == 0 && r->loss > LOSS_LEAST && t->opt.lora.dropout == 0 &&
           !t->opt.policy.is_on; /* all of it may be clipped */
}

static int late_gradients_begin(struct trainer *t, struct err *e)
{
    const struct train_tensors *on = &t->subject.tensors;
    for (size_t i = 0; i < on->list.n; i++)
        if (on->list.at[i].param && eager_grad_begin(t->eager, on->list.at[i].param, e))
            return -1;
    return 0;
}

static void late_gradients_end(struct trainer *t)
{
    const struct train_tensors *on = &t->subject.tensors;
    for (size_t i = 0; i < on->list.n; i++)
        if (on->list.at[i].param)
            eager_grad_end(t->eager, on->list.at[i].param);
}

/* The gradient's norm, which says whether there is a step to take. */
static int take_norm(struct trainer *t, struct train_result *out, struct err *e)
{
    if (late_gradients_begin(t, e) || optimizer_norm(&t->optimizer, &out->grad_norm, e))
        return -1;
    if (!isfinite(out->grad_norm))
        return err_set(e, ERR_DIVERGED, "the gradient is not finite");
    if (has_collapsed(t, out))
        return err_set(e, ERR_DIVERGED,
                       "the gradient is zero at a loss of %.3g: values within the model have "
                       "overflowed",
                       out->loss);
    return 0;
}

static int update(struct trainer *t, const struct train_result *r, struct err *e)
{
    return optimizer_step(&t->optimizer, &t->opt, t->n_step, r->grad_norm, e);
}

/* The gradients of a step, and its loss. Shapes: m tokens and k labels of a micro-batch, n_elem
 * trained values. */
static int add_step(struct trainer *t, struct work *w, struct train_result *out, struct err *e)
{
    if (train_has_vectors(&t->opt.vectors))
        return over_vectors(t, w, out, e);
    while (w->first < w->hi)
        if (pack(t, w, out, e)      /* rows -> tokens [m], labels and their weights [k] */
            || forward(t, w, e)     /* tokens [m] -> logits' sums [k]; a tape */
            || weigh(t, w, e)       /* of pairs, of a policy: logits' sums [k] -> what they count */
            || backward(t, e)       /* the tape -> gradients += [n_elem] */
            || read_micro(t, w, e)) /* logits' sums [k] -> log-probabilities of rows */
            return -1;
    return exchange_end(&t->exchange, e)       /* gradients [n_elem], of all ranks' rows */
                   || sum_losses(t, w, out, e) /* log-probabilities of all rows -> the loss */
               ? -1
               : 0;
}

int trainer_step(struct trainer *t, const struct train_row *row, int64_t n,
                 struct train_result *out, struct err *e)
{
    struct work w = {.row = row};
    double kl;
    if (find_divergence(t, row, n, &kl, e) /* of verdicts: rows made of others -> one number */
        || begin(t, &w, row, n, true, NULL, out, e))
        goto fail;
    w.kl = kl;
    if (add_step(t, &w, out, e) || take_norm(t, out, e) /* gradients [n_elem] -> their norm */
        || update(t, out, e)) /* gradients, moments -> values, moments [n_elem] */
        goto fail;
    late_gradients_end(t);
    t->n_step++;
    return stream_sync(t->stream, e);
fail:
    close_micro(t, &w);
    exchange_drop(&t->exchange, e);
    optimizer_clear(&t->optimizer);
    late_gradients_end(t);
    return -1;
}

void trainer_forget(struct trainer *t)
{
    optimizer_clear(&t->optimizer);
    t->has_gradient = false;
}

bool trainer_has_gradient(const struct trainer *t)
{
    return t->has_gradient;
}

int trainer_pass(struct trainer *t, const struct train_row *row, int64_t n,
                 const struct label_loss *loss, bool trains, struct train_result *out,
                 struct err *e)
{
    struct work w;
    ASSERT(t->opt.lora.rank > 0 && !t->opt.ranks.all);
    int rc = begin(t, &w, row, n, trains, loss, out, e);
    while (!rc && w.first < w.hi)
        rc = pack(t, &w, out, e) || forward(t, &w, e) ||
                     (trains && (weigh(t, &w, e) || backward(t, e))) || read_micro(t, &w, e)
                 ? -1
                 : 0;
    if (!rc)
        rc = sum_losses(t, &w, out, e);
    if (rc) {
        close_micro(t, &w);
        trainer_forget(t);
        return -1;
    }
    t->has_gradient = t->has_gradient || trains;
    return 0;
}

int trainer_update(struct trainer *t, const struct train_adam *how, double *grad_norm,
                   struct err *e)
{
    struct train_options *o = &t->opt;
    o->lr = how->lr;
    o->beta1 = how->beta1;
    o->beta2 = how->beta2;
    o->eps = how->eps;
    o->decay = how->decay;
    o->max_norm = how->max_norm;
    o->schedule = TRAIN_CONSTANT;
    o->warmup = 0;
    if (optimizer_norm(&t->optimizer, grad_norm, e))
        return -1;
    if (!isfinite(*grad_norm)) {
        trainer_forget(t);
        return err_set(e, ERR_DIVERGED, "the gradient is not finite");
    }
    if (optimizer_step(&t->optimizer, o, t->n_step, *grad_norm, e))
        return -1;
    t->has_gradient = false;
    t->n_step++;
    return stream_sync(t->stream, e);
}

int trainer_fit(struct trainer *t, int64_t cap_tok, size_t value_bytes, bool checkpoints_blocks,
                struct err *e)
{
    bool is_other = t->opt.checkpoints_blocks != checkpoints_blocks;
    t->opt.cap_tok = cap_tok;
    t->opt.checkpoints_blocks = checkpoints_blocks;
    t->opt.value_bytes = value_bytes;
    eager_limit(t->eager, value_bytes);
    return cap_tok <= t->cap_packed && !is_other ? 0 : make_room(t, e);
}

void trainer_rest(struct trainer *t)
{
    eager_trim(t->eager);
}

int64_t trainer_n_step(const struct trainer *t)
{
    return t->n_step;
}

void trainer_set_step(struct trainer *t, int64_t n_step)
{
    t->n_step = n_step;
}

struct train_subject *trainer_subject(struct trainer *t)
{
    return &t->subject;
}

size_t trainer_bytes(const struct trainer *t)
{
    return t->subject.tensors.bytes + packed_bytes(t->packed) + eager_bytes(t->eager);
}
