/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows go into micro-batches in their order, as many as fit. Losses are summed row by row, in the
 * order of the rows, so that the cut is not seen in them.
 */
#include "engine/train/trainer.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/eager/eager.h"
#include "engine/train/optimizer.h"

/* Every row of a micro-batch has a cell of its own that may be filled in part. Rows shorter than
 * this fill the room for rows before the room for tokens. */
enum { ROW_LEAST = 16 };

static const double LOSS_LEAST = 1e-3; /* one below may have a gradient of nothing */

struct trainer {
    struct model *model; /* borrowed */
    struct train_options opt;
    struct stream *stream; /* borrowed */
    struct train_subject subject;
    struct optimizer optimizer;
    struct packed *packed;    /* owned */
    struct eager *eager;      /* owned */
    struct k_ce_state *state; /* owned: [cap_tok] of a micro-batch, on the host */
    int64_t n_step;
};

static struct packed *packed_for(struct trainer *t, struct err *e)
{
    int64_t cap = t->opt.cap_tok;
    struct packed_options o = {.cap_tok = cap,
                               .cap_row = cap / ROW_LEAST + 1,
                               .cap_group = t->opt.lora.rank > 0,
                               .shares_cells = t->opt.checkpoints_blocks};
    return packed_new(t->model, &o, t->stream, e);
}

struct trainer *trainer_new(struct model *m, const struct train_options *o, struct stream *s,
                            struct err *e)
{
    struct trainer *t = xcalloc(1, sizeof *t);
    *t = (struct trainer){.model = m, .opt = *o, .stream = s};
    if (train_subject_init(&t->subject, m, s, &o->lora, o->seed, e) ||
        optimizer_init(&t->optimizer, &t->subject.tensors, s, e))
        goto fail;
    t->eager = eager_new(s, e);
    t->packed = packed_for(t, e);
    t->state = try_alloc((size_t)o->cap_tok, sizeof *t->state, "a micro-batch's losses", e);
    if (t->eager && t->packed && t->state)
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
    eager_free(t->eager);
    mem_free(t->state);
    optimizer_release(&t->optimizer);
    train_subject_release(&t->subject);
    free(t);
}

static double weight_of(const struct train_row *r, int64_t i)
{
    if (r->label[i] < 0)
        return 0;
    return r->weight ? (double)r->weight[i] : 1;
}

/* Reads what the head left for each label of a row; at: the row's first in the micro-batch. */
static int64_t read_row(struct trainer *t, const struct train_row *r, int64_t at,
                        struct train_result *out)
{
    double loss = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->logprob)
            r->logprob[i] = 0;
        if (r->label[i] < 0)
            continue;
        const struct k_ce_state *s = &t->state[at++];
        float logprob = s->target_logit - k_ce_lse(s);
        double w = weight_of(r, i);
        if (r->logprob)
            r->logprob[i] = logprob;
        loss -= w * (double)logprob;
        out->accuracy += s->best_id == r->label[i] ? w : 0;
        out->n_label++;
    }
    out->loss += loss;
    out->n_tok += r->n;
    return at;
}

/* Runs the rows that were packed, and their backward where wanted. */
static int run_micro(struct trainer *t, const struct train_row *row, int64_t n, double normaliser,
                     bool trains, struct train_result *out, struct err *e)
{
    const struct train_options *o = &t->opt;
    struct eager_options eo = {.wants_grad = trains,
                               .has_lora = o->lora.rank > 0,
                               .lora_rank_max = (int32_t)o->lora.rank,
                               .checkpoint = o->checkpoints_blocks,
                               .dropout = trains ? (float)o->lora.dropout : 0};
    uint64_t draws = o->seed ^ ((uint64_t)t->n_step << 32);
    int64_t at = 0, n_out = packed_n_out(t->packed);
    int rc = -1;
    train_subject_bind(&t->subject, t->packed);
    eager_begin(t->eager, packed_batch(t->packed, normaliser, draws), &eo);
    struct builder *b = eager_builder(t->eager);
    struct val v = model_build(t->model, b, MODEL_LOSS);
    if (b->failed) {
        err_set(e, b->err.code, "%s", b->err.msg);
        goto done;
    }
    stream_copy(t->stream, t->state, eager_view(t->eager, v).p, (size_t)n_out * sizeof *t->state,
                COPY_FROM_DEVICE);
    if ((trains && eager_backward(t->eager, e)) || stream_sync(t->stream, e))
        goto done;
    for (int64_t i = 0; i < n; i++)
        at = read_row(t, &row[i], at, out);
    rc = 0;
done:
    eager_end(t->eager);
    out->n_micro++;
    return rc;
}

/* All rows, as many at a time as fit. */
static int run_rows(struct trainer *t, const struct train_row *row, int64_t n, bool trains,
                    struct train_result *out, struct err *e)
{
    int64_t first = 0;
    *out = (struct train_result){0};
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < row[i].n; k++)
            out->weight += weight_of(&row[i], k);
    if (!(out->weight > 0))
        return err_set(e, ERR_BAD_INPUT, "no token to learn from");
    packed_clear(t->packed);
    for (int64_t i = 0; i < n; i++) {
        if (i > first && !packed_fits(t->packed, row[i].n)) {
            if (run_micro(t, row + first, i - first, out->weight, trains, out, e))
                return -1;
            packed_clear(t->packed);
            first = i;
        }
        if (packed_add(t->packed, row[i].id, row[i].label, row[i].weight, row[i].n, row[i].key, e))
            return err_wrap(e, "row %lld", (long long)i);
    }
    if (run_micro(t, row + first, n - first, out->weight, trains, out, e))
        return -1;
    out->loss /= out->weight;
    out->accuracy /= out->weight;
    return isfinite(out->loss) ? 0 : err_set(e, ERR_DIVERGED, "the loss is not finite");
}

int trainer_eval(struct trainer *t, const struct train_row *row, int64_t n,
                 struct train_result *out, struct err *e)
{
    return run_rows(t, row, n, false, out, e);
}

/* Values whose squares overflow leave a norm as zeros, so that everything behind it is finite, the
 * same for all tokens, and never changes again. (Dropout may really leave a step nothing.) */
static bool has_collapsed(const struct trainer *t, const struct train_result *r)
{
    return r->grad_norm == 0 && r->loss > LOSS_LEAST && t->opt.lora.dropout == 0;
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

int trainer_step(struct trainer *t, const struct train_row *row, int64_t n,
                 struct train_result *out, struct err *e)
{
    if (run_rows(t, row, n, true, out, e) || late_gradients_begin(t, e) ||
        optimizer_norm(&t->optimizer, &out->grad_norm, e))
        goto fail;
    if (!isfinite(out->grad_norm)) {
        err_set(e, ERR_DIVERGED, "the gradient is not finite");
        goto fail;
    }
    if (has_collapsed(t, out)) {
        err_set(e, ERR_DIVERGED,
                "the gradient is zero at a loss of %.3g: values within the model have overflowed",
                out->loss);
        goto fail;
    }
    optimizer_step(&t->optimizer, &t->opt, t->n_step, out->grad_norm);
    late_gradients_end(t);
    train_subject_changed(&t->subject);
    t->n_step++;
    return stream_sync(t->stream, e);
fail:
    optimizer_clear(&t->optimizer);
    late_gradients_end(t);
    return -1;
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
