/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of a search from their submission to their ends.
 */
#include "engine/serve/beams.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/sample/beam_search.h"
#include "engine/serve/engine_own.h"
#include "kernels/types.h"

struct beams {
    struct beam_search *search;          /* owned */
    struct work *work[SAMPLE_BEAMS_MAX]; /* borrowed: its works hold it */
    int64_t n_work;                      /* not freed */
    int64_t n_cell;                      /* reserved */
    bool is_reserved, is_over, is_listed;
    enum gen_end why; /* once it is over, where it ended otherwise than by what it found */
    struct err err;
    struct beams *next; /* of those with more to be done between two steps */
};

/* ---- making -------------------------------------------------------------------------------- */

static struct beam_params params_of(const struct work *w)
{
    return (struct beam_params){.how = w->params.beams,
                                .max_new = w->max_new > 0 ? w->max_new : 1,
                                .end_id = w->end_id,
                                .n_end_id = w->n_end_id};
}

int32_t beams_tops(const struct work *w)
{
    struct beam_params p = params_of(w);
    return beam_search_tops(&p);
}

static struct beams *beams_new(struct work *first, struct err *e)
{
    struct beam_params p = params_of(first);
    struct beam_search *search = beam_search_new(&p, e);
    if (!search)
        return NULL;
    struct beams *b = xcalloc(1, sizeof *b);
    b->search = search;
    first->bytes += sizeof *b + beam_search_bytes(&p);
    return b;
}

/* Every work of it, as it comes. */
static void add(struct beams *b, struct work *w)
{
    w->beam = (int32_t)b->n_work;
    w->beams = b;
    w->seq.forks = w->params.beams.width > 1;
    b->work[b->n_work++] = w;
    b->n_cell += (w->seq.n_max + K_CELL - 1) / K_CELL + 1; /* and one to grow by */
}

int beams_make(const struct work_list *l, struct err *e)
{
    struct beams *b = NULL;
    for (struct work *w = l->first; w; w = w->next) {
        int64_t width = w->params.beams.width;
        if (!width)
            continue;
        if (!b && !(b = beams_new(w, e)))
            return -1;
        add(b, w);
        if (b->n_work == width)
            b = NULL;
    }
    return b ? err_set(e, ERR_BAD_INPUT, "use_beam_search: %lld of its texts are asked for",
                       (long long)b->n_work)
             : 0;
}

void beams_unref(struct beams *b)
{
    if (!b || --b->n_work > 0)
        return;
    beam_search_free(b->search);
    free(b);
}

/* ---- seats and cells ----------------------------------------------------------------------- */

/* Half, or what the first one needs. */
static bool fits(int64_t all, int64_t taken, int64_t n)
{
    return taken + n <= (taken ? all / 2 : all);
}

/* Of that half a tenant has half, or what its first one needs. */
static bool is_its(int64_t all, int64_t own, int64_t n)
{
    return !own || own + n <= all / 4;
}

static int check_alone(const struct room *r, int64_t n_seat, int64_t n_cell, struct err *e)
{
    if (n_seat > r->cap_seq)
        return err_set(e, ERR_BAD_INPUT, "use_beam_search: %lld texts at once: %lld may run",
                       (long long)n_seat, (long long)r->cap_seq);
    if (n_cell + 1 > r->n_cell)
        return err_set(e, ERR_TOO_LARGE,
                       "use_beam_search: there is no memory for the keys and values of %lld texts "
                       "of this length",
                       (long long)n_seat);
    return 0;
}

static void give_back(struct engine *g, struct beams *b)
{
    if (!b->is_reserved)
        return;
    b->is_reserved = false;
    const struct work *w = b->work[0];
    struct engine_hold *own = work_hold(g, w);
    if (own) {
        atomic_fetch_sub(&own->beam_seats, w->params.beams.width);
        atomic_fetch_sub(&own->beam_cells, b->n_cell);
    }
    atomic_fetch_sub(&g->told.beam_seats[w->seq.is_idle], w->params.beams.width);
    atomic_fetch_sub(&g->told.beam_cells[w->seq.is_idle], b->n_cell);
}

int beams_reserve(struct engine *g, const struct work_list *l, struct err *e)
{
    const struct room *r = &g->fixed.room;
    bool is_idle = l->first->seq.is_idle; /* those take no seat or cell from others */
    _Atomic int64_t *seats = &g->told.beam_seats[is_idle], *cells = &g->told.beam_cells[is_idle];
    struct engine_hold *own = work_hold(g, l->first);
    int64_t n_seat = 0, n_cell = 0;
    for (struct work *w = l->first; w; w = w->next) {
        n_seat += w->beams != NULL;
        n_cell += w->beams && !w->beam ? w->beams->n_cell : 0;
    }
    if (!n_seat)
        return 0;
    if (check_alone(r, n_seat, n_cell, e))
        return -1;
    if (own && !(is_its(r->cap_seq, atomic_load(&own->beam_seats), n_seat) &&
                 is_its(r->n_cell - 1, atomic_load(&own->beam_cells), n_cell)))
        return err_set(e, ERR_BUSY,
                       "your beam searches have half of the room that all may have: try again when "
                       "one has ended");
    if (!fits(r->cap_seq, atomic_load(seats), n_seat) ||
        !fits(r->n_cell - 1, atomic_load(cells), n_cell))
        return err_set(e, ERR_BUSY,
                       "beam searches that run have the room that they may have: try again later");
    atomic_fetch_add(seats, n_seat);
    atomic_fetch_add(cells, n_cell);
    if (own) {
        atomic_fetch_add(&own->beam_seats, n_seat);
        atomic_fetch_add(&own->beam_cells, n_cell);
    }
    for (struct work *w = l->first; w; w = w->next)
        if (w->beams)
            w->beams->is_reserved = true;
    return 0;
}

/* ---- ends ---------------------------------------------------------------------------------- */

static void over(struct engine *g, struct beams *b, enum gen_end why)
{
    b->is_over = true;
    b->why = why;
    give_back(g, b);
}

/* What a step cannot have done to it while it runs is done behind it. */
static void put_off(struct engine *g, struct beams *b)
{
    if (b->is_listed)
        return;
    b->is_listed = true;
    b->next = g->own.beams;
    g->own.beams = b;
}

void beams_left(struct engine *g, struct work *w, enum gen_end why)
{
    struct beams *b = w->beams;
    if (!b || b->is_over)
        return;
    b->err = answer_end_room(w->answer)->err;
    over(g, b, why);
    put_off(g, b);
}

static void end_like_others(struct engine *g, const struct beams *b)
{
    int64_t now = clock_us();
    for (int64_t i = 0; i < b->work[0]->params.beams.width; i++) {
        struct work *w = b->work[i];
        if (w->is_over)
            continue;
        answer_end_room(w->answer)->err = b->err;
        work_end(g, w, b->why, now);
    }
}

static void write_found(struct engine *g, struct work *w, const struct beam_found *f, int64_t now)
{
    struct answer_end *end = answer_end_room(w->answer);
    for (int64_t i = 0; i < f->n; i++) {
        struct answer_token t = {
            .at_us = now, .id = f->id[i], .logprob = f->logprob[i], .text_safe = UINT64_MAX};
        answer_put(w->answer, &t, NULL, 0);
    }
    g->own.tok_new += (uint64_t)f->n;
    end->first_us = now;
    if (f->is_ended) {
        end->stop_id = f->end_id;
        end->stop_logprob = f->end_logprob;
    }
    seq_finish(&w->seq);
    work_end(g, w, f->is_ended ? GEN_STOPPED : GEN_LENGTH, now);
}

static void tell_found(struct engine *g, struct beams *b, int64_t now)
{
    over(g, b, GEN_STOPPED);
    for (int64_t i = 0; i < b->work[0]->params.beams.width; i++) {
        struct beam_found f = beam_search_found(b->search, i);
        write_found(g, b->work[i], &f, now);
    }
}

/* ---- going on ------------------------------------------------------------------------------ */

static void go_on(struct engine *g, struct beams *b)
{
    bool any = false;
    for (int64_t i = 0; i < b->work[0]->params.beams.width; i++) {
        struct work *w = b->work[i];
        int64_t n;
        const int32_t *id = beam_search_text(b->search, i, &n);
        w->n_new = n;
        any |= beam_search_moved(b->search, i);
        if (!beam_search_moved(b->search, i))
            seq_push(&w->seq, id[n - 1]);
    }
    if (any)
        put_off(g, b);
}

void beams_heard(struct engine *g, struct work *w, const struct sample_task *t, int64_t now)
{
    struct beams *b = w->beams;
    seq_pause(&w->seq);
    if (!b->is_over && t->rc)
        work_fail(g, w, &t->err, now);
    if (b->is_over || !beam_search_hear(b->search, w->beam, t->taken.top, t->taken.n_top))
        return;
    if (beam_search_choose(b->search))
        go_on(g, b);
    else
        tell_found(g, b, now);
}

static void rewrite(struct engine *g, const struct beams *b)
{
    for (int64_t i = 0; i < b->work[0]->params.beams.width; i++) {
        struct seq *q = &b->work[i]->seq;
        int64_t n;
        const int32_t *id = beam_search_text(b->search, i, &n);
        if (!beam_search_moved(b->search, i))
            continue;
        memcpy(q->token + q->n_prompt, id, (size_t)n * sizeof *id);
        sched_rewrite(g->own.sched, q, q->n_prompt + n);
    }
}

void beams_settle(struct engine *g)
{
    for (struct beams *b; (b = g->own.beams) != NULL;) {
        g->own.beams = b->next;
        b->is_listed = false;
        if (b->is_over)
            end_like_others(g, b);
        else
            rewrite(g, b);
    }
}
