/* SPDX-License-Identifier: Apache-2.0
 *
 * Keywords that say something of a value, into facts. Each row checks what it is given, and says
 * with its path what it cannot honour.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "engine/grammar/schema.h"

enum { MAX_COUNT = 1 << 30 };

static bool is_number(const struct jvalue *v)
{
    return v->type == JT_INT || v->type == JT_FLOAT;
}

static int wants(struct schema *s, const struct part *p, const char *key, const char *what)
{
    return budget_fail(s->b, ERR_BAD_INPUT, "%s/%s must be %s", p->path, key, what);
}

/* ---- types and values ---- */

static uint32_t type_of_name(const struct jvalue *v, bool *is_integer)
{
    static const struct {
        const char *name;
        uint32_t type;
    } row[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOL}, {"number", TYPE_NUMBER},
               {"string", TYPE_STRING}, {"array", TYPE_ARRAY},  {"object", TYPE_OBJECT},
               {"integer", TYPE_NUMBER}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (jv_is_text(v, row[i].name)) {
            *is_integer = i == sizeof row / sizeof *row - 1;
            return row[i].type;
        }
    return 0;
}

static int set_type(struct schema *s, struct facts *f, const struct part *p, const struct jvalue *v)
{
    bool is_integer = false, some_integer = false, some_number = false;
    uint32_t types = 0;
    for (size_t i = 0; i < (v->type == JT_LIST ? v->l->n : 1); i++) {
        uint32_t t = type_of_name(v->type == JT_LIST ? &v->l->at[i] : v, &is_integer);
        if (!t)
            return wants(s, p, "type",
                         "one or a list of null, boolean, number, integer, string, array, object");
        types |= t;
        const struct jvalue *nullable = jv_dict_get(p->at, "nullable"); /* OpenAPI 3.0 */
        types |= nullable && nullable->type == JT_BOOL && nullable->b ? TYPE_NULL : 0;
        some_integer |= is_integer;
        some_number |= t == TYPE_NUMBER && !is_integer;
    }
    f->types &= types;
    if (some_integer && !some_number)
        f->number.is_integer = true;
    return 0;
}

static int set_values(struct schema *s, struct facts *f, const struct jvalue *at, size_t n)
{
    LIST(const struct jvalue *) both = {0};
    for (size_t i = 0; i < n && budget_tick(s->b, 1); i++) {
        bool is_in = !f->has_values;
        for (uint32_t k = 0; k < f->value.n && !is_in && budget_tick(s->b, 1); k++)
            is_in = json_text_same(f->value.at[k], &at[i]);
        if (is_in)
            list_push(s->b, &both, &at[i]);
    }
    f->has_values = true;
    f->value.at = both.at;
    f->value.n = both.n;
    f->value.cap = both.cap;
    return s->b->failed ? -1 : 0;
}

/* ---- counts ---- */

static int set_count(struct schema *s, const struct part *p, const char *key,
                     const struct jvalue *v, uint32_t *count, bool is_max)
{
    double n = v->type == JT_INT ? (double)v->i : v->type == JT_FLOAT ? v->f : -1;
    if (n < 0 || n != floor(n))
        return wants(s, p, key, "a whole number of 0 or more");
    if (n > MAX_COUNT && !is_max)
        return wants(s, p, key, "at most 1073741824");
    uint32_t c = n > MAX_COUNT ? UINT32_MAX : (uint32_t)n;
    *count = is_max ? (c < *count ? c : *count) : c > *count ? c : *count;
    return 0;
}

/* ---- texts ---- */

/* Where the group that begins at `at` ends; 0: it does not. *is_split: there is a | outside of all
 * groups from there on. */
static size_t group_end(const char *text, size_t len, size_t at, bool *is_split)
{
    size_t end = 0;
    int depth = 0;
    bool in_class = false;
    *is_split = false;
    for (size_t i = at; i < len; i++) {
        if (text[i] == '\\')
            i++;
        else if (in_class)
            in_class = text[i] != ']';
        else if (text[i] == '[')
            in_class = true;
        else if (text[i] == '(')
            depth++;
        else if (text[i] == ')' && --depth == 0 && !end)
            end = i + 1;
        else if (text[i] == '|' && depth == 0)
            *is_split = true;
    }
    return end;
}

/* What is looked for ahead of the very beginning is a pattern of its own, to be found there or not:
 * ^(?=.*\d)(?!no).+ is ^(.*\d), no ^(no), and ^.+ */
static int add_pattern(struct schema *s, struct facts *f, const struct part *p, const char *key,
                       const char *text, size_t len)
{
    const char *path = schema_path(s, p->path, key, strlen(key));
    size_t at = 1, end;
    bool is_split;
    while (len > at + 3 && *text == '^' && text[at] == '(' && text[at + 1] == '?' &&
           (text[at + 2] == '=' || text[at + 2] == '!') &&
           (end = group_end(text, len, at, &is_split)) && !is_split &&
           (end == len || !strchr("*+?{", text[end]))) {
        char *ahead = budget_alloc(s->b, end - at + 3, 1);
        memcpy(ahead, "^(?:", 4);
        memcpy(ahead + 4, text + at + 3, end - at - 3);
        list_push(s->b, &f->pattern,
                  (struct pattern_fact){ahead, end - at + 1, text[at + 2] == '!', false, path});
        at = end;
    }
    if (at > 1) {
        char *rest = budget_alloc(s->b, len - at + 2, 1);
        *rest = '^';
        memcpy(rest + 1, text + at, len - at);
        text = rest;
        len = len - at + 1;
    }
    list_push(s->b, &f->pattern,
              (struct pattern_fact){text, len, false, !strcmp(key, "format"), path});
    return s->b->failed ? -1 : 0;
}

static int set_format(struct schema *s, struct facts *f, const struct part *p,
                      const struct jvalue *v)
{
    static const struct {
        const char *name;
        int64_t lo, hi;
    } whole[] = {{"int8", INT8_MIN, INT8_MAX},    {"int16", INT16_MIN, INT16_MAX},
                 {"int32", INT32_MIN, INT32_MAX}, {"uint8", 0, UINT8_MAX},
                 {"uint16", 0, UINT16_MAX},       {"uint32", 0, UINT32_MAX},
                 {"uint64", 0, INT64_MAX}};
    if (v->type != JT_STR)
        return wants(s, p, "format", "a string");
    const char *regex = schema_format(v->s->p, v->s->len);
    if (!regex)
        return budget_fail(s->b, ERR_UNSUPPORTED, "%s/format: %.*s is not known here", p->path,
                           (int)(v->s->len < 60 ? v->s->len : 60), v->s->p);
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (jv_is_text(v, whole[i].name)) {
            struct jvalue lo = jv_int(whole[i].lo), hi = jv_int(whole[i].hi);
            number_at_least(&f->number, &lo, false);
            number_at_most(&f->number, &hi, false);
        }
    return *regex ? add_pattern(s, f, p, "format", regex, strlen(regex)) : 0;
}

/* ---- names ---- */

static int add_names(struct schema *s, const struct part *p, const char *key,
                     const struct jvalue *v, struct facts *f)
{
    if (v->type != JT_LIST)
        return wants(s, p, key, "a list of names");
    for (size_t i = 0; i < v->l->n; i++) {
        if (v->l->at[i].type != JT_STR)
            return wants(s, p, key, "a list of names");
        list_push(s->b, &f->required, &v->l->at[i]);
    }
    return s->b->failed ? -1 : 0;
}

/* ---- what asks nothing ---- */

static const char *const annotation[] = {"$schema",
                                         "$id",
                                         "$comment",
                                         "$anchor",
                                         "$defs",
                                         "$vocabulary",
                                         "definitions",
                                         "title",
                                         "description",
                                         "default",
                                         "examples",
                                         "example",
                                         "deprecated",
                                         "readOnly",
                                         "writeOnly",
                                         "contentEncoding",
                                         "contentMediaType",
                                         "contentSchema",
                                         "id",
                                         "discriminator",
                                         "externalDocs",
                                         "xml"};
static const char *const refused[] = {
    "contains",    "minContains",   "maxContains",    "unevaluatedItems", "unevaluatedProperties",
    "$dynamicRef", "$recursiveRef", "$dynamicAnchor", "extends",          "disallow",
    "divisibleBy"};

static bool is_one_of(const char *key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(key, list[i]))
            return true;
    return false;
}

static const char *const known[] = {"type",
                                    "enum",
                                    "const",
                                    "minimum",
                                    "maximum",
                                    "exclusiveMinimum",
                                    "exclusiveMaximum",
                                    "multipleOf",
                                    "minLength",
                                    "maxLength",
                                    "pattern",
                                    "format",
                                    "minItems",
                                    "maxItems",
                                    "uniqueItems",
                                    "minProperties",
                                    "maxProperties",
                                    "required",
                                    "properties",
                                    "prefixItems",
                                    "patternProperties",
                                    "additionalProperties",
                                    "propertyNames",
                                    "items",
                                    "anyOf",
                                    "oneOf",
                                    "allOf",
                                    "additionalItems",
                                    "dependentRequired",
                                    "dependentSchemas",
                                    "dependencies"};

/* min_length, MinLength, minlength: surely not meant as a remark. */
static const char *meant(const char *key)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *a = known[i], *b = key;
        for (; *b; b++) {
            if (*b == '_' || *b == '-')
                continue;
            if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
                break;
            a++;
        }
        if (!*a && !*b)
            return known[i];
    }
    return NULL;
}

bool schema_is_remark(const char *key)
{
    return is_one_of(key, annotation, sizeof annotation / sizeof *annotation);
}

/* Keywords that are not known are remarks to JSON Schema. */
static int other(struct schema *s, const struct part *p, const char *key)
{
    if (schema_is_remark(key))
        return 0;
    if (is_one_of(key, refused, sizeof refused / sizeof *refused))
        return schema_no(s, p->path, key, "this keyword cannot be honoured");
    const char *like = meant(key);
    if (like)
        return budget_fail(s->b, ERR_BAD_INPUT, "%s/%.60s is no keyword; %s is", p->path, key,
                           like);
    return 0;
}

/* ---- the table ---- */

static int bounds(struct schema *s, struct facts *f, const struct part *p, const char *key,
                  const struct jvalue *v)
{
    bool is_min = !strcmp(key, "minimum") || !strcmp(key, "exclusiveMinimum");
    bool is_exclusive = key[0] == 'e';
    const struct jvalue *draft4;
    if (v->type == JT_BOOL && is_exclusive) /* draft 4: it speaks of minimum */
        return 0;
    if (!is_exclusive) {
        draft4 = jv_dict_get(p->at, is_min ? "exclusiveMinimum" : "exclusiveMaximum");
        is_exclusive = draft4 && draft4->type == JT_BOOL && draft4->b;
    }
    if (!is_number(v) || !(is_min ? number_at_least : number_at_most)(&f->number, v, is_exclusive))
        return wants(s, p, key, "a number");
    return 0;
}

static int multiple(struct schema *s, struct facts *f, const struct part *p, const struct jvalue *v)
{
    if (!is_number(v) || (v->type == JT_INT ? v->i <= 0 : !(v->f > 0)))
        return wants(s, p, "multipleOf", "a number above 0");
    if (f->number.multiple && !json_text_same(f->number.multiple, v))
        return schema_no(s, p->path, "multipleOf", "two different ones cannot be honoured");
    f->number.multiple = v;
    return 0;
}

int schema_keyword(struct schema *s, struct facts *f, const struct part *p, const char *key,
                   const struct jvalue *v)
{
    static const char *const bound[] = {"minimum", "maximum", "exclusiveMinimum",
                                        "exclusiveMaximum"};
    struct {
        const char *key;
        uint32_t *count;
        bool is_max;
    } count[] = {{"minLength", &f->min_len, false},       {"maxLength", &f->max_len, true},
                 {"minItems", &f->min_items, false},      {"maxItems", &f->max_items, true},
                 {"minProperties", &f->min_props, false}, {"maxProperties", &f->max_props, true}};
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        if (!strcmp(key, count[i].key))
            return set_count(s, p, key, v, count[i].count, count[i].is_max);
    if (is_one_of(key, bound, 4))
        return bounds(s, f, p, key, v);
    if (!strcmp(key, "type"))
        return set_type(s, f, p, v);
    if (!strcmp(key, "const"))
        return set_values(s, f, v, 1);
    if (!strcmp(key, "enum"))
        return v->type == JT_LIST ? set_values(s, f, v->l->at, v->l->n)
                                  : wants(s, p, key, "a list of values");
    if (!strcmp(key, "multipleOf"))
        return multiple(s, f, p, v);
    if (!strcmp(key, "pattern"))
        return v->type == JT_STR ? add_pattern(s, f, p, key, v->s->p, v->s->len)
                                 : wants(s, p, key, "a string");
    if (!strcmp(key, "format"))
        return set_format(s, f, p, v);
    if (!strcmp(key, "uniqueItems")) {
        f->is_unique |= v->type == JT_BOOL && v->b;
        return v->type == JT_BOOL ? 0 : wants(s, p, key, "true or false");
    }
    if (!strcmp(key, "required"))
        return v->type == JT_BOOL ? schema_no(s, p->path, key, "it must be a list of names")
                                  : add_names(s, p, key, v, f);
    return is_one_of(key, known, sizeof known / sizeof *known) ? 1 : other(s, p, key);
}
