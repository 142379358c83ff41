/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON text to template values, for tests: keeps integers apart from floats, the order of keys,
 * and NUL anywhere, which the JSON libraries at hand do not.
 */
#ifndef TESTS_LIB_JVALUE_JSON_H
#define TESTS_LIB_JVALUE_JSON_H

#include "engine/template/jvalue.h"

int test_jvalue_parse(struct arena *a, const char *text, size_t len, struct jvalue *out,
                      struct err *e);
/* A whole file; 1 when it is not there. */
int test_jvalue_read(struct arena *a, const char *path, struct jvalue *out, struct err *e);
/* The terminated copy of a string member; NULL when it is absent or null. */
const char *test_jvalue_text(struct arena *a, const struct jvalue *dict, const char *key);

#endif
