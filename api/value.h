/* SPDX-License-Identifier: Apache-2.0
 *
 * Two questions that readers of JSON ask of every value.
 */
#ifndef API_VALUE_H
#define API_VALUE_H

#include <stdbool.h>
#include <string.h>

#include <jansson.h>

/* A string is this word, and not this word and a NUL and more. */
static inline bool value_is_word(const json_t *v, const char *word)
{
    return json_is_string(v) && json_string_length(v) == strlen(word) &&
           memcmp(json_string_value(v), word, strlen(word)) == 0;
}

/* null is as good as no member. */
static inline const json_t *value_member(const json_t *v, const char *key)
{
    const json_t *x = json_object_get(v, key);
    return json_is_null(x) ? NULL : x;
}

#endif
