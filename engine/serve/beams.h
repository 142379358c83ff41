/* SPDX-License-Identifier: Apache-2.0
 *
 * A beam search in the engine: its texts are works like others, which share steps, cells and
 * adapters with whoever else is there, but none of them goes on before it is known of all what may
 * follow. What is chosen then (engine/sample/beam_search.h) some texts go on with where they are;
 * those that another's goes on in are rewritten, find its cells by their prefix and compute the
 * rest of the last one. Where a model has recurrent states, one is kept at the end of each cell of
 * a text, so that they go on from there.
 *
 * Whoever has said what may follow is paused until the others have. So that these come to run,
 * searches together hold no more seats and cells than half of what there is, or one holds what it
 * needs (beams_reserve).
 *
 * A search is whole or nothing: where one of its works ends otherwise, all do.
 *
 * Thread: making one and reserving for it: any; the rest the engine's.
 */
#ifndef ENGINE_SERVE_BEAMS_H
#define ENGINE_SERVE_BEAMS_H

#include "engine/serve/engine_parts.h"

/* Makes the works that are texts of searches know each other: `width` neighbours each. */
int beams_make(const struct work_list *l, struct err *e);
void beams_unref(struct beams *b); /* a work of it is freed; NULL is fine */

/* Seats and cells of all searches in a list that is handed over; the inbox's lock is held. */
int beams_reserve(struct engine *g, const struct work_list *l, struct err *e);

int32_t beams_tops(const struct work *w); /* the likeliest tokens wanted of its rows */

/* What a row of the work came to; the last that was missing of a search makes it go on. */
void beams_heard(struct engine *g, struct work *w, const struct sample_task *t, int64_t now);

/* Between two steps: texts that changed places, and those of searches that are over. */
void beams_settle(struct engine *g);

/* The work has ended: so do the others, behind this step, if the search is not over. */
void beams_left(struct engine *g, struct work *w, enum gen_end why);

#endif
