/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a dataset that is of teachers: their words on a conversation's parts, and on a row's
 * tokens.
 *
 * Thread: as the dataset's.
 */
#ifndef ENGINE_TRAIN_DATASET_TAUGHT_H
#define ENGINE_TRAIN_DATASET_TAUGHT_H

#include "engine/train/dataset.h"
#include "engine/train/taught.h"

/* What the dataset's teacher of this message, where it has one, said of its part of the text; *out
 * stays as long as the part is used, and is zeros where there is none. */
int dataset_hear(struct dataset *d, int64_t message, const struct template_out *text,
                 struct row_part *part, struct taught *out, struct err *e);

/* The newest row's tokens get what was said of them, [n] parts. After an error the row may go back.
 */
int dataset_teach(struct dataset *d, const struct taught *said, size_t n, struct err *e);

#endif
