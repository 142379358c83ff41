/* SPDX-License-Identifier: Apache-2.0
 *
 * In which format each matrix of a model is kept: a parameter's own, so that a model mixes them.
 *
 * Thread: any.
 */
#ifndef ENGINE_MODEL_FORMATS_H
#define ENGINE_MODEL_FORMATS_H

#include "engine/model/model.h"

/* Gives every matrix its format: the one that is asked for, or its own in the files. Where those of
 * matrices differ that are packed back to back, products of them are not joined. Fails where the
 * files are asked for what they have not. */
int formats_pick(struct model *m, const struct model_options *o, struct err *e);

/* Whether a matrix is packed of a tensor's codes as they are, not of its numbers. */
bool formats_keep_codes(const struct param *p, const struct weight *w);

#endif
