/* SPDX-License-Identifier: Apache-2.0
 *
 * A tool that a request offers, as plain data: api/ fills it from JSON.
 *
 * Thread: constant once made.
 */
#ifndef ENGINE_TOOLS_TOOL_SPEC_H
#define ENGINE_TOOLS_TOOL_SPEC_H

#include <stdbool.h>
#include <stddef.h>

struct jvalue;

enum { TOOL_NAME_MAX = 64 };

struct tool_spec {
    const char *name;                /* borrowed: 1 to 64 of a-z A-Z 0-9 _ - . */
    const struct jvalue *parameters; /* borrowed: a schema of objects; NULL: it takes none */
    bool is_strict, is_allowed;      /* is_allowed: it may be called in this request */
};

enum tool_mode { TOOL_MODE_NONE, TOOL_MODE_AUTO, TOOL_MODE_REQUIRED };

static inline bool tool_name_may_have(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

#endif
