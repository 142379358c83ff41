/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be said of subschemas without reading them whole: that no value is admitted by both of
 * two, and what one does not admit.
 */
#include <string.h>

#include "engine/grammar/schema.h"

enum { MAX_DEEP = 8 };

static const struct jvalue *real(struct schema *s, const struct jvalue *v)
{
    const char *path;
    for (int i = 0; i < MAX_DEEP && v && v->type == JT_DICT && jv_dict_get(v, "$ref"); i++)
        v = schema_ref(s, jv_dict_get(v, "$ref"), "#", &path);
    return v;
}

static bool differ_in_values(const struct jvalue *x, const struct jvalue *y)
{
    const struct jvalue *a, *b;
    size_t na = schema_listed(x, &a), nb = schema_listed(y, &b);
    for (size_t i = 0; i < na; i++)
        for (size_t k = 0; k < nb; k++)
            if (json_text_same(&a[i], &b[k]))
                return false;
    return na && nb;
}

static bool is_required(const struct jvalue *v, const struct jvalue *name)
{
    const struct jvalue *r = jv_dict_get(v, "required");
    for (size_t i = 0; r && r->type == JT_LIST && i < r->l->n; i++)
        if (json_text_same(&r->l->at[i], name))
            return true;
    return false;
}

static const struct jvalue *prop(const struct jvalue *v, const struct jvalue *name)
{
    const struct jvalue *p = jv_dict_get(v, "properties");
    return p && p->type == JT_DICT && name->type == JT_STR ? jdict_get(p->d, name) : NULL;
}

static bool is_closed_to(const struct jvalue *v, const struct jvalue *name)
{
    const struct jvalue *a = jv_dict_get(v, "additionalProperties"), *p = prop(v, name);
    if (p)
        return p->type == JT_BOOL && !p->b;
    return a && a->type == JT_BOOL && !a->b && !jv_dict_get(v, "patternProperties");
}

static bool disjoint_at(struct schema *s, const struct jvalue *x, const struct jvalue *y,
                        int depth);

/* A name that x requires and y has no place for, or has other values for. */
static bool differ_in_member(struct schema *s, const struct jvalue *x, const struct jvalue *y,
                             int depth)
{
    const struct jvalue *r = jv_dict_get(x, "required");
    for (size_t i = 0; r && r->type == JT_LIST && i < r->l->n && budget_tick(s->b, 4); i++) {
        const struct jvalue *name = &r->l->at[i], *px = prop(x, name), *py = prop(y, name);
        if (is_closed_to(y, name))
            return true;
        if (px && py && is_required(y, name) && disjoint_at(s, px, py, depth + 1))
            return true;
    }
    return false;
}

static bool number_of(const struct jvalue *v, const char *key, double *f)
{
    const struct jvalue *n = jv_dict_get(v, key);
    *f = n && n->type == JT_INT ? (double)n->i : n && n->type == JT_FLOAT ? n->f : 0;
    return n && (n->type == JT_INT || n->type == JT_FLOAT);
}

/* All of x lies below all of y in what the keywords bound. */
static bool lies_below(const struct jvalue *x, const struct jvalue *y, const char *max,
                       const char *min)
{
    double a, b;
    return number_of(x, max, &a) && number_of(y, min, &b) && a < b;
}

static bool below(const struct jvalue *x, const struct jvalue *y, uint32_t types)
{
    switch (types) {
    case TYPE_NUMBER:
        return lies_below(x, y, "maximum", "minimum") ||
               lies_below(x, y, "maximum", "exclusiveMinimum") ||
               lies_below(x, y, "exclusiveMaximum", "minimum");
    case TYPE_STRING:
        return lies_below(x, y, "maxLength", "minLength");
    case TYPE_ARRAY:
        return lies_below(x, y, "maxItems", "minItems");
    default:
        return false;
    }
}

static bool disjoint_at(struct schema *s, const struct jvalue *x, const struct jvalue *y, int depth)
{
    x = real(s, x);
    y = real(s, y);
    if (!x || !y || depth > MAX_DEEP)
        return false;
    if ((x->type == JT_BOOL && !x->b) || (y->type == JT_BOOL && !y->b))
        return true;
    if (x->type != JT_DICT || y->type != JT_DICT)
        return false;
    uint32_t types = schema_types_said(x) & schema_types_said(y);
    if (!types || differ_in_values(x, y) || below(x, y, types) || below(y, x, types))
        return true;
    return types == TYPE_OBJECT &&
           (differ_in_member(s, x, y, depth) || differ_in_member(s, y, x, depth));
}

bool schema_disjoint(struct schema *s, const struct jvalue *x, const struct jvalue *y)
{
    return disjoint_at(s, x, y, 0);
}

/* ---- negation ---- */

static struct jvalue *dict_new(struct schema *s)
{
    struct jvalue *d = BUDGET_NEW(s->b, struct jvalue);
    struct err e = ERR_INIT;
    if (jv_dict(&s->b->arena, d, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
    return d;
}

static const struct jvalue *put(struct schema *s, struct jvalue *d, const char *key,
                                struct jvalue v)
{
    struct err e = ERR_INIT;
    if (!s->b->failed && jv_dict_put(&s->b->arena, d, key, strlen(key), v, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
    return d;
}

static struct jvalue list_new(struct schema *s)
{
    struct jvalue l = jv_none();
    struct err e = ERR_INIT;
    if (jv_list(&s->b->arena, &l, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
    return l;
}

static void add(struct schema *s, struct jvalue *l, struct jvalue v)
{
    struct err e = ERR_INIT;
    if (!s->b->failed && jv_list_add(&s->b->arena, l, v, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
}

static struct jvalue text(struct schema *s, const char *t)
{
    struct jvalue v = jv_none();
    struct err e = ERR_INIT;
    if (jv_str_view(&s->b->arena, t, strlen(t), &v, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
    return v;
}

static const struct jvalue *only_type(struct schema *s, const char *name, const char *key,
                                      struct jvalue v)
{
    struct jvalue *d = dict_new(s);
    put(s, d, "type", text(s, name));
    return put(s, d, key, v);
}

static const struct jvalue *not_type(struct schema *s, const struct jvalue *v)
{
    static const char *const name[] = {"null", "boolean", "number", "string", "array", "object"};
    struct jvalue left = list_new(s);
    uint32_t types = 0;
    for (size_t i = 0; i < (v->type == JT_LIST ? v->l->n : 1); i++) {
        const struct jvalue *t = v->type == JT_LIST ? &v->l->at[i] : v;
        if (jv_is_text(t, "integer"))
            return NULL;
        types |= schema_type_named(t);
    }
    for (uint32_t i = 0; i < 6; i++)
        if (!(types >> i & 1))
            add(s, &left, text(s, name[i]));
    if (left.type != JT_LIST || left.l->n == 0)
        return NULL;
    return put(s, dict_new(s), "type", left);
}

/* Not (k is there and its value is as asked), where the schema speaks of one member alone. */
static const struct jvalue *not_member(struct schema *s, const struct jvalue *v)
{
    const struct jvalue *p = jv_dict_get(v, "properties"), *r = jv_dict_get(v, "required");
    if (!p || p->type != JT_DICT || p->d->n != 1)
        return NULL;
    const struct jvalue *name = &p->d->key[0], *no = schema_not(s, &p->d->val[0]);
    if (!no || (r && (r->type != JT_LIST || r->l->n != 1 || !json_text_same(&r->l->at[0], name))))
        return NULL;
    struct jvalue names = list_new(s), ways = list_new(s), *member = dict_new(s), *props;
    add(s, &names, *name);
    props = dict_new(s);
    struct err e = ERR_INIT;
    if (!s->b->failed && jdict_put(&s->b->arena, props->d, *name, *no, &e))
        budget_fail(s->b, e.code, "%s", e.msg);
    put(s, member, "type", text(s, "object"));
    put(s, member, "required", names);
    put(s, member, "\001members", *props);
    add(s, &ways, *member);
    if (r)
        add(s, &ways, *only_type(s, "object", "\001forbid", *name));
    return put(s, dict_new(s), "anyOf", ways);
}

static size_t n_asked(const struct jvalue *v)
{
    static const char *const remark[] = {"title", "description", "$comment"};
    size_t n = v->d->n;
    for (size_t i = 0; i < 3; i++)
        n -= jv_dict_get(v, remark[i]) != NULL;
    return n;
}

const struct jvalue *schema_not(struct schema *s, const struct jvalue *v)
{
    static const struct jvalue no = {.type = JT_BOOL, .b = false};
    const struct jvalue *k;
    v = real(s, v);
    if (!v || (v->type != JT_DICT && v->type != JT_BOOL))
        return NULL;
    if (v->type == JT_BOOL) {
        struct jvalue *b = BUDGET_NEW(s->b, struct jvalue);
        *b = jv_bool(!v->b);
        return b;
    }
    size_t n = n_asked(v);
    bool is_object = (k = jv_dict_get(v, "type")) && jv_is_text(k, "object");
    if (n == 0)
        return &no;
    if (jv_dict_get(v, "properties") && n == 1u + is_object + !!jv_dict_get(v, "required") &&
        !is_object)
        return not_member(s, v);
    if (n != 1)
        return NULL;
    if ((k = jv_dict_get(v, "type")))
        return not_type(s, k);
    if ((k = jv_dict_get(v, "const"))) {
        struct jvalue one = list_new(s);
        add(s, &one, *k);
        return put(s, dict_new(s), "\001values", one);
    }
    if ((k = jv_dict_get(v, "enum")))
        return k->type == JT_LIST ? put(s, dict_new(s), "\001values", *k) : NULL;
    if ((k = jv_dict_get(v, "pattern")))
        return only_type(s, "string", "\001pattern", *k);
    if ((k = jv_dict_get(v, "required")) && k->type == JT_LIST && k->l->n == 1)
        return only_type(s, "object", "\001forbid", k->l->at[0]);
    if ((k = jv_dict_get(v, "not"))) {
        struct jvalue one = list_new(s);
        add(s, &one, *k);
        return put(s, dict_new(s), "allOf", one);
    }
    if ((k = jv_dict_get(v, "anyOf")) && k->type == JT_LIST) {
        struct jvalue all = list_new(s);
        for (size_t i = 0; i < k->l->n && !s->b->failed; i++) {
            const struct jvalue *one = schema_not(s, &k->l->at[i]);
            if (!one)
                return NULL;
            add(s, &all, *one);
        }
        return put(s, dict_new(s), "allOf", all);
    }
    return NULL;
}
