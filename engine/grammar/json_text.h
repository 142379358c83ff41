/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON as rules of a program: values of any kind, white space, strings by their length. Rules are
 * made when they are first asked for.
 *
 * White space stands behind { [ , : and before } ] only, and is bounded: nothing, a space, or one
 * or two newlines and up to 20 spaces or tabs; or there is none at all (is_compact). Numbers have
 * at most 15 digits before the point, 15 behind it, and 2 in the exponent.
 *
 * With a `quote` of its own it is a form like JSON: strings stand as they are between two of these,
 * and hold none; members' names stand bare.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_GRAMMAR_JSON_TEXT_H
#define ENGINE_GRAMMAR_JSON_TEXT_H

#include "engine/base/buf.h"
#include "engine/grammar/build.h"
#include "engine/template/jvalue.h"

enum { JSON_MAX_DIGITS = 15, JSON_MAX_INDENT = 20, JSON_MAX_DEPTH = 128 };

struct json_text {
    struct build *d;
    bool is_compact;
    bool is_python;            /* null, true, false are written None, True, False */
    const char *quote;         /* NULL: JSON's; its first byte stands in it once */
    struct dfa *plain, *names; /* with a quote, made when they are asked for: strings, and names */
    uint32_t space, value, object, array, string, character; /* rules + 1; 0: not made yet */
};

uint32_t json_text_space(struct json_text *j, uint32_t next);
uint32_t json_text_any(struct json_text *j, uint32_t next); /* any value */
uint32_t json_text_any_object(struct json_text *j, uint32_t next);
uint32_t json_text_any_array(struct json_text *j, uint32_t next);
uint32_t json_text_string(struct json_text *j, uint32_t min, uint32_t max, uint32_t next);
uint32_t json_text_null(struct json_text *j, uint32_t next);
uint32_t json_text_bool(struct json_text *j, bool b, uint32_t next);
uint32_t json_text_number(struct json_text *j, bool is_integer, uint32_t next);

/* With a quote of its own: strings, and the names of members, that can be written. */
struct dfa *json_text_plain(struct json_text *j);
struct dfa *json_text_names(struct json_text *j);

/* A quote and `next`. */
uint32_t json_text_quote(struct json_text *j, uint32_t next);

/* "key": and the space behind it. Of a name in `names` the same. */
uint32_t json_text_key(struct json_text *j, const char *key, size_t len, uint32_t next);
uint32_t json_text_key_of(struct json_text *j, const struct dfa *names, uint32_t next);
uint32_t json_text_comma(struct json_text *j, uint32_t next);
uint32_t json_text_close(struct json_text *j, char bracket, uint32_t next);

/* The shortest text of a value, as it is written for `enum` and `const`. */
int json_text_write(const struct json_text *j, const struct jvalue *v, struct buf *out);
bool json_text_same(const struct jvalue *x, const struct jvalue *y);

#endif
