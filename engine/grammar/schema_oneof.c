/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be said of two subschemas without reading them whole: that no value is admitted by both.
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
