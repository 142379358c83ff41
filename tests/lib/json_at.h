/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking into JSON by a path as choices.0.text, for tests of answers. What is missing fails the
 * test and is named.
 */
#ifndef TESTS_LIB_JSON_AT_H
#define TESTS_LIB_JSON_AT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

json_t *json_of(const char *text, size_t n); /* strict, but for NUL in strings */

json_t *json_at(const json_t *v, const char *path); /* borrowed; NULL: not there */
const char *json_text_at(const json_t *v, const char *path);
int64_t json_int_at(const json_t *v, const char *path);
size_t json_count_at(const json_t *v, const char *path); /* of an array or an object */

#endif
