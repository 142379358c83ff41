/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of tools in the answers of a chat: whether they are looked for, what the text is held to
 * for their sake, and how they are told.
 *
 * A text is held to something where a call is asked for, where a tool is strict, and where not all
 * of them, or not more than one, may be called; else it is the model's own, and read.
 *
 * Thread: the HTTP thread that has the call.
 */
#ifndef SERVER_ANSWER_CALLING_H
#define SERVER_ANSWER_CALLING_H

#include "api/reply.h"
#include "engine/engine.h"
#include "engine/tools/tool_format.h"
#include "server/answer/choice.h"

struct calling {
    const struct tool_format *format; /* NULL: texts are words */
    const struct api_request *q;      /* borrowed */
    struct constraint constraint;     /* of the text: the request's own, or that of its tools */
};

int calling_begin(struct calling *t, struct engine *g, const struct api_request *q, struct arena *a,
                  struct api_error *e);

/* A choice that has just begun. */
void calling_listen(const struct calling *t, struct choice *c);

/* All calls that there are, in the arena; NULL with an error. */
const struct api_call *calling_whole(const struct calling *t, struct choice *c, struct arena *a,
                                     size_t *n, struct err *e);

/* The next piece of a stream; false: there is none. It is told then. */
bool calling_next(const struct calling *t, struct choice *c, struct api_call *out);

/* Whether the text called something. */
bool calling_called(const struct choice *c);

#endif
