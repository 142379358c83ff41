/* SPDX-License-Identifier: Apache-2.0
 *
 * The cosines and sines of rotary positions, for every kind of scaling that models are published
 * with. A table holds all positions that the model serves. The kinds that other programs let depend
 * on the length of the text so far (dynamic, longrope) have two forms in it where the context is
 * longer than what the model was first trained for: rows of the long form for all positions, then
 * rows of the short one for the positions of that first training. A sequence has one of them for
 * its life (model_turn), so an angle never depends on how its text was cut into steps.
 *
 * Thread: one that loads.
 */
#ifndef ENGINE_MODEL_ROPE_TABLE_H
#define ENGINE_MODEL_ROPE_TABLE_H

#include "engine/model/model.h"

/* The widths of the tables that the model's layers turn by. */
void rope_table_sizes(struct model *m);

/* Fills m->rope, and m->q_scale where queries grow; nothing for families that do not turn. */
int rope_table_make(struct model *m, struct err *e);

/* Tokens of a sequence that takes the short form; 0: there is but one. */
int64_t rope_short_tokens(const struct config *c, int64_t ctx);

/* The frequencies of d_rot / 2 pairs, and what cosines and sines are multiplied with. */
void rope_frequencies(const struct config *c, int64_t ctx, int32_t d_rot, double *freq,
                      double *mscale);

#endif
