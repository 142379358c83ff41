/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations, from JSON to what a chat template takes. Serving and training read them here.
 *
 * Roles are system, developer, user, assistant, tool, function. `developer` becomes `system` where
 * the template has no such role. Content is a string, or text parts, which are joined by newlines.
 * The arguments of tool calls come as JSON in a string, and templates want the object: it is
 * unpacked where it is one. Every other field goes to the template as it is.
 *
 * Thread: any.
 */
#ifndef API_MESSAGES_H
#define API_MESSAGES_H

#include "api/params.h"

enum { API_MESSAGES_MAX = 4096 };

/* `name`: of the field, for errors ("messages"). The texts borrow from the JSON tree. */
int api_messages(struct api_reader *r, const char *name, const json_t *v, struct jvalue *out);

/* The arguments of a call, which came as a string: an object where they are one in it. */
int api_arguments(struct api_reader *r, const json_t *text, struct jvalue *out, struct err *e);

/* Any JSON as a value. */
int api_jvalue(struct arena *a, const json_t *v, struct jvalue *out, struct err *e);

#endif
