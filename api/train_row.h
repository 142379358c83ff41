/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of a training file: a conversation {"messages", "tools"} whose assistant messages may
 * have a weight of 0 or 1; {"prompt", "completion"}; or a preference {"input": {"messages",
 * "tools"}, "preferred_output", "non_preferred_output"}, whose outputs are messages of the
 * assistant. A conversation may have what a teacher told of its answers' tokens
 * (api/train_teacher.h). Where rows are judged one by one the first two have a "label": true or
 * false, or "desirable" or "undesirable". Where texts are wanted that become vectors, {"anchor",
 * "positive", "negative"} or {"text", "text_pair", "label"}. Conversations are read as requests
 * are; rows of other trainers become these first (api/train_dialect.h).
 *
 * Memory: everything lies in the arena, or in the JSON tree that it holds.
 * Thread: any.
 */
#ifndef API_TRAIN_ROW_H
#define API_TRAIN_ROW_H

#include "api/error.h"
#include "engine/train/example.h"

/* What reading rows came to, beside the rows. Zeroed before the first. */
enum { TRAIN_UNREAD_BYTES = 256 };
struct train_said {
    struct api_error error;          /* as clients see it */
    char unread[TRAIN_UNREAD_BYTES]; /* members that nothing reads, each once: "id, source" */
};

/* The message of an error names the field, not the line. A member that asks for another training
 * than ours, such as a row's weight, is an error; what else a row has beside its kind's members, as
 * files of others do (ids, sources), is noted as unread. */
int api_train_row(struct arena *a, const char *line, size_t n, struct train_wants wants,
                  struct train_example *out, struct train_said *said);

/* The same as a train_reader's fn; ctx: a struct train_said. */
int api_train_read(void *ctx, struct arena *a, const char *line, size_t n, struct train_wants wants,
                   struct train_example *out, struct err *e);

#endif
