/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a $ref points: "#", "#/path/in/the/schema" (a JSON pointer), or "#name" of an $anchor.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/schema.h"

enum { MAX_REF = 2000 };

static int hex(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
                                        : -1;
}

/* One step of a pointer, up to '/' or the end: %25, ~0 and ~1 are read. */
static size_t read_step(const char **p, const char *end, char *out)
{
    size_t n = 0;
    for (; *p < end && **p != '/'; ++*p) {
        char c = **p;
        if (c == '%' && end - *p > 2 && hex((*p)[1]) >= 0 && hex((*p)[2]) >= 0) {
            c = (char)(hex((*p)[1]) * 16 + hex((*p)[2]));
            *p += 2;
        }
        if (c == '~' && end - *p > 1 && ((*p)[1] == '0' || (*p)[1] == '1')) {
            c = (*p)[1] == '0' ? '~' : '/';
            ++*p;
        }
        out[n++] = c;
    }
    out[n] = 0;
    return n;
}

static const struct jvalue *step_to(struct budget *b, const struct jvalue *v, const char *step,
                                    size_t len)
{
    struct jvalue key;
    char *end;
    if (v->type == JT_DICT)
        return jv_str_view(&b->arena, step, len, &key, &b->err) ? NULL : jdict_get(v->d, &key);
    unsigned long i = strtoul(step, &end, 10);
    return v->type == JT_LIST && len && !*end && i < v->l->n ? &v->l->at[i] : NULL;
}

/* Values that a schema only speaks of; what looks like a keyword in them is none. */
static bool is_said(const struct jvalue *key)
{
    return jv_is_text(key, "const") || jv_is_text(key, "enum") || jv_is_text(key, "default") ||
           jv_is_text(key, "examples");
}

static const struct jvalue *find_anchor(struct schema *s, const char *name, size_t len)
{
    LIST(const struct jvalue *) todo = {0};
    list_push(s->b, &todo, s->root);
    while (todo.n > 0 && budget_tick(s->b, 1)) {
        const struct jvalue *v = todo.at[--todo.n];
        const struct jvalue *a = jv_dict_get(v, "$anchor");
        if (a && a->type == JT_STR && a->s->len == len && !memcmp(a->s->p, name, len))
            return v;
        for (size_t i = 0; v->type == JT_DICT && i < v->d->n; i++)
            if (!is_said(&v->d->key[i]))
                list_push(s->b, &todo, &v->d->val[i]);
        for (size_t i = 0; v->type == JT_LIST && i < v->l->n; i++)
            list_push(s->b, &todo, &v->l->at[i]);
    }
    return NULL;
}

struct place {
    const struct jvalue *at;
    const char *path;
    bool is_below; /* a subschema with a name of its own */
};

static bool is_string(const struct jvalue *v)
{
    return v && v->type == JT_STR;
}

static bool has_own_name(const struct schema *s, const struct jvalue *v)
{
    const struct jvalue *id = v == s->root ? NULL : jv_dict_get(v, "$id");
    return is_string(id) && id->s->len && *id->s->p != '#';
}

/* Names of subschemas change what is meant by the references below them; few schemas have any. */
static bool has_ids(struct schema *s)
{
    LIST(const struct jvalue *) todo = {0};
    list_push(s->b, &todo, s->root);
    while (todo.n > 0 && budget_tick(s->b, 1)) {
        const struct jvalue *v = todo.at[--todo.n];
        if (has_own_name(s, v))
            return true;
        for (size_t i = 0; v->type == JT_DICT && i < v->d->n; i++)
            if (v->d->val[i].type == JT_DICT || v->d->val[i].type == JT_LIST)
                list_push(s->b, &todo, &v->d->val[i]);
        for (size_t i = 0; v->type == JT_LIST && i < v->l->n; i++)
            list_push(s->b, &todo, &v->l->at[i]);
    }
    return false;
}

void schema_check_ids(struct schema *s)
{
    LIST(struct place) todo = {0};
    if (!has_ids(s))
        return;
    list_push(s->b, &todo, (struct place){s->root, "#", false});
    while (todo.n > 0 && budget_tick(s->b, 1)) {
        struct place p = todo.at[--todo.n];
        const struct jvalue *v = p.at, *ref = jv_dict_get(v, "$ref");
        bool is_below = p.is_below || has_own_name(s, v);
        if (is_below && is_string(ref)) {
            schema_no(s, p.path, "$ref", "below an $id of its own it cannot be followed");
            return;
        }
        for (size_t i = 0; v->type == JT_DICT && i < v->d->n; i++) {
            const struct jvalue *key = &v->d->key[i], *at = &v->d->val[i];
            if (!is_said(key) && (at->type == JT_DICT || at->type == JT_LIST))
                list_push(
                    s->b, &todo,
                    (struct place){at, schema_path(s, p.path, key->s->p, key->s->len), is_below});
        }
        for (size_t i = 0; v->type == JT_LIST && i < v->l->n; i++)
            if (v->l->at[i].type == JT_DICT)
                list_push(s->b, &todo,
                          (struct place){&v->l->at[i], schema_path_at(s, p.path, "", i), is_below});
    }
}

static const struct jvalue *not_found(struct schema *s, const struct jvalue *ref, const char *path,
                                      const char *why)
{
    budget_fail(s->b, ERR_BAD_INPUT, "%s/$ref: %.*s %s", path,
                (int)(ref->s->len < 80 ? ref->s->len : 80), ref->s->p, why);
    return NULL;
}

const struct jvalue *schema_ref(struct schema *s, const struct jvalue *ref, const char *path,
                                const char **target_path)
{
    if (ref->type != JT_STR || ref->s->len > MAX_REF) {
        budget_fail(s->b, ERR_BAD_INPUT, "%s/$ref must be a string of at most %d bytes", path,
                    MAX_REF);
        return NULL;
    }
    const char *p = ref->s->p, *end = p + ref->s->len;
    const struct jvalue *v = s->root;
    if (p == end || *p != '#')
        return not_found(s, ref, path, "lies outside of the schema; only #... can be followed");
    *target_path = arena_strndup(&s->b->arena, p, ref->s->len);
    p++;
    if (p < end && *p != '/') {
        v = find_anchor(s, p, (size_t)(end - p));
        return v ? v : not_found(s, ref, path, "names no $anchor of the schema");
    }
    char *step = budget_alloc(s->b, ref->s->len + 1, 1);
    while (p < end && v && !s->b->failed) {
        p++;
        size_t len = read_step(&p, end, step);
        v = step_to(s->b, v, arena_strndup(&s->b->arena, step, len), len);
    }
    return v ? v : not_found(s, ref, path, "names nothing in the schema");
}
