/* SPDX-License-Identifier: Apache-2.0
 *
 * A goal's subschemas read keyword by keyword. What leads to others that must hold too ($ref,
 * allOf) is read in the same way; of anyOf and its like each choice is a way of its own.
 */
#include <string.h>

#include "engine/grammar/schema.h"

enum { MAX_ONE_OF = 128 };

struct choice {
    const struct jvalue *list;
    const char *path;
    const struct part *from;
};

struct way {
    LIST(struct part) todo;
    LIST(const struct jvalue *) seen;
    LIST(struct choice) choice;
    struct facts f;
    bool is_dead;
};

struct reader {
    struct schema *s;
    struct way *w;
    const struct part *p;
};

static int more(struct reader *r, const struct jvalue *v, const char *path)
{
    return list_push(r->s->b, &r->w->todo, (struct part){v, path, r->p}) ? 0 : -1;
}

static int choose(struct reader *r, const struct jvalue *list, const char *path)
{
    return list_push(r->s->b, &r->w->choice, (struct choice){list, path, r->p}) ? 0 : -1;
}

/* ---- subschemas that the schema does not spell itself ---- */

static struct jvalue dict_of(struct schema *s, const char *key, struct jvalue v)
{
    return *schema_put(s, schema_dict(s), key, v);
}

static struct jvalue list_of(struct schema *s, struct jvalue x, struct jvalue y)
{
    struct jvalue l = schema_list(s);
    schema_add(s, &l, x);
    schema_add(s, &l, y);
    return l;
}

/* ---- keywords that lead to subschemas ---- */

static int follow_ref(struct reader *r, const struct jvalue *v)
{
    const char *path;
    const struct jvalue *target = schema_ref(r->s, v, r->p->path, &path);
    if (!target)
        return -1;
    for (const struct part *p = r->p; p; p = p->from)
        if (p->at == target)
            return schema_no(r->s, r->p->path, "$ref", "it leads back to itself");
    return more(r, target, path);
}

static int all_of(struct reader *r, const struct jvalue *v)
{
    if (v->type != JT_LIST)
        return schema_no(r->s, r->p->path, "allOf", "it must be a list of schemas");
    for (size_t i = v->l->n; i-- > 0;) /* the first is read first */
        if (more(r, &v->l->at[i], schema_path_at(r->s, r->p->path, "allOf", i)))
            return -1;
    return 0;
}

/* The i-th alternative, and none of the others that may hold with it; false: that cannot be said.
 */
static bool alone(struct reader *r, const struct jvalue *v, size_t i, struct jvalue *out)
{
    struct jvalue all = schema_list(r->s);
    schema_add(r->s, &all, v->l->at[i]);
    for (size_t k = 0; k < v->l->n && budget_tick(r->s->b, 16); k++) {
        if (k == i || schema_disjoint(r->s, &v->l->at[k], &v->l->at[i]))
            continue;
        const struct jvalue *no = schema_apart(r->s, &v->l->at[i], &v->l->at[k]);
        if (!no)
            return r->s->b->failed || budget_fail(r->s->b, ERR_UNSUPPORTED,
                                                  "%s/oneOf: alternatives %zu and %zu may both "
                                                  "hold: give them a required property whose "
                                                  "values differ, or write anyOf",
                                                  r->p->path, i, k) == 0;
        schema_add(r->s, &all, *no);
    }
    if (r->s->b->failed)
        return false;
    *out = all.l->n > 1 ? dict_of(r->s, SCHEMA_AND, all) : v->l->at[i];
    return true;
}

static int one_of(struct reader *r, const struct jvalue *v)
{
    struct jvalue *ways = BUDGET_NEW(r->s->b, struct jvalue), one;
    struct jvalue flat = schema_flat(r->s, v);
    if (r->s->b->failed)
        return -1;
    if (flat.l->n > MAX_ONE_OF)
        return schema_no(r->s, r->p->path, "oneOf", "more than 128 alternatives");
    v = &flat;
    *ways = schema_list(r->s);
    for (size_t i = 0; i < v->l->n; i++) {
        if (!alone(r, v, i, &one))
            return -1;
        schema_add(r->s, ways, one);
    }
    return r->s->b->failed ? -1 : choose(r, ways, schema_path(r->s, r->p->path, "oneOf", 5));
}

static int any_of(struct reader *r, const char *key, const struct jvalue *v)
{
    if (v->type != JT_LIST || v->l->n == 0)
        return schema_no(r->s, r->p->path, key, "it must be a list of schemas");
    return key[0] == 'o' ? one_of(r, v)
                         : choose(r, v, schema_path(r->s, r->p->path, key, strlen(key)));
}

/* All of a list that the schema does not spell itself: they stand where their holder does. */
static int all_here(struct reader *r, const struct jvalue *v)
{
    for (size_t i = v->l->n; i-- > 0;)
        if (more(r, &v->l->at[i], r->p->path))
            return -1;
    return 0;
}

static int negate(struct reader *r, const struct jvalue *v)
{
    const struct jvalue *n = schema_not(r->s, v);
    if (!n)
        return schema_no(r->s, r->p->path, "not",
                         "none of what it says has a negation that can be honoured");
    return more(r, n, schema_path(r->s, r->p->path, "not", 3));
}

static int choose_of(struct reader *r, struct jvalue x, struct jvalue y, const char *path)
{
    struct jvalue *ways = BUDGET_NEW(r->s->b, struct jvalue);
    *ways = list_of(r->s, x, y);
    return r->s->b->failed ? -1 : choose(r, ways, path);
}

/* (if and then) or (not if, and else) */
static int condition(struct reader *r, const struct jvalue *v)
{
    static const struct jvalue yes = {.type = JT_BOOL, .b = true};
    const struct jvalue *then = jv_dict_get(r->p->at, "then");
    const struct jvalue *otherwise = jv_dict_get(r->p->at, "else");
    if (!then && !otherwise)
        return 0;
    const struct jvalue *n = schema_not(r->s, v);
    if (!n)
        return schema_no(r->s, r->p->path, "if",
                         "none of what it says has a negation that can be honoured");
    struct jvalue a = dict_of(r->s, "allOf", list_of(r->s, *v, then ? *then : yes));
    struct jvalue b = dict_of(r->s, "allOf", list_of(r->s, *n, otherwise ? *otherwise : yes));
    return choose_of(r, a, b, schema_path(r->s, r->p->path, "if", 2));
}

/* Each: the name is not there, or what it asks holds. */
static int dependents(struct reader *r, const char *key, const struct jvalue *v)
{
    if (v->type != JT_DICT)
        return schema_no(r->s, r->p->path, key, "it must be an object");
    for (size_t i = 0; i < v->d->n && !r->s->b->failed; i++) {
        struct jvalue name = v->d->key[i], asks = v->d->val[i], names = schema_list(r->s);
        schema_add(r->s, &names, name);
        if (asks.type == JT_LIST)
            asks = dict_of(r->s, "required", asks);
        struct jvalue present =
            dict_of(r->s, "allOf", list_of(r->s, dict_of(r->s, "required", names), asks));
        choose_of(r, dict_of(r->s, SCHEMA_FORBID, name), present,
                  schema_path(r->s, r->p->path, key, strlen(key)));
    }
    return r->s->b->failed ? -1 : 0;
}

/* ---- members and items ---- */

static bool has_any(const struct jvalue *v, const char *const *key, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (jv_dict_get(v, key[i]))
            return true;
    return false;
}

static int add_object(struct reader *r)
{
    static const char *const in_place[] = {"$ref", "allOf", "anyOf",           "oneOf",
                                           "if",   "not",   "dependentSchemas"};
    const struct jvalue *at = r->p->at;
    struct object_fact o = {jv_dict_get(at, "properties"), jv_dict_get(at, "patternProperties"),
                            jv_dict_get(at, "additionalProperties"), r->p->path, false};
    const struct jvalue *asked = jv_dict_get(at, SCHEMA_MEMBERS);
    const struct jvalue *rest = jv_dict_get(at, "unevaluatedProperties");
    const struct jvalue *names = jv_dict_get(at, "propertyNames");
    if (rest && !o.others && !has_any(at, in_place, sizeof in_place / sizeof *in_place))
        o.others = rest;
    else if (rest && !(rest->type == JT_BOOL && rest->b))
        return schema_no(r->s, r->p->path, "unevaluatedProperties",
                         "beside other subschemas it cannot be honoured");
    if ((o.props && o.props->type != JT_DICT) || (o.patterns && o.patterns->type != JT_DICT))
        return schema_no(r->s, r->p->path,
                         o.props && o.props->type != JT_DICT ? "properties" : "patternProperties",
                         "it must be an object");
    if (names)
        list_push(r->s->b, &r->w->f.names,
                  (struct part){names, schema_path(r->s, r->p->path, "propertyNames", 13), NULL});
    if (asked && asked->type == JT_DICT)
        list_push(r->s->b, &r->w->f.object,
                  (struct object_fact){asked, NULL, NULL, r->p->path, true});
    if (o.props || o.patterns || o.others)
        list_push(r->s->b, &r->w->f.object, o);
    return r->s->b->failed ? -1 : 0;
}

static int add_array(struct reader *r)
{
    const struct jvalue *at = r->p->at;
    struct array_fact a = {jv_dict_get(at, "prefixItems"), jv_dict_get(at, "items"), r->p->path};
    if (a.items && a.items->type == JT_LIST) { /* as drafts before 2020 have it */
        a.prefix = a.items;
        a.items = jv_dict_get(at, "additionalItems");
    }
    if (a.prefix && a.prefix->type != JT_LIST)
        return schema_no(r->s, r->p->path, "prefixItems", "it must be a list of schemas");
    if (a.prefix || a.items)
        list_push(r->s->b, &r->w->f.array, a);
    return r->s->b->failed ? -1 : 0;
}

/* ---- one subschema ---- */

static int read_keyword(struct reader *r, const char *key, const struct jvalue *v)
{
    if (!strcmp(key, "$ref"))
        return follow_ref(r, v);
    if (!strcmp(key, "allOf"))
        return all_of(r, v);
    if (!strcmp(key, "anyOf") || !strcmp(key, "oneOf"))
        return any_of(r, key, v);
    if (!strcmp(key, "not"))
        return negate(r, v);
    if (!strcmp(key, "if"))
        return condition(r, v);
    if (!strncmp(key, "depend", 6))
        return dependents(r, key, v);
    if (!strcmp(key, SCHEMA_AND))
        return all_here(r, v);
    if (!strcmp(key, SCHEMA_FORBID))
        return list_push(r->s->b, &r->w->f.forbidden, v) ? 0 : -1;
    if (!strcmp(key, SCHEMA_VALUES)) {
        for (size_t i = 0; v->type == JT_LIST && i < v->l->n; i++)
            list_push(r->s->b, &r->w->f.no_value, &v->l->at[i]);
        return 0;
    }
    if (!strcmp(key, SCHEMA_PATTERN) && v->type == JT_STR) {
        list_push(r->s->b, &r->w->f.pattern,
                  (struct pattern_fact){v->s->p, v->s->len, true, false, r->p->path});
        return 0;
    }
    if (!strcmp(key, "then") || !strcmp(key, "else") || !strcmp(key, "nullable") ||
        !strcmp(key, "unevaluatedProperties") || !strcmp(key, SCHEMA_MEMBERS))
        return 0;
    return schema_keyword(r->s, &r->w->f, r->p, key, v) < 0 ? -1 : 0;
}

static int read_part(struct schema *s, struct way *w, struct part part)
{
    struct part *p = BUDGET_NEW(s->b, struct part);
    struct reader r = {s, w, p};
    *p = part;
    if (p->at->type == JT_BOOL) {
        w->is_dead |= !p->at->b;
        return 0;
    }
    if (p->at->type != JT_DICT)
        return budget_fail(s->b, ERR_BAD_INPUT, "%s must be an object, true or false", p->path);
    for (uint32_t i = 0; i < w->seen.n; i++)
        if (w->seen.at[i] == p->at)
            return 0;
    list_push(s->b, &w->seen, p->at);
    w->f.path = w->f.path ? w->f.path : p->path;
    for (size_t i = 0; i < p->at->d->n && budget_tick(s->b, 1); i++) {
        const struct jvalue *k = &p->at->d->key[i];
        const char *key = arena_strndup(&s->b->arena, k->s->p, k->s->len);
        if (strlen(key) != k->s->len) /* a NUL in it: no keyword has one */
            continue;
        if (read_keyword(&r, key, &p->at->d->val[i]))
            return -1;
    }
    return add_object(&r) || add_array(&r) ? -1 : 0;
}

/* ---- all ways ---- */

/* Lists of a copy must not grow into those of the original. */
#define UNSHARE(list) ((list).cap = (list).n)

static struct way way_copy(const struct way *from)
{
    struct way w = *from;
    UNSHARE(w.todo), UNSHARE(w.seen), UNSHARE(w.choice);
    UNSHARE(w.f.value), UNSHARE(w.f.no_value), UNSHARE(w.f.pattern), UNSHARE(w.f.array);
    UNSHARE(w.f.object), UNSHARE(w.f.required), UNSHARE(w.f.forbidden), UNSHARE(w.f.names);
    return w;
}

int schema_facts(struct schema *s, const struct goal *g, facts_list *out)
{
    LIST(struct way) way = {0};
    struct way first = {.f = {.types = TYPE_ALL,
                              .max_len = UINT32_MAX,
                              .max_items = UINT32_MAX,
                              .max_props = UINT32_MAX}};
    for (uint32_t i = 0; i < g->part.n; i++)
        list_push(s->b, &first.todo, g->part.at[i]);
    list_push(s->b, &way, first);
    for (uint32_t n_way = 1; way.n > 0 && budget_tick(s->b, 1);) {
        struct way w = way.at[--way.n];
        while (w.todo.n > 0 && !w.is_dead && !s->b->failed) {
            struct part p = w.todo.at[--w.todo.n];
            read_part(s, &w, p);
        }
        if (w.is_dead || s->b->failed)
            continue;
        if (w.choice.n == 0) {
            list_push(s->b, out, w.f);
            continue;
        }
        struct choice c = w.choice.at[--w.choice.n];
        n_way += (uint32_t)c.list->l->n - 1;
        if (n_way > SCHEMA_MAX_WAYS)
            return budget_fail(s->b, ERR_TOO_LARGE, "%s: more than %d combinations of alternatives",
                               c.path, SCHEMA_MAX_WAYS);
        for (size_t i = c.list->l->n; i-- > 0;) { /* the first is read first */
            struct way copy = way_copy(&w);
            list_push(s->b, &copy.todo,
                      (struct part){&c.list->l->at[i], schema_path_at(s, c.path, "", i), c.from});
            list_push(s->b, &way, copy);
        }
    }
    return s->b->failed ? -1 : 0;
}
