/* SPDX-License-Identifier: Apache-2.0
 *
 * A training file on disk, read into a dataset line by line. What is wrong with a line names its
 * number, counted as people count examples, from 1; lines with nothing but white space are none.
 * Lines may end with CR LF, the last one with nothing, and a byte order mark before the first is no
 * part of it.
 *
 * Thread: any; the dataset belongs to who fills it.
 */
#ifndef SERVER_JOBS_TRAIN_FILE_H
#define SERVER_JOBS_TRAIN_FILE_H

#include "api/error.h"
#include "api/train_row.h"
#include "engine/train/dataset.h"

struct resident;

enum { TRAIN_FILE_LINE_MAX = 32 << 20 };

struct train_file {
    int64_t n_line, n_example; /* all; those that are not blank */
    int64_t n_chat, n_text;
};

/* Rows as the model that is served takes them, for a job that was created then (UTC). */
struct dataset_options train_file_options(const struct resident *on, int64_t created_s);

/* Stops at the first line that cannot be used; rows that are too long for a dataset which refuses
 * them are left out, and listed there. code: invalid_training_file, invalid_file_format. */
int train_file_read(const char *path, struct dataset *d, struct train_file *f, struct api_error *e);

/* The line of one example, without its end; f: as it was read so far. One of more than `max` bytes
 * is refused. */
int train_file_line(const char *path, int64_t example, size_t max, struct buf *out,
                    struct train_file *f, struct api_error *e);

/* One line; the arena is for what is read of it. An error names the field, and the example where f
 * is of a file. */
int train_file_add(struct dataset *d, const char *line, size_t n, struct arena *a,
                   struct train_file *f, struct api_error *e);

#endif
