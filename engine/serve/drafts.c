/* SPDX-License-Identifier: Apache-2.0
 *
 * Guesses of what texts will say, checked in the same step as their next token. The scheduler asks
 * for them where all sequences of a step decode. Each text offers what it would say if it repeated
 * itself, with the chance that this is right; of all that are offered the likeliest run, as many as
 * pay.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/serve/engine_own.h"

int drafts_init(struct engine *g, enum engine_speculate how, struct err *e)
{
    engine_speculate(g, how);
    if (how == ENGINE_SPECULATE_OFF)
        return 0;
    size_t n = (size_t)(g->fixed.room.cap_seq * DRAFT_MAX);
    g->own.chance = try_alloc(n, sizeof *g->own.chance, "the chances of guesses", e);
    return g->own.chance ? 0 : -1;
}

void drafts_release(struct engine *g)
{
    mem_free(g->own.chance);
}

void engine_speculate(struct engine *g, enum engine_speculate how)
{
    atomic_store_explicit(&g->mail.speculate, how, memory_order_relaxed);
}

/* Descending. */
static int by_chance(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Guesses that a text may have: its answer has room for them, and it goes on from before them as if
 * they had not been. A text whose rows are drawn one by one has none. */
static int64_t most_guesses(const struct engine *g, const struct work *w)
{
    int64_t room = w->max_new - w->n_new - 1, cut = model_cut_most(g->fixed.res.model);
    if (sample_is_serial(&w->params.sample))
        return 0;
    return room < cut ? room : cut;
}

/* The chances that a text's guesses are reached and right go behind the n that there are. */
static int64_t look(struct engine *g, struct seq *q, int64_t n)
{
    struct work *w = q->owner;
    if (w->beams) /* its tokens are chosen among texts */
        return n;
    int64_t n_found = draft_look(&w->draft, q->token, q->n_tok, most_guesses(g, w));
    n_found = constrained_guesses(w, n_found);
    float one = draft_chance(&w->draft), all = 1;
    for (int64_t i = 0; i < n_found; i++)
        g->own.chance[n++] = all *= one;
    return n;
}

/* The guesses whose chance is at least `least`, `most` of them. */
static int64_t run(struct seq *q, float least, int64_t most)
{
    const struct work *w = q->owner;
    const struct draft *d = &w->draft;
    float one = draft_chance(d), all = one;
    int64_t n = 0;
    for (; n < d->n_guess && n < most && all >= least; n++)
        all *= one;
    memcpy(q->token + q->n_tok, d->guess, (size_t)n * sizeof *d->guess);
    seq_draft(q, n);
    return n;
}

void drafts_offer(void *ctx, const struct sched_part *part, int64_t n)
{
    struct engine *g = ctx;
    enum engine_speculate how = atomic_load_explicit(&g->mail.speculate, memory_order_relaxed);
    int64_t n_row = 0, n_texts = 0;
    for (int64_t i = 0; i < n && how != ENGINE_SPECULATE_OFF; i++) {
        int64_t had = n_row;
        n_row = look(g, part[i].seq, n_row);
        n_texts += n_row > had;
    }
    if (n_row == 0)
        return;
    if (n_texts > 1)
        qsort(g->own.chance, (size_t)n_row, sizeof *g->own.chance, by_chance);
    int64_t room = g->fixed.room.cap_out - n, best = n_row;
    best = best < room ? best : room > 0 ? room : 0;
    if (how != ENGINE_SPECULATE_ALWAYS)
        best = gain_rows(&g->own.gain, n, g->own.chance, best);
    float least = best > 0 ? g->own.chance[best - 1] : 2;
    for (int64_t i = 0; i < n && best > 0; i++)
        best -= run(part[i].seq, least, best);
}

/* What a step without prompts took, and how many of its guesses were right. */
void drafts_ran(struct engine *g, const struct flight *f)
{
    const struct sched_step *s = &f->step;
    if (s->n_tok == s->n_decode + s->n_draft)
        gain_saw(&g->own.gain, s->n_decode, s->n_draft, f->took_us);
    if (!s->n_draft)
        return;
    for (int64_t i = 0; i < s->n_part; i++) {
        const struct work *w = f->part[i].seq->owner;
        struct answer_end *end = answer_end_room(w->answer);
        int64_t n_right = f->part[i].seq->n_agreed;
        end->n_drafted += f->part[i].n_draft;
        end->n_accepted += n_right;
        g->own.tok_drafted += (uint64_t)f->part[i].n_draft;
        g->own.tok_accepted += (uint64_t)n_right;
    }
}
