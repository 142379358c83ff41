/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device is told of a row whose token it takes where the row lies (kernels logit_edit and
 * sample): the same chain as the sampler's, the same draw by seed and place.
 *
 * Thread: any; pure functions.
 */
#ifndef ENGINE_SAMPLE_ASK_H
#define ENGINE_SAMPLE_ASK_H

#include "engine/sample/sampler.h"

struct k_sample_how sample_ask(const struct sample_row *r);

/* The row's penalties, biases and bans, edits [h->at, ..), at most `room`; h->row and h->at are the
 * caller's. How many; -1: there are more. */
int64_t sample_ask_edits(const struct sample_row *r, struct k_edit_row *h, struct k_edit *edit,
                         int64_t room);

#endif
