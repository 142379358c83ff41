/* SPDX-License-Identifier: Apache-2.0
 *
 * Types of subschemas. What cannot be followed within a few steps may be anything.
 */
#include "engine/grammar/schema_types.h"

#include <stdbool.h>
#include <string.h>

enum { MAX_STEPS = 64 }; /* subschemas that are looked at for one */

struct look {
    const struct jvalue *root;
    int left;
};

static bool is_text(const struct jvalue *v, const char *text)
{
    return v->type == JT_STR && v->s->len == strlen(text) && !memcmp(v->s->p, text, v->s->len);
}

uint32_t schema_type_named(const struct jvalue *name)
{
    static const char *const text[] = {"null", "boolean", "number", "string", "array", "object"};
    for (uint32_t i = 0; i < 6; i++)
        if (is_text(name, text[i]))
            return 1u << i;
    return is_text(name, "integer") ? TYPE_NUMBER : 0;
}

uint32_t schema_type_of(const struct jvalue *v)
{
    switch (v->type) {
    case JT_NONE:
        return TYPE_NULL;
    case JT_BOOL:
        return TYPE_BOOL;
    case JT_INT:
    case JT_FLOAT:
        return TYPE_NUMBER;
    case JT_STR:
        return TYPE_STRING;
    case JT_LIST:
        return TYPE_ARRAY;
    default:
        return TYPE_OBJECT;
    }
}

size_t schema_listed(const struct jvalue *v, const struct jvalue **at)
{
    const struct jvalue *c = jv_dict_get(v, "const"), *e = jv_dict_get(v, "enum");
    *at = c ? c : e && e->type == JT_LIST ? e->l->at : NULL;
    return c ? 1 : *at ? e->l->n : 0;
}

uint32_t schema_types_said(const struct jvalue *v)
{
    const struct jvalue *t = jv_dict_get(v, "type"), *at, *n = jv_dict_get(v, "nullable");
    uint32_t types = t ? 0 : TYPE_ALL, listed = 0;
    for (size_t i = 0; t && i < (t->type == JT_LIST ? t->l->n : 1); i++)
        types |= schema_type_named(t->type == JT_LIST ? &t->l->at[i] : t);
    types |= n && n->type == JT_BOOL && n->b ? TYPE_NULL : 0;
    size_t n_value = schema_listed(v, &at);
    for (size_t i = 0; i < n_value; i++)
        listed |= schema_type_of(&at[i]);
    return n_value ? types & listed : types;
}

static const struct jvalue *member(const struct jvalue *v, const char *name, size_t n)
{
    struct jstr s = {.p = name, .len = n};
    struct jvalue key = {.type = JT_STR, .s = &s};
    return v && v->type == JT_DICT ? jdict_get(v->d, &key) : NULL;
}

/* "#/a/b" of names that stand as they are. */
static const struct jvalue *follow(const struct look *l, const struct jvalue *ref)
{
    const struct jvalue *v = l->root;
    if (ref->type != JT_STR || !ref->s->len || *ref->s->p != '#' ||
        memchr(ref->s->p, '~', ref->s->len) || memchr(ref->s->p, '%', ref->s->len))
        return NULL;
    const char *p = ref->s->p + 1, *end = ref->s->p + ref->s->len;
    while (v && p < end) {
        const char *to = *p == '/' ? memchr(p + 1, '/', (size_t)(end - p - 1)) : NULL;
        to = to ? to : end;
        v = *p == '/' ? member(v, p + 1, (size_t)(to - p - 1)) : NULL;
        p = to;
    }
    return v;
}

static uint32_t types_of(struct look *l, const struct jvalue *v);

static uint32_t types_of_all(struct look *l, const struct jvalue *list, bool is_any)
{
    uint32_t types = is_any ? 0 : TYPE_ALL;
    for (size_t i = 0; list->type == JT_LIST && i < list->l->n; i++) {
        uint32_t one = types_of(l, &list->l->at[i]);
        types = is_any ? types | one : types & one;
    }
    return list->type == JT_LIST && list->l->n ? types : TYPE_ALL;
}

/* One step at a time, each taken from what is left: a schema that leads to itself ends, too. */
static uint32_t types_of(struct look *l, const struct jvalue *v)
{
    const struct jvalue *at;
    if (!v || v->type != JT_DICT || l->left-- <= 0)
        return TYPE_ALL;
    uint32_t types = schema_types_said(v);
    if ((at = jv_dict_get(v, "$ref")))
        types &= types_of(l, follow(l, at));
    if ((at = jv_dict_get(v, "allOf")))
        types &= types_of_all(l, at, false);
    if ((at = jv_dict_get(v, "anyOf")))
        types &= types_of_all(l, at, true);
    if ((at = jv_dict_get(v, "oneOf")))
        types &= types_of_all(l, at, true);
    return types;
}

uint32_t schema_types_of_member(const struct jvalue *root, const char *name, size_t n)
{
    struct look l = {.root = root, .left = MAX_STEPS};
    const struct jvalue *props = root ? jv_dict_get(root, "properties") : NULL;
    uint32_t types = types_of(&l, member(props, name, n));
    return types ? types : TYPE_ALL;
}
