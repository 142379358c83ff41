/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths into JSON.
 */
#include "tests/lib/json_at.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

json_t *json_of(const char *text, size_t n)
{
    json_error_t e;
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!v)
        fail_msg("%s in %.*s", e.text, (int)n, text);
    return v;
}

json_t *json_at(const json_t *v, const char *path)
{
    char key[64];
    for (const char *p = path; v && *p;) {
        size_t n = strcspn(p, ".");
        assert_true(n < sizeof key);
        memcpy(key, p, n);
        key[n] = 0;
        v = json_is_array(v) ? json_array_get(v, strtoul(key, NULL, 10)) : json_object_get(v, key);
        p += n + (p[n] == '.');
    }
    return (json_t *)(uintptr_t)v;
}

const char *json_text_at(const json_t *v, const char *path)
{
    const json_t *x = json_at(v, path);
    if (!json_is_string(x))
        fail_msg("no text at %s", path);
    return json_string_value(x);
}

int64_t json_int_at(const json_t *v, const char *path)
{
    const json_t *x = json_at(v, path);
    if (!json_is_integer(x))
        fail_msg("no integer at %s", path);
    return json_integer_value(x);
}

size_t json_count_at(const json_t *v, const char *path)
{
    const json_t *x = json_at(v, path);
    if (!json_is_array(x) && !json_is_object(x))
        fail_msg("no list at %s", path);
    return json_is_array(x) ? json_array_size(x) : json_object_size(x);
}
