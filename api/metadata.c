/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading metadata. It is kept as JSON, written anew.
 */
#include "api/metadata.h"

#include <string.h>

#include "api/jout.h"

enum { METADATA_MAX = 16, METADATA_KEY_MAX = 64, METADATA_VALUE_MAX = 512 };

int metadata_read(struct api_reader *r, const char *name, const json_t *v, const char **out)
{
    const char *key;
    json_t *value;
    struct buf text;
    if (!json_is_object(v))
        return param_type(r, name, "an object", v);
    if (json_object_size(v) > METADATA_MAX)
        return param_bad(r, name, "may have %d pairs", METADATA_MAX);
    buf_init(&text, METADATA_MAX * 6 * (METADATA_KEY_MAX + METADATA_VALUE_MAX + 8));
    struct jout j = jout_on(&text);
    jout_open(&j, '{');
    json_object_foreach((json_t *)(uintptr_t)v, key, value)
    {
        bool fits = json_is_string(value) && strlen(key) <= METADATA_KEY_MAX &&
                    json_string_length(value) <= METADATA_VALUE_MAX;
        if (!fits) {
            buf_release(&text);
            return param_bad(r, name, "has keys of up to %d bytes and strings of up to %d",
                             METADATA_KEY_MAX, METADATA_VALUE_MAX);
        }
        jout_key(&j, key);
        jout_bytes(&j, json_string_value(value), json_string_length(value));
    }
    jout_close(&j, '}');
    *out = arena_strndup(r->arena, text.data, text.len);
    buf_release(&text);
    return 0;
}

bool metadata_has(const char *metadata, const char *key, const char *value)
{
    json_t *m = metadata ? json_loads(metadata, 0, NULL) : NULL;
    const char *has = json_string_value(json_object_get(m, key));
    bool is_same = has && strcmp(has, value) == 0;
    json_decref(m);
    return is_same;
}
