/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers of conversations in other shapes than a chat's share (read_turns.c,
 * read_items.c): the place in the request where they are, which errors name, and what both shapes
 * have alike. A function that fails has set the request's error, or the one of `turns`.
 *
 * Thread: one at a time.
 */
#ifndef API_WALK_H
#define API_WALK_H

#include "api/messages.h"
#include "api/turns.h"

/* A type of parts that hold a text, and the member that is it. */
struct walk_part {
    const char *type, *key;
};

struct walk {
    struct api_reader *r;
    const struct walk_part *part; /* the types that a list of texts may hold; the last is {NULL} */
    struct turns turns;
    bool is_refused; /* the request's error is set already */
    char where[80];  /* messages[3].content[0] */
};

/* A 400 about the place `at` below this one. */
__attribute__((format(printf, 3, 4))) int walk_bad(struct walk *w, const char *at, const char *fmt,
                                                   ...);

/* A member; NULL with an error where it is not there, or is no such thing. A name is one that goes
 * back into a text of the model, or tells one call from another: it is not empty, and has no NUL.
 */
const json_t *walk_string(struct walk *w, const json_t *v, const char *key);
const char *walk_name(struct walk *w, const json_t *v, const char *key);
const char *walk_type(struct walk *w, const json_t *v);

int walk_no_such(struct walk *w, const char *type); /* a type that no model here can read */

/* A text, or a list of parts that hold one. */
int walk_texts(struct walk *w, const json_t *v, struct turns_texts *out);

/* Of the walk's end: the error of the request. name: of the field that is the conversation. */
int walk_fail(struct walk *w, const char *name);

#endif
