/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a compiled constraint, and the two kinds that need no parser of their own.
 */
#include "engine/grammar/grammar.h"

#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/grammar/compile.h"
#include "engine/grammar/regex_parse.h"
#include "engine/grammar/stack.h"
#include "engine/token/utf8.h"

enum { LONG_COUNT = 32 }; /* a frame counts better than so many states */

const struct grammar_limits grammar_limits_default = {200000, 64 << 20, 1000};

struct grammar *grammar_ref(struct grammar *g)
{
    atomic_fetch_add_explicit(&g->n_ref, 1, memory_order_relaxed);
    return g;
}

void grammar_unref(struct grammar *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->n_ref, 1, memory_order_acq_rel) != 1)
        return;
    mem_free(g->code);
    mem_free(g->range);
    mem_free(g->target);
    mem_free(g->repeat);
    free(g);
}

size_t grammar_bytes(const struct grammar *g)
{
    return sizeof *g + g->n_code * sizeof *g->code + g->n_range * sizeof *g->range +
           g->n_target * sizeof *g->target + g->n_repeat * sizeof *g->repeat;
}

/* A program whose beginning has more ways than are kept could not run. */
static struct grammar *check_begins(struct budget *b, struct grammar *g)
{
    struct stack s;
    struct place_set set = {0};
    struct place start = {g->start, STACK_BOTTOM};
    stack_init(&s, g);
    stack_close(&s, &start, 1, &set);
    if (set.overflowed) {
        budget_fail(b, ERR_TOO_LARGE,
                    "a text of the constraint can begin in too many ways: give each part of it "
                    "one way to be read");
        grammar_unref(g);
        g = NULL;
    }
    place_set_release(&set);
    stack_release(&s);
    return g;
}

struct grammar *compile(const struct grammar_limits *limits, compile_fn *fn, const void *what,
                        struct err *e)
{
    struct budget b;
    struct build d;
    struct grammar *g = NULL;
    budget_init(&b, limits ? limits : &grammar_limits_default);
    build_init(&d, &b);
    uint32_t rule = build_rule(&d, "the constraint");
    uint32_t entry = fn(&d, what);
    build_rule_is(&d, rule, entry);
    g = build_end(&d, rule);
    if (g)
        g = check_begins(&b, g);
    if (!g)
        err_set(e, b.err.code, "%s", b.err.msg);
    build_release(&d);
    budget_release(&b);
    return g;
}

/* An automaton where it is small. The expression as it stands where its counts are long, which a
 * frame counts better than states, or the automaton is large. */
uint32_t compile_expression(struct build *d, enum spelling how, struct node *n, uint32_t next)
{
    struct node_counts c = node_count(n);
    struct budget small;
    struct grammar_limits l = {d->b->max_states / 10, d->b->cap_bytes / 4,
                               (int)(d->b->cpu_ns / 4000000)};
    bool runs = !c.claims && c.nested <= COMPILE_MAX_NESTED;
    if (runs && c.longest > LONG_COUNT)
        return build_node(d, how, n, next);
    budget_init(&small, &l);
    struct dfa *a = dfa_of(&small, n, true);
    uint32_t at = a ? build_dfa(d, how, a, next) : PROGRAM_FAIL;
    bool again = !a && small.err.code == ERR_TOO_LARGE;
    if (!a && !again)
        budget_fail(d->b, small.err.code, "%s", small.err.msg);
    budget_release(&small);
    if (!again)
        return at;
    if (c.claims)
        budget_fail(d->b, ERR_TOO_LARGE,
                    "the regex needs more than %u states and has ^, $ or \\b in it", l.max_states);
    else if (!runs)
        budget_too_many_states(d->b);
    return d->b->failed ? PROGRAM_FAIL : build_node(d, how, n, next);
}

uint32_t compile_regex_text(struct build *d, const struct grammar_text *t, uint32_t next)
{
    struct node *n = regex_parse(d->b, t->at, t->len, REGEX_RE2);
    if (!n)
        return PROGRAM_FAIL;
    struct node *inner = node_unclaimed(d->b, n);
    return compile_expression(d, SPELL_PLAIN, inner ? inner : n, next);
}

static uint32_t compile_regex(struct build *d, const void *what)
{
    return compile_regex_text(d, what, PROGRAM_END);
}

struct grammar *grammar_regex(const char *text, size_t len, const struct grammar_limits *limits,
                              struct err *e)
{
    struct grammar_text t = {text, len};
    return compile(limits, compile_regex, &t, e);
}

struct choice {
    const struct grammar_text *text;
    size_t n;
};

static uint32_t compile_choice(struct build *d, const void *what)
{
    const struct choice *c = what;
    LIST(struct build_word) word = {0};
    if (c->n == 0)
        budget_fail(d->b, ERR_BAD_INPUT, "a choice of no texts");
    for (size_t i = 0; i < c->n && budget_tick(d->b, 1); i++) {
        if (utf8_valid((const uint8_t *)c->text[i].at, c->text[i].len) != c->text[i].len)
            budget_fail(d->b, ERR_BAD_INPUT, "text %zu of the choice is not UTF-8", i);
        list_push(d->b, &word, (struct build_word){c->text[i].at, c->text[i].len});
    }
    return d->b->failed ? PROGRAM_FAIL : build_words(d, word.at, word.n, PROGRAM_END);
}

struct grammar *grammar_choice(const struct grammar_text *text, size_t n,
                               const struct grammar_limits *limits, struct err *e)
{
    struct choice c = {text, n};
    return compile(limits, compile_choice, &c, e);
}
