/* SPDX-License-Identifier: Apache-2.0
 *
 * How works begin and end. An end is published, the work freed and its group told when the step is
 * over, the scheduler has let go of it, and the engine's figures count it.
 */
#include <stdlib.h>

#include "engine/serve/beams.h"
#include "engine/serve/engine_own.h"

void work_list_add(struct work_list *l, struct work *w)
{
    w->next = NULL;
    w->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = w;
    l->last = w;
    l->n++;
}

void work_list_drop(struct work_list *l, struct work *w)
{
    *(w->prev ? &w->prev->next : &l->first) = w->next;
    *(w->next ? &w->next->prev : &l->last) = w->prev;
    l->n--;
}

void work_let_go(struct engine *g, struct work *w)
{
    if (w->seq.node)
        sched_remove(g->own.sched, &w->seq);
}

void work_begin(struct engine *g, struct work *w, int64_t now)
{
    struct answer_end *end = answer_end_room(w->answer);
    w->has_begun = true;
    end->queued_us = now;
    end->n_cached = w->seq.n_cached;
    g->own.tok_prompt += (uint64_t)w->seq.n_prompt;
    atomic_fetch_sub_explicit(&g->told.n_waiting, 1, memory_order_relaxed);
}

void work_mark(struct engine *g, struct work *w, bool ended)
{
    struct group *group = w->group;
    if (group->is_dirty || !(ended || group->notify.every_token))
        return;
    group->is_dirty = true;
    group->next = g->own.dirty;
    g->own.dirty = group;
}

void work_end(struct engine *g, struct work *w, enum gen_end why, int64_t now)
{
    ASSERT(!w->is_over);
    w->is_over = true;
    w->end = why;
    if (!w->has_begun)
        atomic_fetch_sub_explicit(&g->told.n_waiting, 1, memory_order_relaxed);
    answer_end_room(w->answer)->end_us = now;
    beams_left(g, w, why);
    work_list_drop(&g->own.live, w);
    work_list_add(&g->own.over, w);
    work_mark(g, w, true);
}

void work_fail(struct engine *g, struct work *w, const struct err *why, int64_t now)
{
    answer_end_room(w->answer)->err = *why;
    work_end(g, w, GEN_FAILED, now);
}

/* A work that ended while one of its steps is under way is freed when that step is done. */
static void free_parted(struct engine *g)
{
    struct work *next;
    for (struct work *w = g->own.parted.first; w; w = next) {
        next = w->next;
        if (w->n_flight > 0)
            continue;
        work_list_drop(&g->own.parted, w);
        work_unhold(g, w);
        work_free(w);
    }
}

static void close_over(struct engine *g)
{
    for (struct work *w; (w = g->own.over.first) != NULL;) {
        work_list_drop(&g->own.over, w);
        work_list_add(&g->own.parted, w);
        work_let_go(g, w);
        w->group->n_live--;
        w->group = NULL;
        answer_close(w->answer, w->end);
    }
    free_parted(g);
}

void engine_tell(struct engine *g)
{
    beams_settle(g);
    close_over(g);
    for (struct group *group; (group = g->own.dirty) != NULL;) {
        g->own.dirty = group->next;
        group->is_dirty = false;
        if (group->notify.fn)
            group->notify.fn(group->notify.ctx);
        if (group->n_live > 0)
            continue;
        if (group->notify.done)
            group->notify.done(group->notify.ctx);
        free(group);
    }
}
