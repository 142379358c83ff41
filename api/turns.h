/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation as chat templates take it, built piece by piece by those who read another shape of
 * it: texts, thoughts and calls of one speaker are one message, a tool's result is one of its own.
 * What comes out is what api_messages makes of the same conversation in OpenAI's shape, so that the
 * model sees the same text.
 *
 * Memory: in the arena; texts borrow from the JSON tree.
 * Thread: one at a time.
 */
#ifndef API_TURNS_H
#define API_TURNS_H

#include <jansson.h>

#include "engine/base/arena.h"
#include "engine/template/jvalue.h"

struct turns_text {
    const char *p; /* not terminated */
    size_t n;
    struct turns_text *next;
};

/* Texts one behind the other; joined by newlines. */
struct turns_texts {
    struct turns_text *first, *last;
    size_t n, bytes;
};

struct turns {
    struct arena *arena;
    struct jvalue list; /* of the messages that are whole */
    const char *role;   /* of the one under way; NULL: none is */
    struct turns_texts text, thought;
    struct jvalue calls; /* a list; none */
    struct err e;        /* of the first call that failed */
};

int turns_init(struct turns *t, struct arena *a);

/* Ends the message under way and begins one. role: a literal. */
int turns_begin(struct turns *t, const char *role);

/* More of the message under way. v: a string; arguments: an object, or a string. */
int turns_add_text(struct turns *t, const json_t *v);
int turns_add_thought(struct turns *t, const json_t *v);
int turns_add_call(struct turns *t, const char *id, const char *name, struct jvalue arguments);

/* A tool's result, as a message of its own. */
int turns_add_result(struct turns *t, const char *id, const struct turns_texts *texts);

/* The last message is whole, too. */
int turns_end(struct turns *t);

int turns_text(struct turns *t, struct turns_texts *to, const json_t *v); /* v: a string */

#endif
