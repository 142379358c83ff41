/* SPDX-License-Identifier: Apache-2.0
 *
 * The front of the JSON reader: what a client sent is looked over once before jansson sees it, so
 * that depth, the number of values and the length of a number are bounded before anything is
 * allocated for them. Then jansson parses strictly: no duplicate keys, no lone surrogates, no NUL
 * in a key (one in a value is text like any other).
 *
 * An error says what and where (line and column), and never repeats what was sent.
 *
 * Memory: the tree belongs to the arena, which drops it with everything else of the request.
 * Thread: any.
 */
#ifndef API_JSON_H
#define API_JSON_H

#include <jansson.h>

#include "api/error.h"
#include "engine/base/arena.h"

enum {
    API_JSON_DEPTH_MAX = 64,
    API_JSON_VALUES_MAX = 2 << 20, /* of one body: a tree takes some 40 bytes for each */
    API_JSON_MEMBER_COSTS = 15,    /* values that a member of an object counts besides its own */
    API_JSON_NUMBER_MAX = 400      /* characters of one number; 1e308 written out has 309 */
};

/* Draws the key of jansson's hash tables, and lets it have its memory from here; once, before
 * threads begin. */
void api_json_init(void);

/* The object that a body must be; NULL with a 400, or with a 503 where there is no memory for it.
 */
json_t *api_json_object(struct arena *a, const char *text, size_t n, struct api_error *e);

/* The same of one line of a file: an error speaks of a row and its column. */
json_t *api_json_line(struct arena *a, const char *text, size_t n, struct api_error *e);

/* JSON inside a string of a body, where there is any: NULL without an error otherwise, but for one
 * of memory. What it may hold is taken from *values, which the caller starts at API_JSON_VALUES_MAX
 * for a whole body. */
json_t *api_json_inner(struct arena *a, const char *text, size_t n, int *values, struct err *e);

/* A value that was made here: it is the arena's from now on. NULL: NULL. */
json_t *api_json_keep(struct arena *a, json_t *v);

/* "an object", "a string", ...: for messages. */
const char *api_json_type(const json_t *v);

#endif
