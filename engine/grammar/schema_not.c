/* SPDX-License-Identifier: Apache-2.0
 *
 * What a subschema does not admit, as a subschema: one way for each of its keywords whose negation
 * can be said. A keyword without one has no way, so that the ways are a part of what is not
 * admitted, never more; of many ways the first ones are enough. Each is made once: a schema that
 * leads to itself has no end otherwise.
 */
#include <math.h>
#include <string.h>

#include "engine/grammar/schema.h"

enum { MAX_DEEP = 64, MAX_SUM = 16, MAX_PRODUCT = 64 };

struct jvalue *schema_dict(struct schema *s)
{
    struct jvalue *d = BUDGET_NEW(s->b, struct jvalue);
    struct err e = ERR_INIT;
    if (jv_dict(&s->b->arena, d, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
    return d;
}

struct jvalue schema_list(struct schema *s)
{
    struct jvalue l = jv_none();
    struct err e = ERR_INIT;
    if (jv_list(&s->b->arena, &l, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
    return l;
}

static struct jvalue text(struct schema *s, const char *t)
{
    struct jvalue v = jv_none();
    struct err e = ERR_INIT;
    if (jv_str_view(&s->b->arena, t, strlen(t), &v, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
    return v;
}

struct jvalue *schema_put(struct schema *s, struct jvalue *d, const char *key, struct jvalue v)
{
    struct jvalue k = text(s, key);
    struct err e = ERR_INIT;
    if (!s->b->failed && jdict_put(&s->b->arena, d->d, k, v, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
    return d;
}

void schema_add(struct schema *s, struct jvalue *list, struct jvalue v)
{
    struct err e = ERR_INIT;
    if (!s->b->failed && jv_list_add(&s->b->arena, list, v, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
}

static const struct jvalue *only_type(struct schema *s, const char *name, const char *key,
                                      struct jvalue v)
{
    struct jvalue *d = schema_dict(s);
    schema_put(s, d, "type", text(s, name));
    return schema_put(s, d, key, v);
}

/* Of what is no integer, the numbers are left out. */
static const struct jvalue *not_type(struct schema *s, const struct jvalue *v)
{
    static const char *const name[] = {"null", "boolean", "number", "string", "array", "object"};
    struct jvalue left = schema_list(s);
    uint32_t types = 0;
    for (size_t i = 0; i < (v->type == JT_LIST ? v->l->n : 1); i++)
        types |= schema_type_named(v->type == JT_LIST ? &v->l->at[i] : v);
    for (uint32_t i = 0; i < 6; i++)
        if (!(types >> i & 1))
            schema_add(s, &left, text(s, name[i]));
    return types && left.type == JT_LIST && left.l->n ? schema_put(s, schema_dict(s), "type", left)
                                                      : NULL;
}

static const struct jvalue *without(struct schema *s, const struct jvalue *name)
{
    return only_type(s, "object", SCHEMA_FORBID, *name);
}

/* One of the names is there, and its value is not as asked. */
static const struct jvalue *not_members(struct schema *s, const struct jvalue *props)
{
    struct jvalue ways = schema_list(s);
    for (size_t i = 0; props->type == JT_DICT && i < props->d->n && budget_tick(s->b, 1); i++) {
        const struct jvalue *no = schema_not(s, &props->d->val[i]);
        struct jvalue names = schema_list(s), *member = schema_dict(s), *one = schema_dict(s);
        struct err e = ERR_INIT;
        if (!no || s->b->failed)
            continue;
        schema_add(s, &names, props->d->key[i]);
        if (jdict_put(&s->b->arena, one->d, props->d->key[i], *no, &e))
            budget_fail(s->b, e.code, "%s", e.msg);
        schema_put(s, member, "type", text(s, "object"));
        schema_put(s, member, "required", names);
        schema_put(s, member, SCHEMA_MEMBERS, *one);
        schema_add(s, &ways, *member);
    }
    return !s->b->failed && ways.l->n ? schema_put(s, schema_dict(s), "anyOf", ways) : NULL;
}

static const struct jvalue *not_required(struct schema *s, const struct jvalue *names)
{
    struct jvalue ways = schema_list(s);
    for (size_t i = 0; names->type == JT_LIST && i < names->l->n && !s->b->failed; i++)
        schema_add(s, &ways, *without(s, &names->l->at[i]));
    return !s->b->failed && ways.l->n ? schema_put(s, schema_dict(s), "anyOf", ways) : NULL;
}

/* In how many ways it can be met, of those that are combined with others'. */
static uint32_t n_ways(const struct jvalue *v)
{
    const struct jvalue *any = jv_dict_get(v, "anyOf"), *all = jv_dict_get(v, "allOf");
    uint32_t n = any ? 0 : 1;
    for (size_t i = 0; any && any->type == JT_LIST && i < any->l->n; i++)
        n += n_ways(&any->l->at[i]);
    for (size_t i = 0; all && all->type == JT_LIST && i < all->l->n && n < SCHEMA_MAX_WAYS; i++)
        n *= n_ways(&all->l->at[i]);
    return n;
}

/* Ways multiply; where they are too many, the first stands for all of one. */
static const struct jvalue *first_way(const struct jvalue *v)
{
    const struct jvalue *any;
    while ((any = jv_dict_get(v, "anyOf")) && any->type == JT_LIST && any->l->n)
        v = &any->l->at[0];
    return v;
}

/* Of allOf, one that does not hold; of anyOf and oneOf, none that does. */
static const struct jvalue *not_list(struct schema *s, const struct jvalue *of, bool is_all)
{
    struct jvalue left = schema_list(s);
    uint32_t n = 1;
    for (size_t i = 0; of->type == JT_LIST && i < of->l->n && budget_tick(s->b, 1); i++) {
        const struct jvalue *no = schema_not(s, &of->l->at[i]);
        if (!no && !is_all)
            return NULL;
        if (!is_all && n * n_ways(no) > MAX_PRODUCT)
            no = first_way(no);
        n *= is_all ? 1 : n_ways(no);
        if (no)
            schema_add(s, &left, *no);
    }
    if (s->b->failed || of->type != JT_LIST || left.l->n == 0)
        return NULL;
    return schema_put(s, schema_dict(s), is_all ? "anyOf" : "allOf", left);
}

/* The bound that begins where the other ends. */
static const struct jvalue *not_bound(struct schema *s, const char *key, const struct jvalue *v)
{
    static const struct {
        const char *key, *other, *type;
        int step; /* of counts */
    } row[] = {{"minimum", "exclusiveMaximum", "number", 0},
               {"maximum", "exclusiveMinimum", "number", 0},
               {"exclusiveMinimum", "maximum", "number", 0},
               {"exclusiveMaximum", "minimum", "number", 0},
               {"minLength", "maxLength", "string", -1},
               {"maxLength", "minLength", "string", 1},
               {"minItems", "maxItems", "array", -1},
               {"maxItems", "minItems", "array", 1},
               {"minProperties", "maxProperties", "object", -1},
               {"maxProperties", "minProperties", "object", 1}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (strcmp(key, row[i].key))
            continue;
        if (v->type != JT_INT && (v->type != JT_FLOAT || row[i].step))
            return NULL;
        if (row[i].step && (v->i < (row[i].step < 0) || v->i > INT32_MAX))
            return NULL;
        return only_type(s, row[i].type, row[i].other,
                         row[i].step ? jv_int(v->i + row[i].step) : *v);
    }
    return NULL;
}

static const struct jvalue *not_keyword(struct schema *s, const char *key, const struct jvalue *v)
{
    struct jvalue one = schema_list(s);
    if (s->b->failed)
        return NULL;
    if (!strcmp(key, "$ref")) {
        const char *path;
        const struct jvalue *target = schema_ref(s, v, "#", &path);
        return target ? schema_not(s, target) : NULL;
    }
    if (!strcmp(key, "type"))
        return not_type(s, v);
    if (!strcmp(key, "const")) {
        schema_add(s, &one, *v);
        return schema_put(s, schema_dict(s), SCHEMA_VALUES, one);
    }
    if (!strcmp(key, "enum"))
        return v->type == JT_LIST ? schema_put(s, schema_dict(s), SCHEMA_VALUES, *v) : NULL;
    if (!strcmp(key, "pattern"))
        return only_type(s, "string", SCHEMA_PATTERN, *v);
    if (!strcmp(key, "required"))
        return not_required(s, v);
    if (!strcmp(key, "properties"))
        return not_members(s, v);
    if (!strcmp(key, "not")) {
        schema_add(s, &one, *v);
        return schema_put(s, schema_dict(s), "allOf", one);
    }
    if (!strcmp(key, "allOf") || !strcmp(key, "anyOf") || !strcmp(key, "oneOf"))
        return not_list(s, v, key[1] == 'l');
    return not_bound(s, key, v);
}

static const struct jvalue *negated(struct schema *s, const struct jvalue *v)
{
    static const struct jvalue no = {.type = JT_BOOL, .b = false};
    if (v->type == JT_BOOL) {
        struct jvalue *b = BUDGET_NEW(s->b, struct jvalue);
        *b = jv_bool(!v->b);
        return b;
    }
    if (v->type != JT_DICT || jv_dict_get(v, "nullable"))
        return NULL;
    struct jvalue ways = schema_list(s);
    size_t n_remark = 0;
    uint32_t n = 0;
    for (size_t i = 0; i < v->d->n && budget_tick(s->b, 1); i++) {
        const struct jstr *k = v->d->key[i].s;
        const char *key = arena_strndup(&s->b->arena, k->p, k->len);
        const struct jvalue *one =
            schema_is_remark(key) ? NULL : not_keyword(s, key, &v->d->val[i]);
        n_remark += schema_is_remark(key);
        n += one ? n_ways(one) : 0;
        if (one && (n <= MAX_SUM || ways.l->n == 0))
            schema_add(s, &ways, *one);
    }
    if (s->b->failed)
        return NULL;
    if (n_remark == v->d->n)
        return &no;
    return ways.l->n ? schema_put(s, schema_dict(s), "anyOf", ways) : NULL;
}

const struct jvalue *schema_not(struct schema *s, const struct jvalue *v)
{
    static const struct jvalue open = {.type = JT_NONE}; /* begun, or nothing can be said of it */
    const struct jvalue *known = map_get(&s->nots, &v, sizeof v);
    if (known || s->n_not >= MAX_DEEP || s->b->failed)
        return known == &open ? NULL : known;
    budget_charge(s->b, sizeof v + 64);
    map_put(&s->nots, &v, sizeof v, (void *)(uintptr_t)&open);
    s->n_not++;
    const struct jvalue *n = negated(s, v);
    s->n_not--;
    if (n)
        map_put(&s->nots, &v, sizeof v, (void *)(uintptr_t)n);
    return n;
}
