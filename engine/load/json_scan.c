/* SPDX-License-Identifier: Apache-2.0
 *
 * See json_scan.h. A recursive descent over bytes; each function leaves `p` behind what it read.
 * Strings are the bulk of every file here, so their plain ASCII is skipped by a table.
 */
#include "engine/load/json_scan.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_NUMBER_LEN 63 /* cJSON reads numbers through a buffer of this size */

struct scan {
    const unsigned char *p, *end, *start;
    const char *name;
    const struct json_rules *rules;
    struct buf *nul;
    size_t n_node;
    struct err *e;
};

enum byte_class { PLAIN, QUOTE, ESCAPE, CONTROL, MULTI };

static const unsigned char class_of[256] = {
    [0 ... 0x1f] = CONTROL,
    ['"'] = QUOTE,
    ['\\'] = ESCAPE,
    [0x80 ... 0xff] = MULTI,
};

static int fail_at(struct scan *s, const unsigned char *at, const char *what)
{
    size_t line = 1, column = 1;
    for (const unsigned char *q = s->start; q < at; q++) {
        column = *q == '\n' ? 1 : column + 1;
        line += *q == '\n';
    }
    return err_set(s->e, ERR_BAD_INPUT, "%s: line %zu, column %zu: %s", s->name, line, column,
                   what);
}

static int fail_expected(struct scan *s, const char *expected)
{
    char what[160], found[32];
    if (s->p == s->end)
        snprintf(found, sizeof found, "the end of the text");
    else if (*s->p > 0x20 && *s->p < 0x7f)
        snprintf(found, sizeof found, "'%c'", *s->p);
    else
        snprintf(found, sizeof found, "byte 0x%02x", *s->p);
    snprintf(what, sizeof what, "expected %s, found %s", expected, found);
    return fail_at(s, s->p, what);
}

static int fail_limit(struct scan *s, const char *what, size_t limit)
{
    return err_set(s->e, ERR_TOO_LARGE, "%s: more than %zu %s", s->name, limit, what);
}

static void skip_space(struct scan *s)
{
    s->p = (const unsigned char *)json_skip_space((const char *)s->p, (const char *)s->end);
}

const char *json_skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* The length of the well-formed UTF-8 sequence at p, 0 when it is none. Overlong forms, surrogates
 * and code points past U+10FFFF are not well-formed. */
static int utf8_len(const unsigned char *p, const unsigned char *end)
{
    size_t left = (size_t)(end - p);
    unsigned lead = p[0], second = left > 1 ? p[1] : 0;
    if (lead >= 0xc2 && lead <= 0xdf)
        return (second & 0xc0) == 0x80 ? 2 : 0;
    if ((lead & 0xf0) == 0xe0) {
        unsigned lo = lead == 0xe0 ? 0xa0 : 0x80, hi = lead == 0xed ? 0x9f : 0xbf;
        return left > 2 && second >= lo && second <= hi && (p[2] & 0xc0) == 0x80 ? 3 : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        unsigned lo = lead == 0xf0 ? 0x90 : 0x80, hi = lead == 0xf4 ? 0x8f : 0xbf;
        return left > 3 && second >= lo && second <= hi && (p[2] & 0xc0) == 0x80 &&
                       (p[3] & 0xc0) == 0x80
                   ? 4
                   : 0;
    }
    return 0;
}

/* Four hexadecimal digits at p, or -1. */
static int hex4(const unsigned char *p, const unsigned char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* At a backslash. Adds the decoded bytes to *len. */
static int scan_escape(struct scan *s, size_t *len, bool *has_nul)
{
    const unsigned char *at = s->p++;
    if (s->p == s->end)
        return fail_expected(s, "an escape");
    if (*s->p != 'u') {
        if (*s->p == 0 || !strchr("\"\\/bfnrt", *s->p))
            return fail_at(s, at, "not an escape that JSON has");
        s->p++, ++*len;
        return 0;
    }
    int unit = hex4(s->p + 1, s->end);
    if (unit < 0)
        return fail_at(s, at, "\\u needs four hexadecimal digits");
    s->p += 5;
    if (unit >= 0xdc00 && unit <= 0xdfff)
        return fail_at(s, at, "the second half of a surrogate pair without the first");
    if (unit >= 0xd800 && unit <= 0xdbff) {
        int low =
            s->end - s->p > 5 && s->p[0] == '\\' && s->p[1] == 'u' ? hex4(s->p + 2, s->end) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return fail_at(s, at, "the first half of a surrogate pair without the second");
        s->p += 6, *len += 4;
        return 0;
    }
    *len += unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    *has_nul |= unit == 0;
    return 0;
}

/* At the opening quote. */
static int scan_string(struct scan *s, bool is_key)
{
    const unsigned char *open = s->p++;
    size_t len = 0;
    bool has_nul = false;
    for (;;) {
        const unsigned char *run = s->p;
        while (s->p < s->end && class_of[*s->p] == PLAIN)
            s->p++;
        len += (size_t)(s->p - run);
        if (s->p == s->end)
            return fail_at(s, open, "a string that does not end");
        int n;
        switch (class_of[*s->p]) {
        case QUOTE:
            s->p++;
            if (!has_nul)
                return 0;
            if (is_key || !s->rules->allow_nul)
                return fail_at(s, open, "a string that holds a NUL character");
            return buf_add(s->nul, &(struct json_nul){s->n_node, len}, sizeof(struct json_nul))
                       ? err_set(s->e, ERR_NO_MEMORY, "%s: too many strings with NUL", s->name)
                       : 0;
        case ESCAPE:
            if (scan_escape(s, &len, &has_nul))
                return -1;
            break;
        case CONTROL:
            return fail_at(s, s->p, "a control character inside a string");
        default:
            n = utf8_len(s->p, s->end);
            if (n == 0)
                return fail_at(s, s->p, "not UTF-8");
            s->p += n, len += (size_t)n;
        }
    }
}

static bool is_digit(const struct scan *s)
{
    return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

static int scan_digits(struct scan *s)
{
    if (!is_digit(s))
        return fail_expected(s, "a digit");
    while (is_digit(s))
        s->p++;
    return 0;
}

static int scan_number(struct scan *s)
{
    const unsigned char *at = s->p;
    bool is_natural = *s->p != '-';
    s->p += !is_natural;
    const unsigned char *first = s->p;
    if (scan_digits(s))
        return -1;
    if (*first == '0' && s->p - first > 1)
        return fail_at(s, at, "a number with a leading zero");
    if (s->p < s->end && *s->p == '.') {
        s->p++, is_natural = false;
        if (scan_digits(s))
            return -1;
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++, is_natural = false;
        s->p += s->p < s->end && (*s->p == '+' || *s->p == '-');
        if (scan_digits(s))
            return -1;
    }
    if (s->p - at > MAX_NUMBER_LEN)
        return fail_at(s, at, "a number of more than 63 characters");
    if (s->rules->naturals_only && !is_natural)
        return fail_at(s, at, "expected a whole number without sign, point or exponent");
    return 0;
}

static int scan_word(struct scan *s, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return fail_expected(s, "a value");
    s->p += n;
    return 0;
}

static int scan_value(struct scan *s, int depth);

/* Behind the opening bracket, at an element. */
static int scan_array(struct scan *s, int depth)
{
    for (;;) {
        if (scan_value(s, depth))
            return -1;
        skip_space(s);
        if (s->p < s->end && *s->p == ']')
            return s->p++, 0;
        if (s->p == s->end || *s->p != ',')
            return fail_expected(s, "',' or ']'");
        s->p++;
    }
}

static int scan_object(struct scan *s, int depth)
{
    for (;;) {
        skip_space(s);
        if (s->p == s->end || *s->p != '"')
            return fail_expected(s, "a key in quotes");
        if (scan_string(s, true))
            return -1;
        skip_space(s);
        if (s->p == s->end || *s->p != ':')
            return fail_expected(s, "':'");
        s->p++;
        if (scan_value(s, depth))
            return -1;
        skip_space(s);
        if (s->p < s->end && *s->p == '}')
            return s->p++, 0;
        if (s->p == s->end || *s->p != ',')
            return fail_expected(s, "',' or '}'");
        s->p++;
    }
}

/* Arrays and objects: depth counts those already open. */
static int scan_nested(struct scan *s, int depth)
{
    bool is_object = *s->p == '{';
    if (depth >= s->rules->max_depth || depth >= JSON_SCAN_DEPTH)
        return fail_at(s, s->p, "nested too deeply");
    s->p++;
    skip_space(s);
    if (s->p < s->end && *s->p == (is_object ? '}' : ']'))
        return s->p++, 0;
    return is_object ? scan_object(s, depth + 1) : scan_array(s, depth + 1);
}

static int scan_value(struct scan *s, int depth)
{
    skip_space(s);
    if (s->p == s->end)
        return fail_expected(s, "a value");
    if (++s->n_node > s->rules->max_nodes)
        return fail_limit(s, "values", s->rules->max_nodes);
    switch (*s->p) {
    case '{':
    case '[':
        return scan_nested(s, depth);
    case '"':
        return scan_string(s, false);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        return *s->p == '-' || is_digit(s) ? scan_number(s) : fail_expected(s, "a value");
    }
}

int json_scan(const char *text, size_t len, const char *name, const struct json_rules *r,
              struct buf *nul, struct err *e)
{
    const unsigned char *p = (const unsigned char *)text;
    struct scan s = {
        .p = p, .end = p + len, .start = p, .name = name, .rules = r, .nul = nul, .e = e};
    ASSERT(nul || !r->allow_nul);
    if (len > r->max_bytes)
        return fail_limit(&s, "bytes", r->max_bytes);
    if (scan_value(&s, 0))
        return -1;
    skip_space(&s);
    return s.p == s.end ? 0 : fail_expected(&s, "nothing more");
}
