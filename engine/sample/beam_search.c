/* SPDX-License-Identifier: Apache-2.0
 *
 * All texts lie in one block, those that are followed and those that were found, each with room for
 * the longest.
 */
#include "engine/sample/beam_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

struct beam {
    double score;
    struct sample_top top[SAMPLE_TOP_MAX];
    int32_t n_top, from;
    bool is_heard;
};

/* A way to go on. */
struct way {
    double score;
    float logprob;
    int32_t beam, id;
};

struct beam_search {
    struct beam_params p;
    int64_t n_new, n_heard, n_found;
    struct beam beam[SAMPLE_BEAMS_MAX];
    struct beam_found found[SAMPLE_BEAMS_MAX]; /* best first */
    struct way way[SAMPLE_BEAMS_MAX * SAMPLE_TOP_MAX];
    int64_t n_way;
    int32_t *end_id;                /* in the block */
    int32_t *id, *found_id;         /* in the block: [width, max_new] */
    float *logprob, *found_logprob; /* likewise */
};

static size_t texts_bytes(const struct beam_params *p)
{
    return (size_t)(p->how.width * p->max_new) * sizeof(int32_t);
}

size_t beam_search_bytes(const struct beam_params *p)
{
    return sizeof(struct beam_search) + 4 * texts_bytes(p) + (size_t)p->n_end_id * sizeof(int32_t);
}

struct beam_search *beam_search_new(const struct beam_params *p, struct err *e)
{
    ASSERT(p->how.width >= 1 && p->how.width <= SAMPLE_BEAMS_MAX && p->max_new >= 1);
    struct beam_search *s = try_lazy(beam_search_bytes(p), 1, "a beam search", e);
    if (!s)
        return NULL;
    size_t n = (size_t)(p->how.width * p->max_new);
    s->p = *p;
    s->id = (int32_t *)(s + 1);
    s->found_id = s->id + n;
    s->logprob = (float *)(s->found_id + n);
    s->found_logprob = s->logprob + n;
    s->end_id = (int32_t *)(s->found_logprob + n);
    if (p->n_end_id)
        memcpy(s->end_id, p->end_id, (size_t)p->n_end_id * sizeof *s->end_id);
    s->p.end_id = s->end_id;
    return s;
}

void beam_search_free(struct beam_search *s)
{
    mem_free(s);
}

/* As many as are followed, behind all that may end a text. */
int32_t beam_search_tops(const struct beam_params *p)
{
    return (int32_t)p->how.width + p->n_end_id;
}

bool beam_search_hear(struct beam_search *s, int64_t beam, const struct sample_top *top, int32_t n)
{
    struct beam *b = &s->beam[beam];
    if (!b->is_heard) {
        b->n_top = n;
        memcpy(b->top, top, (size_t)n * sizeof *top);
        b->is_heard = true;
        s->n_heard++;
    }
    return s->n_heard == s->p.how.width;
}

/* ---- the ways to go on --------------------------------------------------------------------- */

static int by_score(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    if (x->beam != y->beam)
        return x->beam - y->beam;
    return x->logprob != y->logprob ? (x->logprob < y->logprob ? 1 : -1) : x->id - y->id;
}

/* Before the first choice the texts are one. */
static void collect(struct beam_search *s)
{
    int64_t n_text = s->n_new ? s->p.how.width : 1;
    s->n_way = 0;
    for (int64_t i = 0; i < n_text; i++)
        for (int32_t k = 0; k < s->beam[i].n_top; k++)
            s->way[s->n_way++] = (struct way){.score = s->beam[i].score + s->beam[i].top[k].logprob,
                                              .logprob = s->beam[i].top[k].logprob,
                                              .beam = (int32_t)i,
                                              .id = s->beam[i].top[k].id};
    qsort(s->way, (size_t)s->n_way, sizeof *s->way, by_score);
}

static bool ends(const struct beam_search *s, int32_t id)
{
    for (int32_t i = 0; i < s->p.n_end_id; i++)
        if (s->p.end_id[i] == id)
            return true;
    return false;
}

/* ---- what is found ------------------------------------------------------------------------- */

static double weighed(const struct beam_search *s, double score, int64_t n)
{
    return score / pow((double)n, s->p.how.length_penalty);
}

/* A place for one with this score; NULL: there are better ones. The texts' rooms change hands. */
static struct beam_found *find_place(struct beam_search *s, double score)
{
    int64_t i = s->n_found, room = s->n_found;
    if (i == s->p.how.width && s->found[i - 1].score >= score)
        return NULL;
    if (i == s->p.how.width)
        room = (s->found[--i].id - s->found_id) / s->p.max_new;
    else
        s->n_found++;
    for (; i && s->found[i - 1].score < score; i--)
        s->found[i] = s->found[i - 1];
    s->found[i] = (struct beam_found){.score = score,
                                      .id = s->found_id + room * s->p.max_new,
                                      .logprob = s->found_logprob + room * s->p.max_new};
    return &s->found[i];
}

static void find(struct beam_search *s, const struct way *w)
{
    struct beam_found *f = find_place(s, weighed(s, w->score, s->n_new + 1));
    if (!f)
        return;
    int64_t at = w->beam * s->p.max_new, room = f->id - s->found_id;
    memcpy(s->found_id + room, s->id + at, (size_t)s->n_new * sizeof *s->id);
    memcpy(s->found_logprob + room, s->logprob + at, (size_t)s->n_new * sizeof *s->logprob);
    f->n = s->n_new;
    f->is_ended = ends(s, w->id);
    f->end_id = w->id;
    f->end_logprob = w->logprob;
    if (f->is_ended)
        return;
    s->found_id[room + f->n] = w->id;
    s->found_logprob[room + f->n++] = w->logprob;
}

/* Whether a text that is followed may still become better than the worst that was found. */
static bool may_better(const struct beam_search *s, double best)
{
    bool counts_all = s->p.how.ends == BEAMS_NEVER_EARLY && s->p.how.length_penalty > 0;
    if (s->n_found < s->p.how.width)
        return true;
    if (s->p.how.ends == BEAMS_EARLY)
        return false;
    return weighed(s, best, counts_all ? s->p.max_new : s->n_new) >
           s->found[s->p.how.width - 1].score;
}

/* ---- what is followed ---------------------------------------------------------------------- */

/* What a text is of: the first ones are all of the prompt, and so have not moved. */
static void follow(struct beam_search *s, int64_t to, const struct way *w)
{
    int64_t from = w->beam * s->p.max_new, at = to * s->p.max_new;
    size_t n = (size_t)(s->n_new - 1) * sizeof *s->id;
    if (to != w->beam) {
        memcpy(s->id + at, s->id + from, n);
        memcpy(s->logprob + at, s->logprob + from, n);
    }
    s->id[at + s->n_new - 1] = w->id;
    s->logprob[at + s->n_new - 1] = w->logprob;
    s->beam[to].from = s->n_new > 1 ? w->beam : (int32_t)to;
}

/* The first of a beam's ways stays in its place; the others take those of beams that end here. */
static void place(struct beam_search *s, const struct way *const *w, int64_t n)
{
    const struct way *at[SAMPLE_BEAMS_MAX] = {0};
    int64_t free = 0;
    for (int64_t i = 0; i < n; i++)
        if (!at[w[i]->beam])
            at[w[i]->beam] = w[i];
    for (int64_t i = 0; i < n; i++) {
        if (at[w[i]->beam] == w[i])
            continue;
        while (at[free])
            free++;
        at[free] = w[i];
    }
    for (int64_t to = 0; to < n; to++) /* from texts that are as they were up to their last token */
        follow(s, to, at[to]);
    for (int64_t to = 0; to < n; to++)
        s->beam[to].score = at[to]->score;
}

bool beam_search_choose(struct beam_search *s)
{
    const struct way *next[SAMPLE_BEAMS_MAX];
    int64_t n_next = 0, width = s->p.how.width;
    bool is_last = s->n_new + 1 == s->p.max_new;
    collect(s);
    for (int64_t i = 0; i < s->n_way && i < width; i++)
        if (is_last || ends(s, s->way[i].id))
            find(s, &s->way[i]);
    for (int64_t i = 0; i < s->n_way && n_next < width; i++)
        if (!ends(s, s->way[i].id))
            next[n_next++] = &s->way[i];
    s->n_new++;
    if (is_last || n_next < width || !may_better(s, next[0]->score))
        return false;
    place(s, next, n_next);
    for (int64_t i = 0; i < width; i++)
        s->beam[i].is_heard = false;
    s->n_heard = 0;
    return true;
}

bool beam_search_moved(const struct beam_search *s, int64_t beam)
{
    return s->beam[beam].from != beam;
}

const int32_t *beam_search_text(const struct beam_search *s, int64_t beam, int64_t *n)
{
    *n = s->n_new;
    return s->id + beam * s->p.max_new;
}

struct beam_found beam_search_found(const struct beam_search *s, int64_t i)
{
    ASSERT(i < s->n_found);
    return s->found[i];
}
