/* SPDX-License-Identifier: Apache-2.0
 *
 * Escapes and sets of characters of a regular expression.
 *
 * \d, \w and \b are of ASCII in both dialects. \s is too in RE2; in ECMA-262 it has the white space
 * of Unicode, and of what is written for \s there only ASCII is made, while \S shuts out all of it:
 * the texts made then match in either reading.
 */
#include "engine/grammar/regex_parse.h"

#include <string.h>

#include "engine/token/uclass.h"
#include "engine/token/utf8.h"

int regex_fail(struct regex_text *t, const char *what)
{
    return budget_fail(t->b, ERR_BAD_INPUT, "the regex at byte %zu: %s",
                       (size_t)(t->p - t->begin) + 1, what);
}

uint32_t regex_next(struct regex_text *t)
{
    uint32_t c;
    t->p += utf8_get(t->p, &c);
    return c;
}

static int hex_of(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 87 : -1;
}

/* Exactly n digits, or up to n and a brace when n is negative. */
static int hex_digits(struct regex_text *t, int n, uint32_t *c)
{
    int most = n < 0 ? -n : n, i = 0;
    *c = 0;
    for (; i < most && t->p < t->end && hex_of(*t->p) >= 0; i++)
        *c = *c * 16 + (uint32_t)hex_of(*t->p++);
    if (n < 0 && i > 0 && t->p < t->end && *t->p == '}')
        t->p++;
    else if (i != n)
        return regex_fail(t, "an escape with too few or too many hexadecimal digits");
    if (*c > CHAR_MAX_CODE || (*c >= 0xd800 && *c <= 0xdfff))
        return regex_fail(t, "an escape that is no character of Unicode");
    return 0;
}

/* \uD83D\uDE00 is one character. */
static int utf16_digits(struct regex_text *t, uint32_t *c)
{
    uint32_t half[2] = {0};
    const uint8_t *p = t->p;
    for (int i = 0; i < 8; i++) {
        if (i == 4 && (t->end - p < 2 || *p++ != '\\' || *p++ != 'u'))
            return hex_digits(t, 4, c);
        if (p >= t->end || hex_of(*p) < 0)
            return hex_digits(t, 4, c);
        half[i / 4] = half[i / 4] * 16 + (uint32_t)hex_of(*p++);
    }
    if (half[0] >> 10 != 0xd800 >> 10 || half[1] >> 10 != 0xdc00 >> 10)
        return hex_digits(t, 4, c);
    t->p = p;
    *c = 0x10000 + ((half[0] & 0x3ff) << 10) + (half[1] & 0x3ff);
    return 0;
}

/* The ranges of a list "azAZ", the set without them when it is negated. */
static void add_ranges(struct regex_text *t, struct charset *set, const char *pairs, bool negated)
{
    struct charset s = {0};
    for (; *pairs; pairs += 2)
        charset_add(t->b, &s, (uint8_t)pairs[0], (uint8_t)pairs[1]);
    charset_tidy(&s);
    if (negated)
        s = charset_not(t->b, &s);
    charset_add_set(t->b, set, &s);
}

static void add_not_white(struct regex_text *t, struct charset *set)
{
    struct charset white = {0};
    charset_add(t->b, &white, 0x1c, 0x1f);
    charset_add(t->b, &white, 0xfeff, 0xfeff);
    for (uint32_t c = 0; c <= 0x3000; c++)
        if (uclass_is_white(c))
            charset_add(t->b, &white, c, c);
    charset_tidy(&white);
    white = charset_not(t->b, &white);
    charset_add_set(t->b, set, &white);
}

static int property(struct regex_text *t, bool negated, struct charset *set)
{
    struct charset s;
    const char *name = (const char *)t->p;
    size_t len = 1;
    if (t->p == t->end)
        return regex_fail(t, "\\p without a name");
    if (*t->p == '{') {
        const uint8_t *close = memchr(t->p, '}', (size_t)(t->end - t->p));
        if (!close)
            return regex_fail(t, "\\p{ without its }");
        name++;
        len = (size_t)(close - t->p) - 1;
        t->p = close + 1;
    } else {
        t->p++;
    }
    if (len && *name == '^') {
        negated = !negated;
        name++, len--;
    }
    if (charset_property(t->b, name, len, negated, &s))
        return -1;
    charset_add_set(t->b, set, &s);
    return 1;
}

static int class_of(struct regex_text *t, uint8_t letter, struct charset *set)
{
    switch (letter) {
    case 'd':
    case 'D':
        add_ranges(t, set, "09", letter == 'D');
        return 1;
    case 'w':
    case 'W':
        add_ranges(t, set, "09AZ__az", letter == 'W');
        return 1;
    case 's':
        add_ranges(t, set, t->dialect == REGEX_RE2 ? "\t\n\f\r  " : "\t\r  ", false);
        return 1;
    case 'S':
        if (t->dialect == REGEX_RE2)
            add_ranges(t, set, "\t\n\f\r  ", true);
        else
            add_not_white(t, set);
        return 1;
    case 'p':
    case 'P':
        return property(t, letter == 'P', set);
    default:
        return 0;
    }
}

int regex_escape(struct regex_text *t, bool in_set, struct charset *set, uint32_t *c)
{
    static const char plain[] = "n\nt\tr\rf\fv\v";
    if (t->p == t->end)
        return regex_fail(t, "a backslash at its end");
    uint8_t letter = *t->p;
    if (letter >= 0x80) {
        *c = regex_next(t);
        return 0;
    }
    t->p++;
    int rc = class_of(t, letter, set);
    if (rc)
        return rc;
    const char *at = strchr(plain, letter);
    *c = letter;
    if (at && letter && (at - plain) % 2 == 0) {
        *c = (uint8_t)at[1];
        return 0;
    }
    switch (letter) {
    case 'x':
        if (t->p < t->end && *t->p == '{') {
            t->p++;
            return hex_digits(t, -6, c);
        }
        return hex_digits(t, 2, c);
    case 'u':
        if (t->dialect == REGEX_RE2)
            break;
        if (t->p < t->end && *t->p == '{') {
            t->p++;
            return hex_digits(t, -6, c);
        }
        return utf16_digits(t, c);
    case 'a':
        *c = 7;
        return t->dialect == REGEX_RE2 ? 0 : regex_fail(t, "\\a is no escape here");
    case 'b':
        *c = 8;
        return in_set && t->dialect == REGEX_ECMA ? 0 : regex_fail(t, "\\b cannot stand here");
    case 'c':
        if (t->dialect == REGEX_ECMA && t->p < t->end && (*t->p | 32) >= 'a' &&
            (*t->p | 32) <= 'z') {
            *c = *t->p++ & 31;
            return 0;
        }
        break;
    case '0':
        for (*c = 0; t->p < t->end && *t->p >= '0' && *t->p <= '7' && *c < 32;)
            *c = *c * 8 + (*t->p++ - '0');
        return 0;
    case '1' ... '9':
        return regex_fail(t, "a reference to a group, which takes backtracking");
    default:
        if (!(letter >= 'a' && letter <= 'z') && !(letter >= 'A' && letter <= 'Z'))
            return 0;
    }
    return regex_fail(t, "an escape that is not known");
}

/* [:alpha:] inside a set; 0: no such thing stands here. */
static int posix_class(struct regex_text *t, struct charset *set)
{
    static const struct {
        const char *name, *pairs;
    } row[] = {
        {"alnum", "09AZaz"},
        {"alpha", "AZaz"},
        {"ascii", "\001\177"},
        {"blank", "\t\t  "},
        {"cntrl", "\001\037\177\177"},
        {"digit", "09"},
        {"graph", "!~"},
        {"lower", "az"},
        {"print", " ~"},
        {"punct", "!/:@[`{~"},
        {"space", "\t\r  "},
        {"upper", "AZ"},
        {"word", "09AZ__az"},
        {"xdigit", "09AFaf"},
    };
    const uint8_t *name = t->p + 2;
    if (t->dialect == REGEX_ECMA || t->end - t->p < 4 || t->p[1] != ':')
        return 0;
    const uint8_t *close = memmem(name, (size_t)(t->end - name), ":]", 2);
    if (!close)
        return 0;
    bool negated = *name == '^';
    name += negated;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t len = strlen(row[i].name);
        if ((size_t)(close - name) != len || memcmp(name, row[i].name, len) != 0)
            continue;
        struct charset s = {0};
        for (const char *p = row[i].pairs; *p; p += 2)
            charset_add(t->b, &s, (uint8_t)p[0], (uint8_t)p[1]);
        if (*row[i].name == 'c' || !strcmp(row[i].name, "ascii"))
            charset_add(t->b, &s, 0, 0);
        charset_tidy(&s);
        if (negated)
            s = charset_not(t->b, &s);
        charset_add_set(t->b, set, &s);
        t->p = close + 2;
        return 1;
    }
    return regex_fail(t, "a class [:name:] that is not known");
}

/* One member of a set: 1 for a class, 0 for the character *c. */
static int member(struct regex_text *t, struct charset *set, uint32_t *c)
{
    if (*t->p == '[') {
        int rc = posix_class(t, set);
        if (rc)
            return rc;
    }
    if (*t->p != '\\') {
        *c = regex_next(t);
        return 0;
    }
    t->p++;
    return regex_escape(t, true, set, c);
}

int regex_set(struct regex_text *t, struct charset *set)
{
    struct charset s = {0}, one = {0};
    bool negated = t->p < t->end && *t->p == '^', first = true;
    t->p += negated;
    for (; t->p < t->end && budget_tick(t->b, 1); first = false) {
        uint32_t lo = 0, hi = 0;
        if (*t->p == ']' && (!first || t->dialect == REGEX_ECMA))
            break;
        int rc = member(t, &one, &lo);
        if (rc < 0)
            return -1;
        if (rc > 0)
            continue;
        hi = lo;
        if (t->end - t->p >= 2 && *t->p == '-' && t->p[1] != ']') {
            t->p++;
            rc = member(t, &one, &hi);
            if (rc < 0)
                return -1;
            if (rc > 0) { /* [a-\d]: a, a hyphen and the digits */
                charset_add(t->b, &s, '-', '-');
                hi = lo;
            }
        }
        if (hi < lo)
            return regex_fail(t, "a range whose end lies before its beginning");
        charset_add(t->b, &s, lo, hi);
    }
    if (t->p >= t->end)
        return regex_fail(t, "a set without its ]");
    t->p++;
    charset_tidy(&s);
    charset_add_set(t->b, &s, &one);
    if (t->no_case && charset_fold(t->b, &s))
        return -1;
    *set = negated ? charset_not(t->b, &s) : s;
    return t->b->failed ? -1 : 0;
}
