/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of a training file: a conversation {"messages", "tools"} whose assistant messages may
 * have a weight of 0 or 1, or {"prompt", "completion"}. Conversations are read as requests are.
 * Rows of preferences are recognised, so that they can be refused by name.
 *
 * Memory: everything lies in the arena, or in the JSON tree that it holds.
 * Thread: any.
 */
#ifndef API_TRAIN_ROW_H
#define API_TRAIN_ROW_H

#include "api/error.h"
#include "engine/base/arena.h"
#include "engine/template/jvalue.h"

enum api_train_kind { API_TRAIN_CHAT, API_TRAIN_TEXT, API_TRAIN_PREFERENCE };

struct api_train_row {
    enum api_train_kind kind;
    struct jvalue messages, tools;
    bool has_tools;
    const double *weight; /* [n_weight] of each message; NULL: all count */
    size_t n_weight;
    const char *prompt, *completion; /* not terminated */
    size_t n_prompt, n_completion;
};

/* knows_developer: the template has that role. The message of an error names the field, not the
 * line. */
int api_train_row(struct arena *a, const char *line, size_t n, bool knows_developer,
                  struct api_train_row *out, struct api_error *e);

#endif
