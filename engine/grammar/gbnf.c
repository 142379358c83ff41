/* SPDX-License-Identifier: Apache-2.0
 *
 * Grammars in GBNF, as llama.cpp reads them: rules `name ::= ...`, texts "...", sets [...], a dot
 * for any character, groups, | for alternatives, * + ? {n} {n,} {n,m}, comments from # to the
 * line's end. The text is what rule `root` makes. Inside parentheses a line may end anywhere;
 * outside, a rule goes on behind a | at the beginning of a line.
 *
 * What names tokens and not characters (<[1]>, <think>) is refused: a constraint knows texts only.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/grammar/compile.h"
#include "engine/token/utf8.h"

enum { MAX_BYTES = 1 << 20, MAX_NAME = 128, MAX_QUANTIFIERS = 4 };

struct gbnf_rule {
    const char *name;
    size_t at; /* where it was named first */
    struct node *body;
};

struct gbnf {
    struct build *d;
    struct budget *b;
    const uint8_t *begin, *p, *end;
    struct map names; /* to number + 1 */
    LIST(struct gbnf_rule) rule;
    int depth;
};

static struct node *alternatives(struct gbnf *g);

static int fail_at(struct gbnf *g, const uint8_t *p, const char *what)
{
    size_t line = 1;
    const uint8_t *start = g->begin;
    for (const uint8_t *q = g->begin; q < p; q++)
        if (*q == '\n') {
            line++;
            start = q + 1;
        }
    return budget_fail(g->b, ERR_BAD_INPUT, "the grammar, line %zu, byte %zu: %s", line,
                       (size_t)(p - start) + 1, what);
}

static struct node *no(struct gbnf *g, const char *what)
{
    fail_at(g, g->p, what);
    return NULL;
}

static uint8_t peek(const struct gbnf *g)
{
    return g->p < g->end ? *g->p : 0;
}

/* Blanks and comments; ends of lines too inside of parentheses. */
static void skip(struct gbnf *g, bool lines)
{
    while (g->p < g->end) {
        if (*g->p == '#')
            while (g->p < g->end && *g->p != '\n')
                g->p++;
        else if (*g->p == ' ' || *g->p == '\t' || (lines && (*g->p == '\n' || *g->p == '\r')))
            g->p++;
        else
            break;
    }
}

static bool is_name(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static size_t name_here(const struct gbnf *g)
{
    size_t n = 0;
    while (g->p + n < g->end && is_name(g->p[n]))
        n++;
    return n;
}

/* The number of the rule with the name at the cursor, which goes behind it; -1. */
static int64_t rule_here(struct gbnf *g)
{
    size_t n = name_here(g), at = (size_t)(g->p - g->begin);
    if (n == 0 || n > MAX_NAME)
        return fail_at(g, g->p, "the name of a rule was expected, of at most 128 characters");
    const char *name = arena_strndup(&g->b->arena, (const char *)g->p, n);
    g->p += n;
    uintptr_t known = (uintptr_t)map_get(&g->names, name, n);
    if (known)
        return (int64_t)known - 1;
    budget_charge(g->b, n + 64);
    uint32_t rule = build_rule(g->d, arena_printf(&g->b->arena, "rule %s", name));
    /* numbers of the grammar are those of the builder, less the first */
    if (!list_push(g->b, &g->rule, (struct gbnf_rule){name, at, NULL}))
        return -1;
    map_put(&g->names, name, n, (void *)((uintptr_t)rule + 1));
    return rule;
}

/* ---- characters ---- */

static int hex_char(struct gbnf *g, int n, uint32_t *c)
{
    *c = 0;
    for (int i = 0; i < n; i++, g->p++) {
        uint8_t d = peek(g), l = d | 32;
        bool digit = d >= '0' && d <= '9';
        if (!digit && !(l >= 'a' && l <= 'f'))
            return fail_at(g, g->p, "a hexadecimal digit was expected");
        *c = *c * 16 + (uint32_t)(digit ? d - '0' : l - 'a' + 10);
    }
    if (*c > CHAR_MAX_CODE || (*c >= 0xd800 && *c <= 0xdfff))
        return fail_at(g, g->p, "an escape that is no character of Unicode");
    return 0;
}

static int one_char(struct gbnf *g, uint32_t *c)
{
    if (g->p >= g->end)
        return fail_at(g, g->p, "the grammar ends inside of a text or set");
    if (*g->p != '\\') {
        g->p += utf8_get(g->p, c);
        return 0;
    }
    g->p++;
    uint8_t letter = peek(g);
    g->p += g->p < g->end;
    switch (letter) {
    case 'x':
        return hex_char(g, 2, c);
    case 'u':
        return hex_char(g, 4, c);
    case 'U':
        return hex_char(g, 8, c);
    case 'n':
        *c = '\n';
        return 0;
    case 't':
        *c = '\t';
        return 0;
    case 'r':
        *c = '\r';
        return 0;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
    case '/':
        *c = letter;
        return 0;
    default:
        return fail_at(g, g->p, "an escape that is not known");
    }
}

static struct node *text(struct gbnf *g)
{
    struct node *n = node_new(g->b, NODE_CAT);
    g->p++;
    while (peek(g) != '"') {
        uint32_t c;
        if (one_char(g, &c) || !list_push(g->b, &n->kid, node_char(g->b, c)))
            return NULL;
    }
    g->p++;
    return n;
}

static struct node *set(struct gbnf *g)
{
    struct charset s = {0};
    g->p++;
    bool negated = peek(g) == '^';
    g->p += negated;
    while (peek(g) != ']' && budget_tick(g->b, 1)) {
        uint32_t lo, hi;
        if (one_char(g, &lo))
            return NULL;
        hi = lo;
        if (g->end - g->p >= 2 && *g->p == '-' && g->p[1] != ']') {
            g->p++;
            if (one_char(g, &hi))
                return NULL;
        }
        if (hi < lo)
            return no(g, "a range whose end lies before its beginning");
        charset_add(g->b, &s, lo, hi);
    }
    g->p++;
    charset_tidy(&s);
    return node_set(g->b, negated ? charset_not(g->b, &s) : s);
}

/* ---- structure ---- */

static struct node *group(struct gbnf *g)
{
    g->p++;
    if (++g->depth > NODE_MAX_DEPTH) {
        budget_fail(g->b, ERR_TOO_LARGE, "the grammar has groups more than %d deep",
                    NODE_MAX_DEPTH);
        return NULL;
    }
    struct node *n = alternatives(g);
    if (!n)
        return NULL;
    if (peek(g) != ')')
        return no(g, "a group without its )");
    g->p++;
    g->depth--;
    return n;
}

static struct node *atom(struct gbnf *g)
{
    struct node *n;
    int64_t rule;
    switch (peek(g)) {
    case '"':
        return text(g);
    case '[':
        return set(g);
    case '(':
        return group(g);
    case '.':
        g->p++;
        return node_set(g->b, charset_any(g->b));
    case '<':
    case '!':
        return no(g, "tokens cannot be named, only characters");
    default:
        if ((rule = rule_here(g)) < 0)
            return NULL;
        n = node_new(g->b, NODE_RULE);
        n->rule = (uint32_t)rule;
        return n;
    }
}

static bool digits(struct gbnf *g, uint32_t *n)
{
    const uint8_t *begin = g->p;
    for (*n = 0; peek(g) >= '0' && peek(g) <= '9'; g->p++)
        *n = *n > NODE_MAX_COUNT ? *n : *n * 10 + (uint32_t)(*g->p - '0');
    return g->p > begin;
}

static int interval(struct gbnf *g, uint32_t *min, uint32_t *max)
{
    g->p++;
    skip(g, true);
    bool has_min = digits(g, min);
    *max = *min;
    skip(g, true);
    if (peek(g) == ',') {
        g->p++;
        skip(g, true);
        if (!digits(g, max))
            *max = NODE_NO_MAX;
        skip(g, true);
    } else if (!has_min) {
        return fail_at(g, g->p, "a count was expected");
    }
    if (peek(g) != '}')
        return fail_at(g, g->p, "a count without its }");
    g->p++;
    if (*min > NODE_MAX_COUNT || (*max != NODE_NO_MAX && *max > NODE_MAX_COUNT))
        return budget_fail(g->b, ERR_TOO_LARGE, "the grammar asks for more than %d repetitions",
                           NODE_MAX_COUNT);
    return *max < *min ? fail_at(g, g->p, "a count whose end lies before its beginning") : 0;
}

static struct node *piece(struct gbnf *g)
{
    struct node *n = atom(g);
    for (int times = 0; n; times++) {
        uint32_t min = 0, max = NODE_NO_MAX;
        uint8_t c = peek(g);
        if (c == '*' || c == '+' || c == '?') {
            g->p++;
            min = c == '+';
            max = c == '?' ? 1 : NODE_NO_MAX;
        } else if (c == '{') {
            if (interval(g, &min, &max))
                return NULL;
        } else {
            break;
        }
        if (times >= MAX_QUANTIFIERS)
            return no(g, "too many quantifiers in a row");
        n = node_repeat(g->b, n, min, max);
    }
    return n;
}

static struct node *sequence(struct gbnf *g)
{
    struct node *cat = node_new(g->b, NODE_CAT);
    for (skip(g, g->depth > 0); g->p < g->end && budget_tick(g->b, 1); skip(g, g->depth > 0)) {
        uint8_t c = *g->p;
        if (c == '|' || c == ')' || c == '\n' || c == '\r')
            break;
        struct node *n = piece(g);
        if (!n || !list_push(g->b, &cat->kid, n))
            return NULL;
    }
    return g->b->failed ? NULL : cat;
}

/* Whether the rule goes on: a | here, or at the beginning of one of the next lines. */
static bool goes_on(struct gbnf *g)
{
    const uint8_t *here = g->p;
    skip(g, true);
    if (peek(g) == '|') {
        g->p++;
        skip(g, true);
        return true;
    }
    if (g->depth == 0)
        g->p = here;
    return false;
}

static struct node *alternatives(struct gbnf *g)
{
    struct node *alt = node_new(g->b, NODE_ALT);
    for (;;) {
        struct node *n = sequence(g);
        if (!n || !list_push(g->b, &alt->kid, n))
            return NULL;
        if (!goes_on(g))
            return alt;
    }
}

static int rule_line(struct gbnf *g, uint32_t first)
{
    const uint8_t *here = g->p;
    int64_t rule = rule_here(g);
    if (rule < 0)
        return -1;
    skip(g, false);
    if (g->end - g->p < 3 || memcmp(g->p, "::=", 3) != 0)
        return fail_at(g, g->p, "::= was expected behind the name of a rule");
    g->p += 3;
    skip(g, true);
    struct gbnf_rule *r = &g->rule.at[rule - first];
    if (r->body)
        return fail_at(g, here, "a rule of this name stands before");
    struct node *body = alternatives(g);
    if (!body)
        return -1;
    g->rule.at[rule - first].body = body;
    skip(g, false);
    if (g->p < g->end && *g->p != '\n' && *g->p != '\r')
        return fail_at(g, g->p, "the end of a line was expected");
    return 0;
}

static uint32_t read_rules(struct gbnf *g, uint32_t first, uint32_t next)
{
    for (skip(g, true); g->p < g->end; skip(g, true))
        if (rule_line(g, first))
            return PROGRAM_FAIL;
    uintptr_t root = (uintptr_t)map_get(&g->names, "root", 4);
    if (!root || !g->rule.at[root - 1 - first].body) {
        budget_fail(g->b, ERR_BAD_INPUT, "the grammar has no rule root");
        return PROGRAM_FAIL;
    }
    for (uint32_t i = 0; i < g->rule.n && !g->b->failed; i++) {
        const struct gbnf_rule *r = &g->rule.at[i];
        if (!r->body) {
            fail_at(g, g->begin + r->at, "a rule that is nowhere defined");
            return PROGRAM_FAIL;
        }
        if (node_count(r->body).nested > COMPILE_MAX_NESTED)
            budget_too_many_states(g->b);
        uint32_t entry = build_node(g->d, SPELL_PLAIN, r->body, PROGRAM_END);
        build_rule_is(g->d, first + i, entry);
    }
    return g->b->failed ? PROGRAM_FAIL : build_call(g->d, (uint32_t)root - 1, next);
}

uint32_t compile_gbnf_text(struct build *d, const struct grammar_text *t, uint32_t next)
{
    const uint8_t *p = (const uint8_t *)t->at;
    struct gbnf g = {.d = d, .b = d->b, .begin = p, .p = p, .end = p + t->len};
    if (t->len > MAX_BYTES) {
        budget_fail(d->b, ERR_TOO_LARGE, "the grammar has %zu bytes, more than %d", t->len,
                    MAX_BYTES);
        return PROGRAM_FAIL;
    }
    if (utf8_valid(p, t->len) != t->len) {
        budget_fail(d->b, ERR_BAD_INPUT, "the grammar is not UTF-8");
        return PROGRAM_FAIL;
    }
    map_init(&g.names);
    uint32_t at = read_rules(&g, d->rule.n, next);
    map_release(&g.names);
    return at;
}

static uint32_t compile_gbnf(struct build *d, const void *what)
{
    return compile_gbnf_text(d, what, PROGRAM_END);
}

struct grammar *grammar_gbnf(const char *text, size_t len, const struct grammar_limits *limits,
                             struct err *e)
{
    struct grammar_text t = {text, len};
    return compile(limits, compile_gbnf, &t, e);
}
