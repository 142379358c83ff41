/* SPDX-License-Identifier: Apache-2.0
 *
 * Of a model whose class clamps some weights while it trains (config.coef_bound): while all of them
 * are within the bound that changes nothing, and it is not done here. Beyond it a training is
 * refused, for its function would be another.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_BOUND_H
#define ENGINE_TRAIN_BOUND_H

#include "engine/model/model.h"

/* Before a forward that trains. */
int train_bound_check(const struct model *m, struct stream *s, struct err *e);

#endif
