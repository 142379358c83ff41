/* SPDX-License-Identifier: Apache-2.0
 *
 * A training file on disk, read into a dataset line by line. What is wrong with a line names its
 * number, counted as people count examples, from 1; lines with nothing but white space are none.
 * Lines may end with CR LF, the last one with nothing, and a byte order mark before the first is no
 * part of it.
 *
 * Thread: any; the dataset belongs to who fills it.
 */
#ifndef ENGINE_TRAIN_TRAIN_FILE_H
#define ENGINE_TRAIN_TRAIN_FILE_H

#include "engine/train/dataset.h"
#include "engine/train/example.h"

enum { TRAIN_FILE_LINE_MAX = 32 << 20 };

struct train_file {
    int64_t n_line, n_example; /* all; those that are not blank */
    int64_t n_chat;            /* of these: conversations; the others are prompts */
    enum train_fault fault;    /* of the error */
};

/* To be read by the two below; -1: e says why. */
int train_file_open(const char *path, struct err *e);

/* Stops at the first line that cannot be used; rows that are too long for a dataset which refuses
 * them are left out, and listed there. The descriptor is moved in; -1: it could not be opened, e
 * says so already, and this is -1. */
int train_file_read(int fd, const struct train_reader *r, struct dataset *d, struct train_file *f,
                    struct err *e);

/* The line of one example, without its end; f: as it was read so far, with fewer examples where
 * there is none of that number. One of more than `max` bytes is refused. The
 * descriptor as above. */
int train_file_line(int fd, int64_t example, size_t max, struct buf *out, struct train_file *f,
                    struct err *e);

/* The same lines, one call each: 1: there is one, in f by number and in *line until the next call;
 * 0: there is none; -1: e says why, and where f->fault is set the line alone is at fault. */
struct train_scan;
struct train_scan *train_scan_new(int fd, struct err *e); /* the descriptor as above */
void train_scan_free(struct train_scan *s);               /* NULL is fine */
int train_scan_next(struct train_scan *s, struct train_file *f, const char **line, size_t *n,
                    struct err *e);

/* One line; the arena is for what is read of it. An error names the field, and the example where f
 * is of a file. */
int train_file_add(struct dataset *d, const struct train_reader *r, const char *line, size_t n,
                   struct arena *a, struct train_file *f, struct err *e);

#endif
