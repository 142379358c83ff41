/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects: the members that have names, in the order of the schema, then others where there may be
 * some. A member's value must meet all that any part of the schema says of its name.
 *
 * Members are counted only where minProperties or maxProperties ask for it. A name that stands
 * twice counts once to a reader, so of the others only the first is counted towards minProperties.
 */
#include <string.h>

#include "engine/grammar/schema.h"

struct member {
    const struct jvalue *name;
    bool is_required;
    struct goal goal;
    uint32_t rule;
};

struct other {
    struct dfa *names;
    struct goal goal;
};

struct members {
    LIST(struct member) named;
    LIST(struct other) other;
    struct dfa **match;               /* of the patterns, by part and place */
    LIST(const struct jvalue *) name; /* of all parts */
    bool may_have_others;
};

struct pattern_at {
    const struct object_fact *part;
    size_t i;
    struct dfa *match;
};

typedef LIST(struct pattern_at) pattern_list;

/* ---- which names, and what holds for them ---- */

static bool is_in(const struct jvalue *name, const struct jvalue *const *at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (json_text_same(at[i], name))
            return true;
    return false;
}

static int find_patterns(struct schema *s, const struct facts *f, pattern_list *out)
{
    for (uint32_t k = 0; k < f->object.n; k++) {
        const struct object_fact *o = &f->object.at[k];
        for (size_t i = 0; o->patterns && i < o->patterns->d->n; i++) {
            const struct jstr *re = o->patterns->d->key[i].s;
            struct facts one = {.min_len = 0, .max_len = UINT32_MAX};
            list_push(s->b, &one.pattern,
                      (struct pattern_fact){re->p, re->len, false, false,
                                            schema_path(s, o->path, "patternProperties", 17)});
            struct dfa *d = s->b->failed ? NULL : schema_texts(s, &one);
            if (!d || !list_push(s->b, out, (struct pattern_at){o, i, d}))
                return -1;
        }
    }
    if (out->n > SCHEMA_MAX_PATTERNS)
        return schema_no(s, f->path, "patternProperties", "more than 6 patterns");
    return 0;
}

/* What the parts say of a name that is listed, or (name NULL) of those that match just the patterns
 * whose bits are set. */
static void goal_of(struct schema *s, const struct facts *f, const pattern_list *patterns,
                    const struct jvalue *name, uint32_t bits, struct goal *g)
{
    if (s->params && s->params->is_loose)
        return;
    for (uint32_t k = 0; k < f->object.n; k++) {
        const struct object_fact *o = &f->object.at[k];
        const struct jvalue *own = name && o->props ? jdict_get(o->props->d, name) : NULL;
        bool is_said = own != NULL;
        if (own)
            goal_add(s, g, own,
                     schema_path(s, schema_path(s, o->path, "properties", 10), name->s->p,
                                 name->s->len));
        for (uint32_t i = 0; i < patterns->n; i++) {
            const struct pattern_at *p = &patterns->at[i];
            if (p->part != o || !(bits >> i & 1))
                continue;
            is_said = true;
            goal_add(s, g, &o->patterns->d->val[p->i],
                     schema_path(s, schema_path(s, o->path, "patternProperties", 17),
                                 o->patterns->d->key[p->i].s->p, o->patterns->d->key[p->i].s->len));
        }
        if (!is_said && o->others)
            goal_add(s, g, o->others, schema_path(s, o->path, "additionalProperties", 20));
    }
}

static void collect_names(struct schema *s, const struct facts *f, struct members *m)
{
    struct map seen;
    map_init(&seen);
    for (uint32_t k = 0; k < f->object.n; k++)
        for (size_t i = 0; f->object.at[k].props && i < f->object.at[k].props->d->n; i++) {
            const struct jvalue *name = &f->object.at[k].props->d->key[i];
            if (!map_put(&seen, name->s->p, name->s->len, m) && budget_tick(s->b, 1))
                list_push(s->b, &m->name, name);
        }
    for (uint32_t i = 0; i < f->required.n; i++) {
        const struct jvalue *name = f->required.at[i];
        if (!map_put(&seen, name->s->p, name->s->len, m) && budget_tick(s->b, 1))
            list_push(s->b, &m->name, name);
    }
    map_release(&seen);
}

/* False: a member that must be there cannot. */
static bool list_named(struct schema *s, const struct facts *f, const pattern_list *patterns,
                       const struct dfa *names, struct members *m)
{
    struct map required;
    bool is_possible = true;
    map_init(&required);
    for (uint32_t i = 0; i < f->required.n; i++)
        map_put(&required, f->required.at[i]->s->p, f->required.at[i]->s->len, m);
    for (uint32_t i = 0; i < m->name.n && budget_tick(s->b, 4); i++) {
        const struct jvalue *name = m->name.at[i];
        struct member one = {.name = name};
        uint32_t bits = 0;
        for (uint32_t k = 0; k < patterns->n; k++)
            bits |= (uint32_t)dfa_accepts(patterns->at[k].match, name->s->p, name->s->len) << k;
        goal_of(s, f, patterns, name, bits, &one.goal);
        one.is_required = map_get(&required, name->s->p, name->s->len) != NULL;
        bool is_shut = goal_is_never(&one.goal) || is_in(name, f->forbidden.at, f->forbidden.n) ||
                       (names && !dfa_accepts(names, name->s->p, name->s->len));
        if (is_shut)
            is_possible &= !one.is_required;
        else
            list_push(s->b, &m->named, one);
    }
    map_release(&required);
    return is_possible;
}

static bool allows_others(const struct facts *f)
{
    bool is_closed = false, is_open = false;
    for (uint32_t k = 0; k < f->object.n; k++) {
        const struct object_fact *o = &f->object.at[k];
        if (o->is_condition)
            continue;
        if (o->others)
            is_open = true;
        else if (o->props)
            is_closed = true;
    }
    return is_open || !is_closed;
}

/* The names that are not listed, by which patterns they match. */
static int list_others(struct schema *s, const struct facts *f, const pattern_list *patterns,
                       struct dfa *names, struct members *m)
{
    struct dfa *base = names ? names : dfa_any(s->b);
    struct node *alt = node_new(s->b, NODE_ALT);
    bool plain = allows_others(f);
    if (!plain && patterns->n == 0)
        return 0;
    for (uint32_t i = 0; i < m->name.n; i++)
        list_push(s->b, &alt->kid, node_text(s->b, m->name.at[i]->s->p, m->name.at[i]->s->len));
    for (uint32_t i = 0; i < f->forbidden.n; i++)
        list_push(s->b, &alt->kid,
                  node_text(s->b, f->forbidden.at[i]->s->p, f->forbidden.at[i]->s->len));
    struct dfa *listed = alt->kid.n ? dfa_of(s->b, alt, true) : NULL;
    if (listed && base)
        base = dfa_combine(s->b, DFA_BUT_NOT, base, listed);
    for (uint32_t bits = 0; bits >> patterns->n == 0 && !s->b->failed; bits++) {
        struct other one = {.names = base};
        if (bits == 0 && !plain)
            continue;
        for (uint32_t i = 0; i < patterns->n && one.names; i++)
            one.names = dfa_combine(s->b, bits >> i & 1 ? DFA_AND : DFA_BUT_NOT, one.names,
                                    patterns->at[i].match);
        if (!one.names || dfa_is_empty(one.names))
            continue;
        goal_of(s, f, patterns, NULL, bits, &one.goal);
        if (!goal_is_never(&one.goal))
            list_push(s->b, &m->other, one);
    }
    return s->b->failed ? -1 : 0;
}

/* ---- as text ---- */

struct writer {
    struct schema *s;
    const struct facts *f;
    struct members *m;
    bool is_counted; /* how many stand matters */
    bool is_bare;    /* not as JSON, and without brackets */
    uint32_t close;
};

static uint32_t comma(struct writer *w, uint32_t next)
{
    return w->is_bare ? params_between(w->s, next) : json_text_comma(&w->s->text, next);
}

static uint32_t pair_of_other(struct writer *w, const struct other *o, uint32_t next)
{
    struct build *d = w->s->d;
    struct goal g = o->goal;
    if (w->is_bare)
        return params_pair(w->s, o->names, build_call(d, params_rule(w->s, &g, NULL), next));
    uint32_t value = build_call(d, schema_rule(w->s, &g), next);
    return json_text_key_of(&w->s->text, o->names, value);
}

/* One pair of any kind of the others, as a rule. */
static uint32_t rule_of_others(struct writer *w)
{
    LIST(uint32_t) way = {0};
    uint32_t rule = build_rule(w->s->d, "a member");
    for (uint32_t i = 0; i < w->m->other.n && !w->s->b->failed; i++)
        list_push(w->s->b, &way, pair_of_other(w, &w->m->other.at[i], PROGRAM_END));
    build_rule_is(w->s->d, rule, build_alt(w->s->d, way.at, way.n));
    return rule;
}

/* Others only, when c named ones stand: the first pair and what may follow. */
static uint32_t others_from(struct writer *w, uint32_t pair, uint32_t c)
{
    struct build *d = w->s->d;
    uint32_t max = w->f->max_props;
    if (w->m->other.n == 0)
        return PROGRAM_FAIL;
    if (w->is_counted && (c + 1 < w->f->min_props || c >= max))
        return PROGRAM_FAIL;
    uint32_t left = max == UINT32_MAX ? REPEAT_NO_MAX : max - c - 1;
    uint32_t body = comma(w, build_call(d, pair, PROGRAM_END));
    return build_call(d, pair, build_repeat(d, body, 0, left, w->close));
}

static uint32_t named_pair(struct writer *w, const struct member *m, uint32_t rule, uint32_t next)
{
    const struct jstr *name = m->name->s;
    uint32_t value = build_call(w->s->d, rule, next);
    return w->is_bare ? params_key(w->s, name->p, name->len, value)
                      : json_text_key(&w->s->text, name->p, name->len, value);
}

static bool is_enough(const struct writer *w, uint32_t c)
{
    return !w->is_counted || (c >= w->f->min_props && c <= w->f->max_props);
}

/* From the last member to the first. key[c]: c members stand and one from here on must come;
 * more[c]: at least one stands, and the object may be closed or go on behind a comma. */
static uint32_t write_members(struct writer *w)
{
    struct build *d = w->s->d;
    uint32_t n = w->m->named.n, top = w->is_counted ? n : 0;
    uint32_t *key = budget_alloc(w->s->b, top + 2, sizeof *key);
    uint32_t *more = budget_alloc(w->s->b, top + 2, sizeof *more);
    uint32_t pair = w->m->other.n ? rule_of_others(w) : 0;
    bool may_close = true; /* no member from here on is required */
    for (uint32_t c = 0; c <= top; c++)
        key[c] = others_from(w, pair, c);
    for (uint32_t i = n;; i--) {
        for (uint32_t c = 0; c <= top && budget_tick(w->s->b, 8); c++) {
            uint32_t end = may_close && is_enough(w, c) ? w->close : PROGRAM_FAIL;
            more[c] = build_either(d, end, key[c] == PROGRAM_FAIL ? key[c] : comma(w, key[c]));
        }
        if (i == 0 || w->s->b->failed)
            break;
        struct member *m = &w->m->named.at[i - 1];
        uint32_t rule =
            w->is_bare ? params_rule(w->s, &m->goal, m->name->s) : schema_rule(w->s, &m->goal);
        for (uint32_t c = 0; c <= top && budget_tick(w->s->b, 8); c++) {
            uint32_t behind = more[c < top ? c + 1 : top], take = PROGRAM_FAIL;
            bool fits = !w->is_counted || (c < w->f->max_props && c < top);
            if (fits && behind != PROGRAM_FAIL)
                take = named_pair(w, m, rule, behind);
            key[c] = build_either(d, take, m->is_required ? PROGRAM_FAIL : key[c]);
        }
        may_close &= !m->is_required;
    }
    uint32_t first = key[0];
    if (first != PROGRAM_FAIL && !w->is_bare)
        first = json_text_space(&w->s->text, first);
    return build_either(d, first, may_close && is_enough(w, 0) ? w->close : PROGRAM_FAIL);
}

static uint32_t write_object(struct schema *s, const struct facts *f, struct members *m,
                             bool is_bare, uint32_t next)
{
    struct writer w = {.s = s, .f = f, .m = m, .is_bare = is_bare};
    uint32_t n = m->named.n, n_required = 0;
    bool has_others = m->other.n > 0, has_max = f->max_props != UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        n_required += m->named.at[i].is_required;
    w.is_counted = f->min_props > n_required || (has_max && (has_others || f->max_props < n));
    if (has_others && f->min_props > n + 1)
        schema_no(s, f->path, "minProperties",
                  "more members than are named, and one, cannot be honoured");
    else if (w.is_counted && n > SCHEMA_MAX_COUNTED)
        schema_no(s, f->path, has_max ? "maxProperties" : "minProperties",
                  "the members are too many to be counted");
    w.close = is_bare ? next : json_text_close(&s->text, '}', next);
    uint32_t inside = s->b->failed ? PROGRAM_FAIL : write_members(&w);
    return inside == PROGRAM_FAIL || is_bare ? inside : build_byte(s->d, '{', '{', inside);
}

static uint32_t object_of(struct schema *s, const struct facts *f, bool is_bare, uint32_t next)
{
    struct members m = {0};
    pattern_list patterns = {0};
    struct dfa *names = NULL;
    if (f->min_props > f->max_props)
        return PROGRAM_FAIL;
    if (f->names.n && !(names = schema_names(s, f)))
        return PROGRAM_FAIL;
    if (find_patterns(s, f, &patterns))
        return PROGRAM_FAIL;
    collect_names(s, f, &m);
    bool has_bare_names = is_bare || s->text.quote;
    for (uint32_t i = 0; has_bare_names && !s->params->is_loose && i < m.name.n; i++)
        params_check_name(s, f->path, m.name.at[i]->s);
    if (has_bare_names)
        names = params_names(s, names);
    if (!list_named(s, f, &patterns, names, &m) || list_others(s, f, &patterns, names, &m))
        return PROGRAM_FAIL;
    return write_object(s, f, &m, is_bare, next);
}

uint32_t schema_members(struct schema *s, const struct facts *f, uint32_t next)
{
    return object_of(s, f, true, next);
}

uint32_t schema_object(struct schema *s, const struct facts *f, uint32_t next)
{
    if (f->object.n == 0 && f->required.n == 0 && f->forbidden.n == 0 && f->names.n == 0 &&
        f->min_props == 0 && f->max_props == UINT32_MAX)
        return json_text_any_object(&s->text, next);
    return object_of(s, f, false, next);
}
