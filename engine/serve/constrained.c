/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that must be something, or whose thoughts have a limit, in a step: which tokens each wanted
 * row may take. A row behind guesses has the mask of the text with these; a guess that its mask
 * refuses is not run at all. So no masked row runs ahead of its mask, and a text is what it would
 * be one token a step.
 *
 * The masks of a step are a job of the pool, beside the device where that is another one.
 */
#include <string.h>

#include "engine/serve/engine_own.h"

static bool is_masked(const struct work *w)
{
    return w->matcher || thoughts_count(&w->thoughts);
}

const uint32_t *constrained_row(const struct work *w, int64_t n_ahead)
{
    return is_masked(w) ? w->mask + (size_t)n_ahead * w->mask_words : NULL;
}

static void set(uint32_t *mask, int32_t id, bool may)
{
    uint32_t bit = UINT32_C(1) << id % 32;
    mask[id / 32] = may ? mask[id / 32] | bit : mask[id / 32] & ~bit;
}

/* The model's ends come where the text may end; a token that the client ends a text with, there and
 * where the text may go on with it. */
static void set_ends(const struct work *w, uint32_t *mask)
{
    bool may_end = matcher_may_end(w->matcher);
    int32_t n_own = w->n_end_id - w->params.n_stop_id;
    for (int32_t i = 0; i < w->n_end_id; i++)
        if (may_end || i < n_own)
            set(mask, w->end_id[i], may_end);
}

/* The mark that ends the thoughts, where the constraint does not shut it out. */
static void end_thoughts(const struct thoughts *t, uint32_t *mask, size_t n_word)
{
    if (!thoughts_must_end(t) || !(mask[t->close / 32] >> t->close % 32 & 1))
        return;
    memset(mask, 0, n_word * sizeof *mask);
    set(mask, t->close, true);
}

/* A mask that cannot be made is empty, which ends the text. */
static void fill_constraint(struct work *w, uint32_t *mask)
{
    struct err e = ERR_INIT;
    int32_t only;
    if (!w->matcher) {
        memset(mask, 0xff, w->mask_words * sizeof *mask);
        return;
    }
    if (!w->mask_err.code && !matcher_mask(w->matcher, mask, &only, &e)) {
        set_ends(w, mask);
        return;
    }
    memset(mask, 0, w->mask_words * sizeof *mask);
    if (!w->mask_err.code)
        err_set(&w->mask_err, ERR_UNSUPPORTED, "the constraint: %s", e.msg);
}

static void fill(struct work *w, const struct thoughts *t, uint32_t *mask)
{
    fill_constraint(w, mask);
    end_thoughts(t, mask, w->mask_words);
}

/* The part's rows of tokens that nobody knows yet: behind its text, and behind each guess. */
static void fill_part(const struct sched_part *p)
{
    struct work *w = p->seq->owner;
    struct err e = ERR_INIT;
    if (!is_masked(w) || !p->n_out || p->pos + p->n_tok - p->n_draft != p->seq->n_tok)
        return;
    struct thoughts t = w->thoughts;
    size_t place = w->matcher ? matcher_place(w->matcher) : 0;
    fill(w, &t, w->mask);
    for (int64_t i = 0; i < p->n_draft; i++) {
        uint32_t *mask = w->mask + (size_t)(i + 1) * w->mask_words;
        int32_t id = p->seq->token[p->seq->n_tok + i];
        thoughts_heard(&t, id);
        if (w->matcher && matcher_accept(w->matcher, id, &e))
            memset(mask, 0, w->mask_words * sizeof *mask); /* never read: the guess is wrong */
        else
            fill(w, &t, mask);
    }
    if (w->matcher)
        matcher_back(w->matcher, place, &e);
}

static void fill_parts(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct flight *f = ctx;
    (void)thread;
    for (int64_t i = lo; i < hi; i++)
        fill_part(&f->step.part[i]);
}

void constrained_rows(struct engine *g, struct flight *f)
{
    bool is_any = false;
    for (int64_t i = 0; i < f->step.n_part && !is_any; i++) {
        const struct work *w = f->step.part[i].seq->owner;
        is_any = is_masked(w);
    }
    if (is_any)
        pool_run(g->fixed.res.pool, fill_parts, f, f->step.n_part, 1);
}

int64_t constrained_guesses(struct work *w, int64_t n)
{
    struct err e = ERR_INIT;
    int64_t n_good = 0;
    if (!w->matcher)
        return n;
    size_t place = matcher_place(w->matcher);
    while (n_good < n && !matcher_accept(w->matcher, w->draft.guess[n_good], &e))
        n_good++;
    matcher_back(w->matcher, place, &e);
    w->draft.n_guess = (int32_t)n_good;
    return n_good;
}

void constrained_heard(struct work *w, int32_t id)
{
    struct err e = ERR_INIT;
    thoughts_heard(&w->thoughts, id);
    if (w->matcher && matcher_accept(w->matcher, id, &e))
        err_set(&w->mask_err, ERR_UNSUPPORTED, "the constraint: %s", e.msg);
}

bool constrained_is_whole(const struct work *w)
{
    return w->matcher && !w->mask_err.code && matcher_must_end(w->matcher);
}
