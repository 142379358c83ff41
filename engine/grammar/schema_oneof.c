/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be said of two subschemas without reading them whole: that no value is admitted by both,
 * and what keeps a value of the one from the other.
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

/* x lies apart from all of y's alternatives, or from a part of y that must hold too. */
static bool differ_in_parts(struct schema *s, const struct jvalue *x, const struct jvalue *y,
                            int depth)
{
    static const char *const key[] = {"allOf", "anyOf", "oneOf"};
    for (size_t k = 0; k < 3; k++) {
        const struct jvalue *l = jv_dict_get(y, key[k]);
        size_t n = 0;
        for (size_t i = 0; l && l->type == JT_LIST && i < l->l->n && budget_tick(s->b, 4); i++)
            n += disjoint_at(s, x, &l->l->at[i], depth + 1);
        if (n > 0 && (k == 0 || n == l->l->n))
            return true;
    }
    return false;
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
    if (types == TYPE_OBJECT &&
        (differ_in_member(s, x, y, depth) || differ_in_member(s, y, x, depth)))
        return true;
    return differ_in_parts(s, x, y, depth) || differ_in_parts(s, y, x, depth);
}

bool schema_disjoint(struct schema *s, const struct jvalue *x, const struct jvalue *y)
{
    return disjoint_at(s, x, y, 0);
}

/* ---- alternatives of which one may hold ---------------------------------------------------- */

static const struct jvalue *must_have(struct schema *s, const struct jvalue *name)
{
    struct jvalue names = schema_list(s);
    schema_add(s, &names, *name);
    return schema_put(s, schema_dict(s), "required", names);
}

/* A member of both whose values differ; where it stands in x's value, y refuses it. */
static const struct jvalue *by_values(struct schema *s, const struct jvalue *x,
                                      const struct jvalue *y)
{
    const struct jvalue *p = jv_dict_get(x, "properties");
    for (size_t i = 0; p && p->type == JT_DICT && i < p->d->n && budget_tick(s->b, 4); i++) {
        const struct jvalue *py = prop(y, &p->d->key[i]);
        if (py && schema_disjoint(s, &p->d->val[i], py))
            return must_have(s, &p->d->key[i]);
    }
    return NULL;
}

/* A name that y requires and x does not speak of. */
static const struct jvalue *by_absence(struct schema *s, const struct jvalue *x,
                                       const struct jvalue *y)
{
    const struct jvalue *r = jv_dict_get(y, "required");
    for (size_t i = 0; r && r->type == JT_LIST && i < r->l->n; i++)
        if (!is_required(x, &r->l->at[i]) && !prop(x, &r->l->at[i]))
            return schema_put(s, schema_dict(s), SCHEMA_FORBID, r->l->at[i]);
    return NULL;
}

const struct jvalue *schema_apart(struct schema *s, const struct jvalue *x, const struct jvalue *y)
{
    const struct jvalue *a = real(s, x), *b = real(s, y), *how = NULL;
    if (a && b && a->type == JT_DICT && b->type == JT_DICT &&
        (schema_types_said(a) & schema_types_said(b)) == TYPE_OBJECT) {
        how = by_values(s, a, b);
        how = how ? how : by_absence(s, a, b);
    }
    return how ? how : schema_not(s, y);
}

/* Only alternatives, and remarks. */
static const struct jvalue *alternatives(const struct jvalue *v)
{
    const struct jvalue *found = NULL;
    for (size_t i = 0; v && v->type == JT_DICT && i < v->d->n; i++) {
        const struct jvalue *k = &v->d->key[i];
        if (jv_is_text(k, "oneOf") || jv_is_text(k, "anyOf")) {
            if (found || v->d->val[i].type != JT_LIST)
                return NULL;
            found = &v->d->val[i];
        } else if (!schema_is_remark(k->s->p)) {
            return NULL;
        }
    }
    return found;
}

static void flatten(struct schema *s, const struct jvalue *list, struct jvalue *out, int depth)
{
    for (size_t i = 0; i < list->l->n && budget_tick(s->b, 4); i++) {
        const struct jvalue *v = &list->l->at[i];
        const struct jvalue *inner =
            jv_dict_get(v, "$ref") && v->d->n == 1 ? alternatives(real(s, v)) : NULL;
        if (inner && depth < MAX_DEEP)
            flatten(s, inner, out, depth + 1);
        else
            schema_add(s, out, *v);
    }
}

struct jvalue schema_flat(struct schema *s, const struct jvalue *list)
{
    struct jvalue out = schema_list(s);
    flatten(s, list, &out, 0);
    return out;
}
