/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies a tree of values with an origin on each of them.
 *
 * Thread: one per arena.
 */
#ifndef ENGINE_TEMPLATE_JINJA_STAMP_H
#define ENGINE_TEMPLATE_JINJA_STAMP_H

#include "engine/template/jorigin.h"
#include "engine/template/jvalue.h"

/* All of v is of one origin. */
int jstamp(struct arena *a, const struct jvalue *v, uint32_t origin, struct jvalue *out,
           struct err *e);
/* A list of messages: message i is of JORIGIN_MESSAGE, its content of JORIGIN_CONTENT, its role of
 * JORIGIN_ROLE when it is a well-known one. */
int jstamp_messages(struct arena *a, const struct jvalue *v, struct jvalue *out, struct err *e);

#endif
