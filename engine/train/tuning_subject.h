/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training is of, as a digest: its options, targets and rows, all that two trainings must
 * share for one to go on from the other's checkpoint. What only says where and when (folders,
 * memory, ranks, who is told) is not in it.
 *
 * Thread: any.
 */
#ifndef ENGINE_TRAIN_TUNING_SUBJECT_H
#define ENGINE_TRAIN_TUNING_SUBJECT_H

#include "engine/base/sha256.h"
#include "engine/train/tuning.h"

/* o->train.n_step is known. */
void tuning_subject(const struct tuning_options *o, char text[SHA256_TEXT_BYTES]);

#endif
