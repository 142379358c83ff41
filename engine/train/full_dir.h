/* SPDX-License-Identifier: Apache-2.0
 *
 * What a full training made, as a model directory: that of the model it began with, with the
 * trained values in its files, rounded to the types that they have there.
 *
 * Thread: the trainer's.
 */
#ifndef ENGINE_TRAIN_FULL_DIR_H
#define ENGINE_TRAIN_FULL_DIR_H

#include "engine/train/subject.h"

/* path must not be there, or be empty. A call of all ranks; the first writes. */
int full_dir_write(const char *path, struct train_subject *s, const struct model_dir *from,
                   struct err *e);

#endif
