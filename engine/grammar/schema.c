/* SPDX-License-Identifier: Apache-2.0
 *
 * From a schema to a program: goals in a list until none is left, each a rule.
 */
#include "engine/grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/grammar/compile.h"
#include "engine/token/utf8.h"

enum { MAX_REF_CHAIN = 64, MAX_LITERAL = 1 << 20, MAX_PATH = 400 };

/* ---- paths and refusals ---- */

const char *schema_path(struct schema *s, const char *path, const char *key, size_t len)
{
    size_t have = strlen(path);
    if (have > MAX_PATH || len == 0)
        return path;
    len = len > 80 ? 80 : len;
    char *p = budget_alloc(s->b, have + len + 2, 1);
    memcpy(p, path, have);
    p[have] = '/';
    memcpy(p + have + 1, key, len);
    return p;
}

const char *schema_path_at(struct schema *s, const char *path, const char *key, size_t i)
{
    char number[24];
    int n = snprintf(number, sizeof number, "%zu", i);
    return schema_path(s, schema_path(s, path, key, strlen(key)), number, (size_t)n);
}

int schema_no(struct schema *s, const char *path, const char *keyword, const char *why)
{
    return budget_fail(s->b, ERR_UNSUPPORTED, "%s%s%s: %s", path, *keyword ? "/" : "", keyword,
                       why);
}

/* ---- goals ---- */

/* A subschema that is nothing but a $ref is what the $ref names. */
static const struct jvalue *without_refs(struct schema *s, const struct jvalue *at,
                                         const char **path)
{
    for (int i = 0; i < MAX_REF_CHAIN && !s->b->failed; i++) {
        const struct jvalue *ref = jv_dict_get(at, "$ref");
        if (!ref || at->d->n != 1)
            return at;
        at = schema_ref(s, ref, *path, path);
        if (!at)
            return NULL;
    }
    schema_no(s, *path, "$ref", "it leads back to itself");
    return NULL;
}

void goal_add(struct schema *s, struct goal *g, const struct jvalue *at, const char *path)
{
    at = without_refs(s, at, &path);
    if (!at || (at->type == JT_BOOL && at->b) || (at->type == JT_DICT && at->d->n == 0))
        return;
    for (uint32_t i = 0; i < g->part.n; i++)
        if (g->part.at[i].at == at)
            return;
    list_push(s->b, &g->part, (struct part){at, path, NULL});
}

bool goal_is_never(const struct goal *g)
{
    for (uint32_t i = 0; i < g->part.n; i++)
        if (g->part.at[i].at->type == JT_BOOL && !g->part.at[i].at->b)
            return true;
    return false;
}

static int by_address(const void *x, const void *y)
{
    uintptr_t a = *(const uintptr_t *)x, b = *(const uintptr_t *)y;
    return (a > b) - (a < b);
}

uint32_t schema_rule(struct schema *s, struct goal *g)
{
    uintptr_t *key = budget_alloc(s->b, g->part.n + 1, sizeof *key);
    for (uint32_t i = 0; i < g->part.n; i++)
        key[i] = (uintptr_t)g->part.at[i].at;
    qsort(key, g->part.n, sizeof *key, by_address);
    uintptr_t known = (uintptr_t)map_get(&s->goals, key, g->part.n * sizeof *key);
    if (known || s->b->failed)
        return known ? (uint32_t)(known - 1) : 0;
    uint32_t rule = build_rule(s->d, g->part.n ? g->part.at[0].path : "a value");
    budget_charge(s->b, g->part.n * sizeof *key + 64);
    map_put(&s->goals, key, g->part.n * sizeof *key, (void *)((uintptr_t)rule + 1));
    list_push(s->b, &s->todo, *g);
    list_push(s->b, &s->todo_rule, rule);
    return rule;
}

/* ---- values ---- */

static bool is_in(const struct jvalue *v, const struct jvalue *const *at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (json_text_same(at[i], v))
            return true;
    return false;
}

/* Whether a listed value meets the other facts: 1, 0; -1 when that cannot be said. */
static int admits(struct schema *s, const struct facts *f, const struct dfa *texts,
                  const struct jvalue *v)
{
    if (!(f->types & schema_type_of(v)) || is_in(v, f->no_value.at, f->no_value.n))
        return 0;
    if (v->type == JT_INT || v->type == JT_FLOAT)
        return number_admits(&f->number, v);
    if (v->type == JT_STR)
        return v->s->n_cp >= f->min_len && v->s->n_cp <= f->max_len &&
               (!texts || dfa_accepts(texts, v->s->p, v->s->len));
    bool asks_array = f->array.n || f->min_items || f->max_items != UINT32_MAX || f->is_unique;
    bool asks_object = f->object.n || f->required.n || f->forbidden.n || f->names.n ||
                       f->min_props || f->max_props != UINT32_MAX;
    if ((v->type == JT_LIST && asks_array) || (v->type == JT_DICT && asks_object))
        return schema_no(s, f->path, "enum",
                         "objects and arrays beside keywords about their contents cannot be "
                         "honoured");
    return 1;
}

static uint32_t listed_values(struct schema *s, const struct facts *f, uint32_t next)
{
    LIST(struct build_word) word = {0};
    struct facts any_length = *f;
    any_length.min_len = 0;
    any_length.max_len = UINT32_MAX;
    struct dfa *texts = f->pattern.n ? schema_texts(s, &any_length) : NULL;
    struct buf text;
    buf_init(&text, MAX_LITERAL);
    for (uint32_t i = 0; i < f->value.n && budget_tick(s->b, 8); i++) {
        if (admits(s, f, texts, f->value.at[i]) <= 0)
            continue;
        buf_clear(&text);
        if (json_text_write(&s->text, f->value.at[i], &text))
            break;
        char *copy = budget_alloc(s->b, text.len + 1, 1);
        memcpy(copy, text.data, text.len);
        list_push(s->b, &word, (struct build_word){copy, text.len});
    }
    buf_release(&text);
    return s->b->failed ? PROGRAM_FAIL : build_words(s->d, word.at, word.n, next);
}

static uint32_t booleans(struct schema *s, const struct facts *f, uint32_t next)
{
    static const struct jvalue yes = {.type = JT_BOOL, .b = true},
                               no = {.type = JT_BOOL, .b = false};
    uint32_t at = PROGRAM_FAIL;
    if (!is_in(&no, f->no_value.at, f->no_value.n))
        at = json_text_bool(&s->text, false, next);
    if (!is_in(&yes, f->no_value.at, f->no_value.n))
        at = build_either(s->d, json_text_bool(&s->text, true, next), at);
    return at;
}

/* Strings, booleans and null can be left out one by one; of the others there are too many texts. */
static int check_left_out(struct schema *s, const struct facts *f)
{
    for (uint32_t i = 0; i < f->no_value.n; i++)
        if (schema_type_of(f->no_value.at[i]) & f->types & (TYPE_NUMBER | TYPE_ARRAY | TYPE_OBJECT))
            return schema_no(s, f->path, "not",
                             "of values only strings, booleans and null can be left out");
    return 0;
}

uint32_t schema_values(struct schema *s, const struct facts *f, uint32_t next)
{
    static const struct jvalue null = {.type = JT_NONE};
    LIST(uint32_t) way = {0};
    if (f->has_values)
        return listed_values(s, f, next);
    if (check_left_out(s, f))
        return PROGRAM_FAIL;
    if ((f->types & TYPE_NULL) && !is_in(&null, f->no_value.at, f->no_value.n))
        list_push(s->b, &way, json_text_null(&s->text, next));
    if (f->types & TYPE_BOOL)
        list_push(s->b, &way, booleans(s, f, next));
    if (f->types & TYPE_NUMBER)
        list_push(s->b, &way,
                  number_is_free(&f->number)
                      ? json_text_number(&s->text, f->number.is_integer, next)
                      : number_build(s->d, &f->number, f->path, next));
    if ((f->types & TYPE_STRING) && !s->b->failed)
        list_push(s->b, &way, schema_string(s, f, next));
    if ((f->types & TYPE_ARRAY) && !s->b->failed)
        list_push(s->b, &way, schema_array(s, f, next));
    if ((f->types & TYPE_OBJECT) && !s->b->failed)
        list_push(s->b, &way, schema_object(s, f, next));
    return build_alt(s->d, way.at, way.n);
}

static uint32_t compile_goal(struct schema *s, const struct goal *g)
{
    facts_list way = {0};
    LIST(uint32_t) target = {0};
    if (g->part.n == 0)
        return json_text_any(&s->text, PROGRAM_END);
    if (schema_facts(s, g, &way))
        return PROGRAM_FAIL;
    for (uint32_t i = 0; i < way.n && !s->b->failed; i++) {
        way.at[i].path = way.at[i].path ? way.at[i].path : g->part.at[0].path;
        list_push(s->b, &target, schema_values(s, &way.at[i], PROGRAM_END));
    }
    return build_alt(s->d, target.at, target.n);
}

struct schema_what {
    const struct jvalue *root;
    bool is_compact;
};

void schema_rules_end(struct schema *s)
{
    for (uint32_t i = 0; i < s->todo.n && budget_tick(s->b, 16); i++) {
        struct goal one = s->todo.at[i];
        uint32_t entry = compile_goal(s, &one);
        build_rule_is(s->d, s->todo_rule.at[i], entry);
    }
    map_release(&s->goals);
    map_release(&s->nots);
}

uint32_t compile_schema(struct build *d, const struct jvalue *root, bool is_compact, uint32_t next)
{
    struct schema s = {.d = d, .b = d->b, .root = root, .text = {.d = d, .is_compact = is_compact}};
    struct goal g = {0};
    map_init(&s.goals);
    map_init(&s.nots);
    schema_check_ids(&s);
    goal_add(&s, &g, root, "#");
    uint32_t rule = schema_rule(&s, &g);
    schema_rules_end(&s);
    return build_call(d, rule, next);
}

static uint32_t compile_root(struct build *d, const void *what)
{
    const struct schema_what *w = what;
    return compile_schema(d, w->root, w->is_compact, PROGRAM_END);
}

struct grammar *grammar_schema(const struct jvalue *schema, bool is_compact,
                               const struct grammar_limits *limits, struct err *e)
{
    struct schema_what w = {schema, is_compact};
    return compile(limits, compile_root, &w, e);
}

static uint32_t compile_object(struct build *d, const void *what)
{
    struct json_text t = {.d = d, .is_compact = *(const bool *)what};
    return json_text_any_object(&t, PROGRAM_END);
}

struct grammar *grammar_json_object(bool is_compact, const struct grammar_limits *limits,
                                    struct err *e)
{
    return compile(limits, compile_object, &is_compact, e);
}
