/* SPDX-License-Identifier: Apache-2.0
 *
 * The cosines and sines of rotary positions, for every kind of scaling that models are published
 * with. A table holds all positions that the model serves, so an angle depends on the position
 * alone: the kinds that other programs let depend on the length of the text so far (dynamic,
 * longrope) take their long form when the model's context is longer than what it was first trained
 * for, and their short form otherwise.
 *
 * Thread: one that loads.
 */
#ifndef ENGINE_MODEL_ROPE_TABLE_H
#define ENGINE_MODEL_ROPE_TABLE_H

#include "engine/model/model.h"

/* Fills m->rope_cos and rope_sin; nothing for families that do not turn. */
int rope_table_make(struct model *m, struct err *e);

/* The frequencies of d_rot / 2 pairs, and what cosines and sines are multiplied with. */
void rope_frequencies(const struct config *c, int64_t ctx, int32_t d_rot, double *freq,
                      double *mscale);

#endif
