/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of calls that stand between marks, or as Python or Gemma has them, in place of a JSON
 * object.
 *
 * Where strings have no quotes a text is a string or else, and its reader goes by the types that
 * the tool's schema lets stand there (schema_types_of_member): `5` is a number where one may be. So
 * a string is never a text that would be taken for another of these types.
 */
#include <string.h>

#include "engine/grammar/compile.h"
#include "engine/grammar/regex_parse.h"
#include "engine/grammar/schema.h"

static const char python_name[] = "[A-Za-z_][A-Za-z0-9_]{0,127}",
                  marked_name[] = "[^<>\"\\s]([^<>\"\\r\\n]{0,126}[^<>\"\\s])?";

static struct dfa *dfa_of_regex(struct schema *s, const char *text)
{
    struct node *n = regex_parse(s->b, text, strlen(text), REGEX_ECMA);
    return n ? dfa_of(s->b, n, true) : NULL;
}

/* ---- names --------------------------------------------------------------------------------- */

static struct dfa *names_of(struct schema *s)
{
    struct params *p = s->params;
    if (s->text.quote)
        return json_text_names(&s->text);
    if (!p->names)
        p->names = dfa_of_regex(s, p->marks->is_python ? python_name : marked_name);
    return p->names;
}

int params_check_name(struct schema *s, const char *path, const struct jstr *name)
{
    struct dfa *names = names_of(s);
    if (!names || dfa_accepts(names, name->p, name->len))
        return 0;
    return schema_no(
        s, schema_path(s, schema_path(s, path, "properties", 10), name->p, name->len), "",
        "a member of this name cannot be written in the form of this model's calls of tools");
}

struct dfa *params_names(struct schema *s, struct dfa *names)
{
    struct dfa *own = names_of(s);
    return own && names ? dfa_combine(s->b, DFA_AND, names, own) : own;
}

/* ---- strings without quotes ---------------------------------------------------------------- */

/* Texts that are taken for something else where the types may stand. */
static const char *const taken[] = {
    [0] = "\\s*(null|None)\\s*",
    [1] = "\\s*(true|false|True|False)\\s*",
    [2] = "\\s*-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?\\s*",
    [4] = "\\s*\\[[\\s\\S]*",
    [5] = "\\s*\\{[\\s\\S]*",
};

static struct dfa *without(struct schema *s, struct dfa *d, struct dfa *no)
{
    return d && no ? dfa_combine(s->b, DFA_BUT_NOT, d, no) : NULL;
}

static struct dfa *plain_texts(struct schema *s, uint32_t types)
{
    struct params *p = s->params;
    if (p->marks->value_json.len)
        types = TYPE_STRING;
    if (p->plain[types])
        return p->plain[types];
    struct dfa *d = dfa_any(s->b);
    struct node *stop = node_text(s->b, p->marks->stop.at, p->marks->stop.len);
    d = stop ? without(s, d, dfa_of(s->b, stop, false)) : NULL;
    for (uint32_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (taken[i] && (types >> i & 1))
            d = without(s, d, dfa_of_regex(s, taken[i]));
    return p->plain[types] = d;
}

static struct dfa *listed_strings(struct schema *s, const struct facts *f)
{
    struct node *alt = node_new(s->b, NODE_ALT);
    for (uint32_t i = 0; i < f->value.n; i++)
        if (f->value.at[i]->type == JT_STR)
            list_push(s->b, &alt->kid,
                      node_text(s->b, f->value.at[i]->s->p, f->value.at[i]->s->len));
    return alt->kid.n ? dfa_of(s->b, alt, true) : NULL;
}

static bool is_free(const struct facts *f)
{
    return !f->pattern.n && !f->no_value.n && !f->min_len && f->max_len == UINT32_MAX;
}

static uint32_t string(struct schema *s, const struct facts *f, uint32_t types, uint32_t next)
{
    struct dfa *d = plain_texts(s, types), *one = NULL;
    if (f->min_len > f->max_len || (f->has_values && !(one = listed_strings(s, f))))
        return PROGRAM_FAIL;
    if (d && f->has_values)
        d = dfa_combine(s->b, DFA_AND, d, one);
    if (d && !is_free(f))
        d = (one = schema_texts(s, f)) ? dfa_combine(s->b, DFA_AND, d, one) : NULL;
    return d && !dfa_is_empty(d) ? build_dfa(s->d, SPELL_PLAIN, d, next) : PROGRAM_FAIL;
}

/* ---- values -------------------------------------------------------------------------------- */

static uint32_t text(struct schema *s, struct grammar_text t, uint32_t next)
{
    return t.len && next != PROGRAM_FAIL ? build_text(s->d, t.at, t.len, next) : next;
}

static uint32_t no_string(struct schema *s, const struct facts *f, uint32_t types, uint32_t next)
{
    struct facts rest = *f;
    rest.types &= types & ~(uint32_t)TYPE_STRING;
    rest.value.n = 0;
    rest.value.cap = 0;
    rest.value.at = NULL;
    for (uint32_t i = 0; i < f->value.n; i++)
        if (f->value.at[i]->type != JT_STR)
            list_push(s->b, &rest.value, f->value.at[i]);
    if (!rest.types || (rest.has_values && !rest.value.n))
        return PROGRAM_FAIL;
    return schema_values(s, &rest, next);
}

static uint32_t value(struct schema *s, const struct goal *g, uint32_t types, uint32_t next)
{
    const struct grammar_marks *m = s->params->marks;
    facts_list way = {0};
    LIST(uint32_t) target = {0};
    if (schema_facts(s, g, &way))
        return PROGRAM_FAIL;
    for (uint32_t i = 0; i < way.n && !s->b->failed; i++) {
        struct facts *f = &way.at[i];
        f->path = f->path ? f->path : g->part.n ? g->part.at[0].path : "#";
        uint32_t other = no_string(s, f, types, next);
        list_push(s->b, &target, text(s, m->value_json.len ? m->value_json : m->value, other));
        if (f->types & TYPE_STRING)
            list_push(s->b, &target, text(s, m->value, string(s, f, types, next)));
    }
    return build_alt(s->d, target.at, target.n);
}

uint32_t params_rule(struct schema *s, struct goal *g, const struct jstr *name)
{
    const struct grammar_marks *m = s->params->marks;
    uint32_t end = text(s, m->end, PROGRAM_END);
    uint32_t rule = build_rule(s->d, g->part.n ? g->part.at[0].path : "a value");
    if (!m->stop.len) {
        build_rule_is(s->d, rule, text(s, m->value, build_call(s->d, schema_rule(s, g), end)));
        return rule;
    }
    uint32_t types = name && !m->value_json.len
                         ? schema_types_of_member(s->params->types, name->p, name->len)
                         : TYPE_ALL;
    build_rule_is(s->d, rule, value(s, g, types, end));
    return rule;
}

uint32_t params_key(struct schema *s, const char *name, size_t n, uint32_t next)
{
    return text(s, s->params->marks->key, build_text(s->d, name, n, next));
}

uint32_t params_pair(struct schema *s, const struct dfa *names, uint32_t next)
{
    return text(s, s->params->marks->key, build_dfa(s->d, SPELL_PLAIN, names, next));
}

uint32_t params_between(struct schema *s, uint32_t next)
{
    return text(s, s->params->marks->between, next);
}

/* ---- all of them --------------------------------------------------------------------------- */

/* Any members; those that the reader knows by name first. */
static int any_members(struct schema *s, facts_list *out)
{
    static const struct jvalue yes = {.type = JT_BOOL, .b = true};
    const struct jvalue *props =
        s->params->types ? jv_dict_get(s->params->types, "properties") : NULL;
    struct goal none = {0};
    if (schema_facts(s, &none, out))
        return -1;
    if (!props || props->type != JT_DICT)
        return 0;
    list_push(s->b, &out->at[0].object,
              (struct object_fact){.props = props, .others = &yes, .path = "#"});
    return 0;
}

uint32_t compile_params(struct build *d, const struct jvalue *schema, const struct jvalue *types,
                        const struct grammar_marks *marks, uint32_t next)
{
    struct params p = {.marks = marks, .types = types, .is_loose = !schema};
    struct schema s = {.d = d,
                       .b = d->b,
                       .root = schema ? schema : types,
                       .params = &p,
                       .text = {.d = d,
                                .is_python = marks->is_python,
                                .is_compact = marks->quote != NULL,
                                .quote = marks->quote}};
    struct goal g = {0};
    facts_list way = {0};
    LIST(uint32_t) target = {0};
    uint32_t rule = build_rule(d, "arguments");
    map_init(&s.goals);
    map_init(&s.nots);
    if (schema) {
        schema_check_ids(&s);
        goal_add(&s, &g, schema, "#");
    }
    if (schema ? schema_facts(&s, &g, &way) : any_members(&s, &way))
        goto out;
    for (uint32_t i = 0; i < way.n && !d->b->failed; i++) {
        struct facts *f = &way.at[i];
        f->path = f->path ? f->path : "#";
        if (f->has_values)
            schema_no(&s, f->path, "enum",
                      "whole arguments cannot be listed in this form of calls");
        else if (f->types & TYPE_OBJECT)
            list_push(d->b, &target, schema_members(&s, f, PROGRAM_END));
    }
    build_rule_is(d, rule, build_alt(d, target.at, target.n));
out:
    schema_rules_end(&s);
    return build_call(d, rule, next);
}
