/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files behind engine/engine.h offer each other; what they share is in engine_parts.h.
 *
 * Thread: the engine's, but where a comment says otherwise.
 */
#ifndef ENGINE_SERVE_ENGINE_OWN_H
#define ENGINE_SERVE_ENGINE_OWN_H

#include "engine/serve/engine_parts.h"

/* ---- loop.c: the thread ---- */
void *engine_main(void *arg); /* until g->stops */
void engine_end_all(struct engine *g);

int tools_init(struct engine *g, const char *name, struct err *e); /* tools.c: --tool-format */

/* ---- ranks.c: the other ranks, where several share the model ---- */
enum { RANKS_PING_US = 500000 };    /* how often, without work */
void ranks_begin(struct engine *g); /* the thread's first act, and its last */
void ranks_end(struct engine *g);
void ranks_errands(struct engine *g); /* does what waits to be done between two steps */
void ranks_ping(struct engine *g, bool goes_on);
bool ranks_lost(struct engine *g, struct err *e);          /* one is gone, or the device, and why */
void ranks_abort(struct engine *g, const struct err *why); /* ends what they do beside serving */
const char *ranks_lost_text(struct engine *g);             /* which it was */
void ranks_explain(struct engine *g,
                   struct err *e);  /* to clients, where that is why a step failed */
adapter_news_fn ranks_adapter_news; /* ctx is the engine */
/* Runs fn on the engine's thread between two steps, or, before there is one, here. */
int ranks_between(struct engine *g, int (*fn)(void *ctx, struct err *e), void *ctx, struct err *e);

/* ---- adapters.c ---- */
void adapters_forget(void *engine, uint64_t gone); /* prefixes of a version that is gone; 0: none */

/* ---- submit.c ---- */
/* What the work's tenant holds. NULL: the bound of what takes idle time is for all of it, and
 * nobody's has none. */
struct engine_hold *work_hold(struct engine *g, const struct work *w);

/* ---- ends.c: works that begin and end, and who is told ---- */
void work_list_add(struct work_list *l, struct work *w);
void work_list_drop(struct work_list *l, struct work *w);
void work_let_go(struct engine *g, struct work *w);       /* out of the scheduler, if it is there */
void work_unhold(struct engine *g, const struct work *w); /* its memory is others' */
void work_begin(struct engine *g, struct work *w, int64_t now);
void work_mark(struct engine *g, struct work *w, bool ended); /* its group is notified */
/* The answer ends; the work goes to `over` and no further step sees it. */
void work_end(struct engine *g, struct work *w, enum gen_end why, int64_t now);
void work_fail(struct engine *g, struct work *w, const struct err *why, int64_t now);
void engine_tell(struct engine *g); /* frees what is over, notifies */

/* ---- step.c: a step from the scheduler's parts to rows ---- */
int step_run(struct engine *g, const struct sched_step *step, struct op_view *out, struct err *e);

/* ---- flight.c: a step from its launch to its answers, the next one given in between ---- */
int flights_init(struct engine *g, struct err *e);
void flights_release(struct engine *g);
void flight_round(struct engine *g, const struct sched_step *step);
void flight_land(struct engine *g); /* what is up, where nothing follows it */

/* ---- drafts.c: guesses, where they gain ---- */
int drafts_init(struct engine *g, enum engine_speculate how, struct err *e);
void drafts_release(struct engine *g);
void drafts_offer(void *ctx, const struct sched_part *part, int64_t n); /* ctx is the engine */
void drafts_ran(struct engine *g, const struct flight *f);

/* ---- constrained.c: texts that must be something ---- */
void constrained_rows(struct engine *g, struct flight *f); /* the masks of its wanted rows */
const uint32_t *constrained_row(const struct work *w, int64_t n_ahead); /* NULL: none */
/* How many of the guesses may come at all; the others are taken back. */
int64_t constrained_guesses(struct work *w, int64_t n);
void constrained_heard(struct work *w, int32_t id); /* it is the text's next token */
bool constrained_is_whole(const struct work *w);    /* nothing can follow */

/* ---- rows.c: from rows to answers ---- */
void rows_plan(struct flight *f);
void rows_promise(struct flight *f); /* the tokens that it draws are on their way */
void rows_answer(struct engine *g, struct flight *f, int64_t now);
void rows_answer_vectors(struct engine *g, struct flight *f, int64_t now);

#endif
