/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings of a schema: free ones by a count, those of one pattern as it stands where that runs, all
 * else as an automaton of what the patterns and lengths leave together.
 */
#include <string.h>

#include "engine/base/buf.h"
#include "engine/grammar/compile.h"
#include "engine/grammar/regex_parse.h"
#include "engine/grammar/schema.h"

enum { MAX_COUNTED = 50000 }; /* states of one text whose length matters */

static struct node *parse(struct schema *s, const struct pattern_fact *p)
{
    struct node *n = regex_parse(s->b, p->text, p->len, REGEX_ECMA);
    if (!n && s->b->failed)
        err_wrap(&s->b->err, "%s", p->path);
    return n;
}

static struct dfa *any_texts(struct schema *s)
{
    return dfa_any(s->b);
}

/* The listed strings that must not be. */
static struct dfa *without_values(struct schema *s, const struct facts *f, struct dfa *d)
{
    struct node *alt = node_new(s->b, NODE_ALT);
    for (uint32_t i = 0; i < f->no_value.n; i++)
        if (f->no_value.at[i]->type == JT_STR)
            list_push(s->b, &alt->kid,
                      node_text(s->b, f->no_value.at[i]->s->p, f->no_value.at[i]->s->len));
    if (alt->kid.n == 0 || !d)
        return d;
    struct dfa *no = dfa_of(s->b, alt, true);
    return no ? dfa_combine(s->b, DFA_BUT_NOT, d, no) : NULL;
}

/* An automaton of lengths has a state for each; where the most that is asked would be too many,
 * texts are shorter than they might be. */
static struct dfa *of_lengths(struct schema *s, const struct facts *f, const struct dfa *d)
{
    uint32_t most = MAX_COUNTED / (d->n_state ? d->n_state : 1);
    most = most > f->min_len ? most : f->min_len;
    if (f->max_len == UINT32_MAX || f->max_len <= most)
        return dfa_lengths(s->b, d, f->min_len, f->max_len);
    struct dfa *cut = dfa_lengths(s->b, d, f->min_len, most);
    return cut && dfa_is_empty(cut) ? dfa_lengths(s->b, d, f->min_len, f->max_len) : cut;
}

struct dfa *schema_texts(struct schema *s, const struct facts *f)
{
    struct dfa *d = NULL;
    for (uint32_t i = 0; i < f->pattern.n && !s->b->failed; i++) {
        struct node *n = parse(s, &f->pattern.at[i]);
        struct dfa *one = n ? dfa_of(s->b, n, false) : NULL;
        if (!one)
            return NULL;
        if (!d && f->pattern.at[i].negated)
            d = any_texts(s);
        if (d)
            d = dfa_combine(s->b, f->pattern.at[i].negated ? DFA_BUT_NOT : DFA_AND, d, one);
        else
            d = one;
    }
    if (!d)
        d = any_texts(s);
    d = without_values(s, f, d);
    return d && (f->min_len > 0 || f->max_len != UINT32_MAX) ? of_lengths(s, f, d) : d;
}

static uint32_t quoted(struct schema *s, uint32_t inside)
{
    return inside == PROGRAM_FAIL ? inside : build_byte(s->d, '"', '"', inside);
}

/* One set of characters, repeated: the count is all that lengths change. */
static bool is_run(const struct node *n)
{
    return n->kind == NODE_CAT && n->kid.n == 1 && n->kid.at[0]->kind == NODE_REPEAT &&
           n->kid.at[0]->kid.at[0]->kind == NODE_SET;
}

static uint32_t run_of(struct schema *s, const struct facts *f, const struct node *n, uint32_t next)
{
    uint32_t min = n->min > f->min_len ? n->min : f->min_len;
    uint32_t max = n->max < f->max_len ? n->max : f->max_len;
    if (min > max)
        return PROGRAM_FAIL;
    const struct charset *set = &n->kid.at[0]->set;
    uint32_t body = build_set(s->d, SPELL_JSON, set, NULL, PROGRAM_END);
    return build_repeat(s->d, body, min, max == UINT32_MAX ? REPEAT_NO_MAX : max, next);
}

static bool has_no_text(const struct facts *f)
{
    for (uint32_t i = 0; i < f->no_value.n; i++)
        if (f->no_value.at[i]->type == JT_STR)
            return false;
    return true;
}

/* Of a form whose strings stand as they are. */
static uint32_t plain_string(struct schema *s, const struct facts *f, uint32_t close)
{
    struct dfa *d = json_text_plain(&s->text), *one = d ? schema_texts(s, f) : NULL;
    d = one ? dfa_combine(s->b, DFA_AND, d, one) : NULL;
    bool is_possible = d && !dfa_is_empty(d);
    return is_possible ? json_text_quote(&s->text, build_dfa(s->d, SPELL_PLAIN, d, close))
                       : PROGRAM_FAIL;
}

uint32_t schema_string(struct schema *s, const struct facts *f, uint32_t next)
{
    uint32_t close = json_text_quote(&s->text, next);
    if (f->min_len > f->max_len)
        return PROGRAM_FAIL;
    if (s->text.quote)
        return plain_string(s, f, close);
    if (f->pattern.n == 0 && has_no_text(f))
        return json_text_string(&s->text, f->min_len, f->max_len, next);
    if (f->pattern.n == 1 && !f->pattern.at[0].negated && has_no_text(f)) {
        struct node *n = parse(s, &f->pattern.at[0]);
        n = n ? node_unclaimed(s->b, n) : NULL;
        if (n && is_run(n))
            return quoted(s, run_of(s, f, n->kid.at[0], close));
        if (n && f->min_len == 0 && f->max_len == UINT32_MAX)
            return quoted(s, compile_expression(s->d, SPELL_JSON, n, close));
    }
    struct dfa *d = s->b->failed ? NULL : schema_texts(s, f);
    return d ? quoted(s, build_dfa(s->d, SPELL_JSON, d, close)) : PROGRAM_FAIL;
}

struct dfa *schema_names(struct schema *s, const struct facts *f)
{
    struct dfa *all = any_texts(s);
    for (uint32_t i = 0; i < f->names.n && all; i++) {
        struct goal g = {0};
        facts_list way = {0};
        goal_add(s, &g, f->names.at[i].at, f->names.at[i].path);
        if (schema_facts(s, &g, &way))
            return NULL;
        if (way.n != 1) {
            schema_no(s, f->names.at[i].path, "", "alternatives of names cannot be honoured");
            return NULL;
        }
        struct dfa *one = schema_texts(s, &way.at[0]);
        if (one && way.at[0].has_values) {
            struct node *alt = node_new(s->b, NODE_ALT);
            for (uint32_t k = 0; k < way.at[0].value.n; k++)
                if (way.at[0].value.at[k]->type == JT_STR)
                    list_push(s->b, &alt->kid,
                              node_text(s->b, way.at[0].value.at[k]->s->p,
                                        way.at[0].value.at[k]->s->len));
            struct dfa *listed = alt->kid.n ? dfa_of(s->b, alt, true) : NULL;
            one = listed ? dfa_combine(s->b, DFA_AND, one, listed) : one;
        }
        all = one ? dfa_combine(s->b, DFA_AND, all, one) : NULL;
    }
    return all;
}
