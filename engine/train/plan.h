/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a training before it starts. A step of the largest micro-batch is run on a device
 * on paper (engine/device/device_dry.h), by the trainer itself, and what it holds at most is
 * counted; so the plan follows whatever trainer and eager do. Weights that are shared with serving
 * stand in the model that is there already, and are not counted.
 *
 * What is planned is what can be in use at most. A training takes less where rows are shorter than
 * the longest, and pages that are never touched cost nothing; it takes up to a twentieth and 16 MB
 * more of the process's memory for what is not a device's: rows, lists, the allocator's gaps. A
 * trainer that is given value_bytes keeps to the limit, whatever comes.
 *
 * Thread: any; the model is read.
 */
#ifndef ENGINE_TRAIN_PLAN_H
#define ENGINE_TRAIN_PLAN_H

#include "engine/train/tuning.h"

/* Chooses how blocks are kept and fills in what it takes; o->train.checkpoints_blocks is not read.
 * The model may be one without weights, d is where it would be trained. copies: the training is of
 * a copy of the model (a full one beside serving). ERR_TOO_LARGE with the numbers: it does not fit.
 */
int train_plan(const struct model *m, const struct device *d, const struct tuning_options *o,
               enum train_recompute how, bool copies, size_t limit, struct train_plan *out,
               struct err *e);

#endif
