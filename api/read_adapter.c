/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of an adapter, which later stands in paths, in metrics and in the `model` of requests:
 * letters, digits and . _ - :, parts of it divided by /, none of them beginning with a dot.
 */
#include <string.h>

#include "api/params.h"

enum { NAME_BYTES = 96 };

static bool is_part(const char *p, size_t n)
{
    static const char plain[] =
        "0123456789._-:abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return n && !strchr("._-:", *p) && strspn(p, plain) >= n;
}

static bool is_name(const char *s, size_t n)
{
    if (!n || n > NAME_BYTES || strlen(s) != n || strstr(s, ".."))
        return false;
    for (const char *p = s;; p++) {
        size_t part = strcspn(p, "/");
        if (!is_part(p, part))
            return false;
        p += part;
        if (!*p)
            return true;
    }
}

int param_read_adapter_name(struct api_reader *r, const char *name, const json_t *v)
{
    if (!json_is_string(v))
        return param_type(r, name, "a string", v);
    if (!is_name(json_string_value(v), json_string_length(v)))
        return param_bad(r, name,
                         "must be 1 to %d letters, digits and any of ._-:, divided by / into parts "
                         "that begin with a letter or digit, without \"..\"",
                         NAME_BYTES);
    r->out->adapter_name = json_string_value(v);
    return 0;
}
