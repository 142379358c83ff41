/* SPDX-License-Identifier: Apache-2.0
 *
 * The thoughts in the answers of a chat: told apart from what is said, and let through by what a
 * text is held to. And so the way of a choice's text: thoughts, then words and calls.
 *
 * Thread: the HTTP thread that has the call.
 */
#ifndef SERVER_ANSWER_THINKING_H
#define SERVER_ANSWER_THINKING_H

#include "api/reply.h"
#include "server/answer/choice.h"
#include "server/answer/prompt.h"

/* A constraint holds behind the thoughts: those that the prompt has begun, or that are told apart.
 */
void thinking_let(struct constraint *c, const struct engine *g, const struct api_request *q,
                  const struct prompt *p);

/* The limit of thoughts that was asked for, as the engine knows it. */
void thinking_limit(struct api_request *q, const struct engine *g, const struct prompt *p);

/* A choice that has just begun. */
void thinking_listen(struct choice *c, const struct engine *g, const struct api_request *q,
                     const struct prompt *p);

/* Whether a choice's text is more than words. */
bool thinking_reads(const struct choice *c);

/* n more bytes of its text are read; is_over: nothing follows. */
int thinking_read(struct choice *c, const char *text, size_t n, bool is_over, struct err *e);

/* What is new of thoughts and words, which are told then. */
void thinking_describe(struct choice *c, const struct api_request *q, struct api_choice *out);

/* Templates with channels call a message's thoughts `thinking`: it gets them by that name too. One
 * that calls tools has either thoughts or words there: words rule. */
int thinking_name(const struct engine *g, struct api_request *q, struct arena *a, struct err *e);

#endif
