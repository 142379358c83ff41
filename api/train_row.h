/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of a training file: a conversation {"messages", "tools"} whose assistant messages may
 * have a weight of 0 or 1, or {"prompt", "completion"}. Conversations are read as requests are.
 *
 * Memory: everything lies in the arena, or in the JSON tree that it holds.
 * Thread: any.
 */
#ifndef API_TRAIN_ROW_H
#define API_TRAIN_ROW_H

#include "api/error.h"
#include "engine/train/example.h"

/* knows_developer: the template has that role. The message of an error names the field, not the
 * line. */
int api_train_row(struct arena *a, const char *line, size_t n, bool knows_developer,
                  struct train_example *out, struct api_error *e);

/* The same as a train_reader's fn; ctx: a struct api_error that has the error as clients see it. */
int api_train_read(void *ctx, struct arena *a, const char *line, size_t n, bool knows_developer,
                   struct train_example *out, struct err *e);

#endif
