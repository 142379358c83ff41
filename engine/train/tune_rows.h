/* SPDX-License-Identifier: Apache-2.0
 *
 * What engine/tune.h's rows are to the trainings of this folder.
 *
 * Thread: as engine/tune.h says.
 */
#ifndef ENGINE_TRAIN_TUNE_ROWS_H
#define ENGINE_TRAIN_TUNE_ROWS_H

#include "engine/train/train_file.h"
#include "engine/tune.h"

struct tune_rows {
    struct dataset data; /* owned */
    struct train_file file;
    struct train_reader reader; /* its ctx is borrowed */
};

#endif
