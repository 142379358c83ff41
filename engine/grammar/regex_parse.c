/* SPDX-License-Identifier: Apache-2.0
 *
 * The structure of a regular expression, by descent as deep as groups are nested.
 */
#include "engine/grammar/regex_parse.h"

#include <string.h>

#include "engine/token/utf8.h"

static struct node *alternatives(struct regex_text *t);

static bool looks_at(const struct regex_text *t, const char *s)
{
    size_t n = strlen(s);
    return (size_t)(t->end - t->p) >= n && !memcmp(t->p, s, n);
}

/* ims-U and what ends them: ')' or ':', which is returned; 0 when it is none of it. */
static uint8_t flags(struct regex_text *t)
{
    bool on = true;
    for (; t->p < t->end; t->p++) {
        switch (*t->p) {
        case 'i':
            t->no_case = on;
            break;
        case 'm':
            t->multi_line = on;
            break;
        case 's':
            t->dot_all = on;
            break;
        case 'U':
            break;
        case '-':
            on = false;
            break;
        case ')':
        case ':':
            return *t->p++;
        default:
            return 0;
        }
    }
    return 0;
}

/* (?P<name>, (?<name>: to behind the name. */
static int group_name(struct regex_text *t)
{
    const uint8_t *close = memchr(t->p, '>', (size_t)(t->end - t->p));
    if (!close || close == t->p)
        return regex_fail(t, "a group's name that does not end");
    t->p = close + 1;
    return 0;
}

/* Behind "(": 1 when only flags were set and there is no group. */
static int group_head(struct regex_text *t)
{
    if (!looks_at(t, "?"))
        return 0;
    t->p++;
    if (looks_at(t, "=") || looks_at(t, "!") || looks_at(t, "<=") || looks_at(t, "<!"))
        return regex_fail(t, "looking ahead or behind, which takes backtracking");
    if (looks_at(t, ">"))
        return regex_fail(t, "an atomic group, which takes backtracking");
    if (looks_at(t, "P<") || looks_at(t, "<")) {
        t->p += looks_at(t, "P<") ? 2 : 1;
        return group_name(t);
    }
    switch (flags(t)) {
    case ')':
        return 1;
    case ':':
        return 0;
    default:
        return regex_fail(t, "a group (? of an unknown kind");
    }
}

static struct node *group(struct regex_text *t)
{
    struct regex_text outer = *t;
    struct node *n = NULL;
    int rc = group_head(t);
    if (rc > 0)
        return node_new(t->b, NODE_EMPTY); /* the flags hold to the end of the group around */
    if (rc == 0 && ++t->depth > NODE_MAX_DEPTH)
        rc = budget_fail(t->b, ERR_TOO_LARGE, "the regex has groups more than %d deep",
                         NODE_MAX_DEPTH);
    if (rc == 0)
        n = alternatives(t);
    if (n && !looks_at(t, ")")) {
        regex_fail(t, "a group without its )");
        n = NULL;
    } else if (n) {
        t->p++;
    }
    t->no_case = outer.no_case;
    t->multi_line = outer.multi_line;
    t->dot_all = outer.dot_all;
    t->depth = outer.depth;
    return n;
}

static struct node *claim(struct regex_text *t, enum claim what)
{
    struct node *n = node_new(t->b, NODE_CLAIM);
    n->claim = what;
    return n;
}

static struct node *one_char(struct regex_text *t, uint32_t c)
{
    struct node *n = node_char(t->b, c);
    if (t->no_case && charset_fold(t->b, &n->set))
        return NULL;
    return n;
}

static struct node *dot(struct regex_text *t)
{
    struct charset newline = {0};
    if (t->dot_all)
        return node_set(t->b, charset_any(t->b));
    charset_add(t->b, &newline, '\n', '\n');
    if (t->dialect == REGEX_ECMA) {
        charset_add(t->b, &newline, '\r', '\r');
        charset_add(t->b, &newline, 0x2028, 0x2029);
    }
    return node_set(t->b, charset_not(t->b, &newline));
}

/* \Q...\E: as it stands. */
static struct node *quoted(struct regex_text *t)
{
    struct node *n = node_new(t->b, NODE_CAT);
    while (t->p < t->end && !looks_at(t, "\\E") && !t->b->failed)
        list_push(t->b, &n->kid, one_char(t, regex_next(t)));
    t->p += looks_at(t, "\\E") ? 2 : 0;
    return n;
}

static struct node *escaped(struct regex_text *t)
{
    struct node *n = node_new(t->b, NODE_SET);
    uint32_t c = 0;
    uint8_t letter = t->p < t->end ? *t->p : 0;
    bool is_re2 = t->dialect == REGEX_RE2;
    if (letter == 'b' || letter == 'B' || (is_re2 && (letter == 'A' || letter == 'z'))) {
        t->p++;
        return claim(t, letter == 'b'   ? CLAIM_WORD_EDGE
                        : letter == 'B' ? CLAIM_NO_WORD_EDGE
                        : letter == 'A' ? CLAIM_TEXT_BEGIN
                                        : CLAIM_TEXT_END);
    }
    if (is_re2 && letter == 'Q') {
        t->p++;
        return quoted(t);
    }
    int rc = regex_escape(t, false, &n->set, &c);
    if (rc < 0)
        return NULL;
    if (rc == 0)
        return one_char(t, c);
    return t->no_case && charset_fold(t->b, &n->set) ? NULL : n;
}

static struct node *atom(struct regex_text *t)
{
    struct node *n;
    uint8_t c = *t->p;
    switch (c) {
    case '(':
        t->p++;
        return group(t);
    case '[':
        t->p++;
        n = node_new(t->b, NODE_SET);
        return regex_set(t, &n->set) ? NULL : n;
    case '.':
        t->p++;
        return dot(t);
    case '^':
        t->p++;
        return claim(t, t->multi_line ? CLAIM_LINE_BEGIN : CLAIM_TEXT_BEGIN);
    case '$':
        t->p++;
        return claim(t, t->multi_line ? CLAIM_LINE_END : CLAIM_TEXT_END);
    case '\\':
        t->p++;
        return escaped(t);
    case '*':
    case '+':
    case '?':
        regex_fail(t, "a quantifier with nothing before it");
        return NULL;
    default:
        return one_char(t, regex_next(t));
    }
}

static bool count(struct regex_text *t, const uint8_t **p, uint32_t *n)
{
    const uint8_t *begin = *p;
    for (*n = 0; *p < t->end && **p >= '0' && **p <= '9'; ++*p)
        *n = *n > NODE_MAX_COUNT ? *n : *n * 10 + (uint32_t)(**p - '0');
    return *p > begin;
}

/* {n}, {n,}, {n,m}: 1; anything else is a brace that stands for itself: 0. */
static int interval(struct regex_text *t, uint32_t *min, uint32_t *max)
{
    const uint8_t *p = t->p + 1;
    if (!count(t, &p, min))
        return 0;
    *max = *min;
    if (p < t->end && *p == ',') {
        p++;
        if (!count(t, &p, max))
            *max = NODE_NO_MAX;
    }
    if (p >= t->end || *p != '}')
        return 0;
    if (*min > NODE_MAX_COUNT || (*max != NODE_NO_MAX && *max > NODE_MAX_COUNT))
        return budget_fail(t->b, ERR_TOO_LARGE, "the regex at byte %zu: more than %d repetitions",
                           (size_t)(t->p - t->begin) + 1, NODE_MAX_COUNT);
    if (*max < *min)
        return regex_fail(t, "an interval whose end lies before its beginning");
    t->p = p + 1;
    return 1;
}

static struct node *piece(struct regex_text *t)
{
    struct node *n = atom(t);
    for (int times = 0; n && t->p < t->end; times++) {
        uint32_t min = 0, max = NODE_NO_MAX;
        uint8_t c = *t->p;
        if (c == '{') {
            int rc = interval(t, &min, &max);
            if (rc < 0)
                return NULL;
            if (rc == 0)
                break;
        } else if (c == '*' || c == '+' || c == '?') {
            t->p++;
            min = c == '+';
            max = c == '?' ? 1 : NODE_NO_MAX;
        } else {
            break;
        }
        if (times > 0) {
            regex_fail(t, "a quantifier right behind a quantifier");
            return NULL;
        }
        n = node_repeat(t->b, n, min, max);
        if (looks_at(t, "?"))
            t->p++;
    }
    return n;
}

static struct node *sequence(struct regex_text *t)
{
    struct node *cat = node_new(t->b, NODE_CAT);
    while (t->p < t->end && *t->p != '|' && *t->p != ')' && budget_tick(t->b, 1)) {
        struct node *n = piece(t);
        if (!n || !list_push(t->b, &cat->kid, n))
            return NULL;
    }
    return t->b->failed ? NULL : cat;
}

static struct node *alternatives(struct regex_text *t)
{
    struct node *alt = node_new(t->b, NODE_ALT);
    for (;;) {
        struct node *n = sequence(t);
        if (!n || !list_push(t->b, &alt->kid, n))
            return NULL;
        if (!looks_at(t, "|"))
            return alt->kid.n == 1 ? n : alt;
        t->p++;
    }
}

struct node *regex_parse(struct budget *b, const char *text, size_t len, enum regex_dialect dialect)
{
    const uint8_t *p = (const uint8_t *)text;
    struct regex_text t = {.b = b, .begin = p, .p = p, .end = p + len, .dialect = dialect};
    if (len > REGEX_MAX_BYTES) {
        budget_fail(b, ERR_TOO_LARGE, "the regex has %zu bytes, more than %d", len,
                    REGEX_MAX_BYTES);
        return NULL;
    }
    if (utf8_valid(p, len) != len) {
        budget_fail(b, ERR_BAD_INPUT, "the regex is not UTF-8");
        return NULL;
    }
    struct node *n = alternatives(&t);
    if (n && t.p < t.end) {
        regex_fail(&t, "a ) without its (");
        n = NULL;
    }
    return b->failed ? NULL : n;
}
