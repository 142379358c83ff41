/* SPDX-License-Identifier: Apache-2.0
 *
 * The place where a reader of a conversation is, and what it finds there.
 */
#include "api/walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/value.h"

int walk_bad(struct walk *w, const char *at, const char *fmt, ...)
{
    char why[240], where[96];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    snprintf(where, sizeof where, "%s%s", w->where, at);
    w->is_refused = true;
    return api_fail(w->r->e, 400, "invalid_value", where, "'%s' %s.", where, why);
}

const json_t *walk_string(struct walk *w, const json_t *v, const char *key)
{
    const json_t *s = json_object_get(v, key);
    if (json_is_string(s))
        return s;
    walk_bad(w, "", "has no '%s' that is a string", key);
    return NULL;
}

const char *walk_name(struct walk *w, const json_t *v, const char *key)
{
    const json_t *name = walk_string(w, v, key);
    const char *s = name ? json_string_value(name) : NULL;
    if (!s || (*s && strlen(s) == json_string_length(name)))
        return s;
    walk_bad(w, "", "has a '%s' that is empty, or holds a NUL", key);
    return NULL;
}

const char *walk_type(struct walk *w, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    if (!type)
        walk_bad(w, "", "must be an object with a 'type'");
    return type;
}

int walk_no_such(struct walk *w, const char *type)
{
    return walk_bad(w, "", "is of type \"%.40s\": the models here read text alone", type);
}

static const json_t *part_text(struct walk *w, const json_t *v)
{
    const char *type = walk_type(w, v);
    const struct walk_part *p = w->part;
    if (!type)
        return NULL;
    while (p->type && strcmp(p->type, type) != 0)
        p++;
    if (p->type)
        return walk_string(w, v, p->key);
    walk_no_such(w, type);
    return NULL;
}

int walk_texts(struct walk *w, const json_t *v, struct turns_texts *out)
{
    size_t n = strlen(w->where);
    if (json_is_string(v))
        return turns_text(&w->turns, out, v);
    if (!json_is_array(v))
        return walk_bad(w, "", "must be a string or an array of texts");
    for (size_t i = 0; i < json_array_size(v); i++) {
        snprintf(w->where + n, sizeof w->where - n, "[%zu]", i);
        const json_t *text = part_text(w, json_array_get(v, i));
        if (!text || turns_text(&w->turns, out, text))
            return -1;
    }
    w->where[n] = 0;
    return 0;
}

int walk_fail(struct walk *w, const char *name)
{
    return w->is_refused ? -1 : api_fail_err(w->r->e, &w->turns.e, name);
}
