/* SPDX-License-Identifier: Apache-2.0
 *
 * A training file on disk, read into a dataset line by line. What is wrong with a line names its
 * number, counted as people count examples, from 1.
 *
 * Thread: any; the dataset belongs to who fills it.
 */
#ifndef SERVER_TRAIN_FILE_H
#define SERVER_TRAIN_FILE_H

#include "api/error.h"
#include "engine/train/dataset.h"

enum { TRAIN_FILE_LINE_MAX = 32 << 20 };

struct train_file {
    int64_t n_example; /* lines that are not blank */
    int64_t n_chat, n_text;
};

/* Stops at the first line that cannot be used. code: invalid_training_file, invalid_file_format. */
int train_file_read(const char *path, struct dataset *d, struct train_file *f, struct api_error *e);

#endif
