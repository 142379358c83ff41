/* SPDX-License-Identifier: Apache-2.0
 *
 * From rows to answers. A row is of a place in a text: where the token behind it is known, it may
 * be scored (the prompt's log-probabilities); where it is not, it is sampled. All rows of a step
 * are one job of the pool; what they came to is then told to the answers, one after the other.
 */
#include <string.h>

#include "engine/serve/beams.h"
#include "engine/serve/engine_own.h"

static void plan_row(struct flight *f, const struct sched_part *p, int64_t place, int64_t row)
{
    struct work *w = p->seq->owner;
    bool is_known = place < p->seq->n_tok;
    int64_t n_ahead = is_known ? 0 : place - p->seq->n_tok; /* drafts that it counts on */
    int64_t n_new = w->n_new + w->n_promised + n_ahead;
    if (is_known ? !w->params.wants_prompt || n_new > 0 : n_new == w->max_new)
        return;
    f->use[f->n_task] = (struct row_use){.work = w, .place = place, .row = row, .n_ahead = n_ahead};
    struct sample_task *t = &f->task[f->n_task++];
    t->known = is_known ? p->seq->token[place] : -1;
    t->row = (struct sample_row){.logits = f->out.p + row * f->out.ld,
                                 .params = &w->params.sample,
                                 .place = (uint64_t)n_new,
                                 .seen = w->seen,
                                 .ahead = p->seq->token + p->seq->n_tok,
                                 .n_ahead = (int32_t)n_ahead,
                                 .text = p->seq->token,
                                 .n_text = is_known ? 0 : p->seq->n_prompt + n_new,
                                 .n_said = is_known ? 0 : n_new,
                                 .length = w->length,
                                 .mu = w->mu,
                                 .mask = is_known ? NULL : constrained_row(w, n_ahead),
                                 .banned = w->end_id,
                                 .n_banned = n_new < w->params.min_new ? w->n_end_id : 0,
                                 .wants_logprob = w->params.wants_logprob,
                                 .n_top = w->beams ? beams_tops(w) : w->params.n_top,
                                 .wants_rank = is_known && w->params.wants_ranks};
}

void rows_plan(struct flight *f)
{
    int64_t row = 0;
    f->n_task = 0;
    for (int64_t i = 0; i < f->step.n_part; i++) {
        const struct sched_part *p = &f->step.part[i];
        for (int64_t k = p->n_tok - p->n_out; k < p->n_tok; k++, row++)
            plan_row(f, p, p->pos + k + 1, row);
    }
}

/* ---- tokens that are on their way ---------------------------------------------------------- */

/* A token that brings the text to its full length is the last one, which is known before the token
 * is. */
static void promise(struct work *w, int64_t row)
{
    if (w->seq.is_finished)
        return;
    w->n_promised = 1;
    w->row_from = row;
    if (w->n_new + 1 == w->max_new)
        seq_finish(&w->seq);
    else
        seq_promise(&w->seq);
}

void rows_promise(struct flight *f)
{
    for (int64_t i = 0; i < f->n_task; i++)
        if (f->task[i].known < 0)
            promise(f->use[i].work, f->use[i].row);
    for (int64_t i = 0; i < f->step.n_part; i++) {
        struct work *w = f->step.part[i].seq->owner;
        if (w->max_new == 0 && w->seq.n_tok == f->step.part[i].pos + f->step.part[i].n_tok)
            seq_finish(&w->seq);
    }
}

/* The device went on with what it drew: so that is in the sequence, even where the text ends
 * before it. */
static void keep_promise(struct work *w, const struct sample_task *t)
{
    if (w->seq.is_open)
        seq_push(&w->seq, *t->row.drawn > 0 ? *t->row.drawn : 0);
    else if (!w->n_promised && !w->is_over && !t->rc && !work_ends_with(w, t->taken.id))
        seq_push(&w->seq, t->taken.id);
    w->n_promised = 0;
}

/* ---- the text, where stop strings are looked for ------------------------------------------- */

static bool found_stop(struct engine *g, struct work *w)
{
    bool counts = w->n_new >= w->params.min_new;
    return stop_push(w->stop, g->own.text.data, g->own.text.len, counts);
}

/* What a token adds to the text. One that the tokenizer does not know adds nothing. */
static bool push_text(struct engine *g, struct work *w, int32_t id)
{
    buf_clear(&g->own.text);
    detok_push(w->detok, id, &g->own.text, NULL);
    return found_stop(g, w);
}

/* What was held back comes when the text ends, and may make a stop string whole. */
static bool finish_text(struct engine *g, struct work *w)
{
    if (!w->stop || stop_index(w->stop) >= 0)
        return false;
    buf_clear(&g->own.text);
    detok_finish(w->detok, &g->own.text, NULL);
    return found_stop(g, w);
}

static void stop_at_string(struct engine *g, struct work *w, int64_t now)
{
    struct answer_end *end = answer_end_room(w->answer);
    end->stop_index = stop_index(w->stop);
    end->text_bytes = w->params.stop_is_shown ? stop_end(w->stop) : stop_safe(w->stop);
    seq_finish(&w->seq);
    work_end(g, w, GEN_STOPPED, now);
}

/* ---- one token ----------------------------------------------------------------------------- */

static void finish(struct engine *g, struct work *w, enum gen_end why, int64_t now)
{
    if (finish_text(g, w)) {
        stop_at_string(g, w, now);
        return;
    }
    seq_finish(&w->seq);
    work_end(g, w, why, now);
}

static void put_token(struct engine *g, struct work *w, const struct sample_taken *t, int64_t now)
{
    struct answer_token at = {
        .at_us = now, .id = t->id, .logprob = t->logprob, .text_safe = UINT64_MAX};
    bool stops = false;
    if (w->n_new++ == 0)
        answer_end_room(w->answer)->first_us = now;
    g->own.tok_new++;
    w->mu = t->mu;
    draft_heard(&w->draft, t->id);
    if (w->seen)
        seen_answer(w->seen, t->id);
    if (w->stop) {
        stops = push_text(g, w, t->id);
        at.text_safe = stop_safe(w->stop);
    }
    answer_put(w->answer, &at, t->top, t->n_top);
    work_mark(g, w, false);
    constrained_heard(w, t->id);
    if (stops)
        stop_at_string(g, w, now);
    else if (constrained_is_whole(w))
        finish(g, w, GEN_STOPPED, now);
    else if (w->n_new == w->max_new)
        finish(g, w, GEN_LENGTH, now);
}

static void take(struct engine *g, struct work *w, const struct sample_taken *t, int64_t now)
{
    if (!work_ends_with(w, t->id)) {
        put_token(g, w, t, now);
        return;
    }
    answer_end_room(w->answer)->stop_id = t->id;
    answer_end_room(w->answer)->stop_logprob = t->logprob;
    finish(g, w, GEN_STOPPED, now);
}

/* A prompt that nothing may follow is over when all of it stands. */
static void end_bare(struct engine *g, const struct sched_step *step, int64_t now)
{
    for (int64_t i = 0; i < step->n_part; i++) {
        const struct sched_part *p = &step->part[i];
        struct work *w = p->seq->owner;
        if (w->max_new == 0 && !w->is_over && p->pos + p->n_tok == p->seq->n_tok)
            finish(g, w, GEN_LENGTH, now);
    }
}

void rows_answer(struct engine *g, struct flight *f, int64_t now)
{
    for (int64_t i = 0; i < f->n_task; i++) {
        const struct sample_task *t = &f->task[i];
        struct work *w = f->use[i].work;
        if (f->use[i].n_ahead != w->seq.n_agreed && t->known < 0)
            continue; /* it counts on a draft that was wrong */
        if (t->known < 0 && !w->beams)
            keep_promise(w, t);
        if (w->is_over)
            continue;
        if (w->beams) {
            beams_heard(g, w, t, now);
        } else if (t->rc) {
            seq_finish(&w->seq);
            work_fail(g, w, w->mask_err.code ? &w->mask_err : &t->err, now);
        } else if (t->known >= 0) {
            answer_put_prompt(w->answer, f->use[i].place, &t->taken);
        } else {
            take(g, w, &t->taken, now);
        }
    }
    end_bare(g, &f->step, now);
}

/* ---- vectors ------------------------------------------------------------------------------- */

void rows_answer_vectors(struct engine *g, struct flight *f, int64_t now)
{
    for (int64_t i = 0; i < f->step.n_part; i++) {
        struct work *w = f->step.part[i].seq->owner;
        memcpy(answer_vector_room(w->answer), f->out.p + i * f->out.ld,
               (size_t)f->out.shape.cols * sizeof *f->out.p);
        answer_end_room(w->answer)->first_us = now;
        seq_finish(&w->seq);
        work_end(g, w, GEN_STOPPED, now);
    }
}
