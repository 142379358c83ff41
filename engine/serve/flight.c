/* SPDX-License-Identifier: Apache-2.0
 *
 * A step from its launch to its answers.
 *
 * Where the host reads the device's memory a step is given, waited for and told, one after the
 * other. Else, where all its tokens are drawn on the device, the next step is made and given while
 * this one is under way (it leads): the tokens are promised to their sequences, and the next step's
 * inputs take them from the device. What the host then learns a step late is who has ended: such a
 * text has a row in the step that is up already, of which nothing is told, and its work is kept
 * until that has landed. A text with penalties or a mask needs its tokens on the host before the
 * next is drawn, and drafts before it is known which of them stand: a step that holds any does not
 * lead.
 *
 * The gate is held from a step's launch until the rows of the one before are there and sampled, so
 * training gets its turn between any two launches, as it does without.
 *
 * A step that fails takes with it the one that was given behind it, and all that the scheduler
 * took for standing on its word.
 *
 * A step of idle work is given up when somebody comes, who so waits for the piece of a launch at
 * hand: its sequences stay as they were, and run again once there is time. Not where its end is
 * near anyhow (a GPU), where other ranks run it too, or where a recurrent state may be overwritten
 * in part.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/gate.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/serve/engine_own.h"

/* ---- memory -------------------------------------------------------------------------------- */

static bool goes_ahead(const struct engine *g)
{
    return !g->fixed.res.model->cfg.is_encoder && runner_goes_ahead(g->own.runner);
}

static int init(struct flight *f, struct engine *g, struct err *e)
{
    f->part = xcalloc((size_t)g->fixed.room.cap_seq, sizeof *f->part);
    f->use = xcalloc((size_t)g->fixed.room.cap_out, sizeof *f->use);
    f->task = try_alloc((size_t)g->fixed.room.cap_out, sizeof *f->task, "the rows of a step", e);
    f->done = f->task ? event_new(g->fixed.res.device, e) : NULL;
    return f->done ? 0 : -1;
}

int flights_init(struct engine *g, struct err *e)
{
    int n = goes_ahead(g) ? FETCH_SLOTS : 1;
    for (int i = 0; i < n; i++) {
        g->own.flight[i].slot = i;
        if (init(&g->own.flight[i], g, e))
            return -1;
    }
    return 0;
}

void flights_release(struct engine *g)
{
    for (int i = 0; i < FETCH_SLOTS; i++) {
        struct flight *f = &g->own.flight[i];
        if (f->done)
            event_free(f->done);
        mem_free(f->task);
        free(f->use);
        free(f->part);
    }
}

/* ---- up ------------------------------------------------------------------------------------ */

static void count_step(struct engine *g, int64_t n_seq)
{
    int size = 0;
    while (size + 1 < ENGINE_SIZES && n_seq > INT64_C(1) << size)
        size++;
    g->own.n_step++;
    g->own.n_seq_last = n_seq;
    g->own.n_seq_all += n_seq;
    g->own.n_of_size[size]++;
}

static void begin(struct engine *g, struct flight *f, const struct sched_step *step, int64_t now)
{
    f->step = *step;
    f->step.part = f->part;
    memcpy(f->part, step->part, (size_t)step->n_part * sizeof *f->part);
    for (int64_t i = 0; i < step->n_part; i++) {
        struct work *w = step->part[i].seq->owner;
        w->n_flight++;
        if (!w->has_begun)
            work_begin(g, w, now);
    }
    count_step(g, step->n_part);
}

static bool needs_tokens(const struct flight *f)
{
    bool needs = f->step.n_draft > 0; /* how many of them stand decides what comes next */
    for (int64_t i = 0; i < f->n_task && !needs; i++)
        needs = f->use[i].work->beams || sample_follows_text(&f->task[i].row);
    return needs;
}

/* ---- idle work ----------------------------------------------------------------------------- */

enum { PIECE_NS = 1000000 };

static bool is_wanted(struct engine *g)
{
    return atomic_load_explicit(&g->mail.is_wanted, memory_order_relaxed);
}

static bool may_give_up(const struct engine *g, const struct flight *f)
{
    const struct resident *res = &g->fixed.res;
    return f->step.is_idle && !f->step.is_due && device_reads_host(res->device) && !res->crew &&
           !model_state_bytes(res->model);
}

static int64_t go_on(void *engine)
{
    struct engine *g = engine;
    g->own.gives_up |= is_wanted(g);
    return g->own.gives_up ? -1 : PIECE_NS;
}

static int run(struct engine *g, const struct flight *f, struct op_view *out, struct err *e)
{
    g->own.gives_up = false;
    if (!may_give_up(g, f))
        return step_run(g, &f->step, out, e);
    stream_between(g->fixed.res.stream, go_on, g);
    int rc = step_run(g, &f->step, out, e);
    stream_between(g->fixed.res.stream, NULL, NULL);
    return rc;
}

/* Its launches, and what brings its answers back. */
static int give(struct engine *g, struct flight *f, struct err *e)
{
    f->from_us = clock_us();
    f->n_task = 0;
    f->leads = false;
    if (goes_ahead(g))
        runner_go_ahead(g->own.runner, g->own.up ? fetch_ids(&g->own.fetch) : NULL);
    if (run(g, f, &f->out, e))
        return -1;
    if (g->own.gives_up)
        return 0;
    int64_t n_row = runner_batch(g->own.runner)->n[DIM_OUT];
    if (!g->own.samplers)
        return fetch_rows(&g->own.fetch, &f->out, n_row, g->fixed.res.stream, e);
    rows_plan(f);
    bool is_drawn = fetch_tasks(&g->own.fetch, f->slot, &f->out, n_row, f->task, f->n_task,
                                g->fixed.res.stream);
    f->leads = goes_ahead(g) && is_drawn && !needs_tokens(f);
    event_record(f->done, g->fixed.res.stream);
    constrained_rows(g, f);
    return 0;
}

/* ---- down ---------------------------------------------------------------------------------- */

static int wait_for(struct engine *g, struct flight *f, struct err *e)
{
    if (!g->own.samplers) /* its vectors were waited for */
        return 0;
    if (f->leads ? event_sync(f->done, e) : stream_sync(g->fixed.res.stream, e))
        return -1;
    samplers_run(g->own.samplers, f->task, f->n_task);
    return 0;
}

/* Its answers are there. What came before it on the device is not its time. */
static int await(struct engine *g, struct flight *f, struct err *e)
{
    int rc = wait_for(g, f, e);
    int64_t now = clock_us();
    f->took_us = now - (f->from_us > g->own.landed_us ? f->from_us : g->own.landed_us);
    g->own.landed_us = now;
    return rc;
}

static void let_down(struct flight *f)
{
    for (int64_t i = 0; i < f->step.n_part; i++) {
        struct work *w = f->part[i].seq->owner;
        w->n_flight--;
    }
    f->step.n_part = 0;
}

static void tell(struct engine *g, struct flight *f)
{
    int64_t now = clock_us();
    if (g->own.samplers)
        rows_answer(g, f, now);
    else
        rows_answer_vectors(g, f, now);
    drafts_ran(g, f);
    let_down(f);
    g->own.step_us += f->took_us;
}

static void fail_works(struct engine *g, struct flight *f, const struct err *e, int64_t now)
{
    for (int64_t i = 0; i < f->step.n_part; i++) {
        struct work *w = f->part[i].seq->owner;
        work_let_go(g, w);
        if (!w->is_over)
            work_fail(g, w, e, now);
    }
    let_down(f);
}

/* A device failed: who was in the step ends, and the cells that it did not write are not kept. Of
 * one that was up the scheduler took them for standing. */
static void fail(struct engine *g, struct flight *f, bool was_up, const struct err *e)
{
    struct err more = ERR_INIT, why = *e;
    stream_sync(g->fixed.res.stream, &more); /* nothing of it is under way any more */
    ranks_explain(g, &why);
    log_event(LOG_ERROR, "a step failed", LOG_INT("sequences", f->step.n_part),
              LOG_TEXT("why", why.msg));
    sched_failed(g->own.sched);
    if (was_up)
        sched_forget_all(g->own.sched);
    fail_works(g, f, &why, clock_us());
}

/* Its sequences stand where they stood. */
static void give_up(struct engine *g, struct flight *f)
{
    g->own.n_given_up++;
    sched_failed(g->own.sched);
    let_down(f);
}

/* ---- a round ------------------------------------------------------------------------------- */

/* What was up; false: it failed, and what was built on it is no good. */
static bool land(struct engine *g, struct flight *up, int rc, const struct err *e)
{
    if (rc) {
        fail(g, up, true, e);
        return false;
    }
    sched_timed(g->own.sched, &up->step, up->took_us);
    tell(g, up);
    return true;
}

void flight_round(struct engine *g, const struct sched_step *step)
{
    struct flight *up = g->own.up, *f = &g->own.flight[up ? 1 - up->slot : 0];
    struct err e = ERR_INIT, up_e = ERR_INIT;
    begin(g, f, step, clock_us());
    gate_enter(g->fixed.gate, GATE_SERVE);
    int rc = give(g, f, &e);
    int up_rc = up ? await(g, up, &up_e) : 0;
    if (!rc && !up_rc && !f->leads && !g->own.gives_up)
        rc = await(g, f, &e);
    gate_leave(g->fixed.gate, GATE_SERVE);
    g->own.up = NULL;
    if (up && !land(g, up, up_rc, &up_e)) {
        fail(g, f, false, &up_e);
    } else if (rc) {
        fail(g, f, false, &e);
    } else if (g->own.gives_up) {
        give_up(g, f);
    } else if (f->leads) {
        rows_promise(f);
        sched_ran(g->own.sched, 0);
        g->own.up = f;
    } else {
        tell(g, f);
        sched_ran(g->own.sched, f->took_us);
    }
    if (f->step.is_idle && !f->step.is_due && is_wanted(g))
        sched_hurry(g->own.sched, &f->step);
}

void flight_land(struct engine *g)
{
    struct flight *up = g->own.up;
    struct err e = ERR_INIT;
    gate_enter(g->fixed.gate, GATE_SERVE);
    int rc = await(g, up, &e);
    gate_leave(g->fixed.gate, GATE_SERVE);
    g->own.up = NULL;
    land(g, up, rc, &e);
}
