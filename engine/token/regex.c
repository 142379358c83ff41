/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between Oniguruma and PCRE2 and occurs in patterns: the meaning of \s, \w, \d, \h
 * outside ASCII, ^ and $ (always at lines in Ruby), sets inside sets and intersections (&&).
 * The classes become Unicode properties; nested sets have no twin and are an error.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/token/regex.h"

#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum {
    MAX_PATTERN_BYTES = 64 << 10,
    MATCH_LIMIT = 20000000,     /* backtracking steps of one match */
    HEAP_LIMIT_KIB = 256 << 10, /* what one match may take */
};

struct regex {
    pcre2_code *code;           /* owned */
    pcre2_match_context *limit; /* owned; only read while matching */
};

struct regex_run {
    pcre2_match_data *data; /* owned */
};

/* ---- translation ---- */

enum { MAX_NESTING = 100 };

struct cursor {
    const char *p, *end;
    struct buf *out;
    size_t atom;               /* where in out the last thing begins that can be repeated */
    size_t group[MAX_NESTING]; /* where the open groups begin */
    int depth;
};

/* The {L} of \p{L}. */
static void put_braces(struct cursor *c)
{
    const char *close = c->p < c->end && *c->p == '{' && strchr("pPxk", c->p[-1])
                            ? memchr(c->p, '}', (size_t)(c->end - c->p))
                            : NULL;
    if (!close)
        return;
    buf_add(c->out, c->p, (size_t)(close + 1 - c->p));
    c->p = close + 1;
}

/* One escape, at the letter behind the backslash. */
static void put_escape(struct cursor *c, bool in_set)
{
    static const char word[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    static const char hex[] = "0-9A-Fa-f";
    char letter = *c->p++;
    const char *set = letter == 'w' ? word : letter == 'h' ? hex : NULL;
    const char *not_set = letter == 'W' ? word : letter == 'H' ? hex : NULL;
    if (letter == 's')
        buf_str(c->out, "\\p{White_Space}");
    else if (letter == 'S')
        buf_str(c->out, "\\P{White_Space}");
    else if (set)
        buf_printf(c->out, in_set ? "%s" : "[%s]", set);
    else if (not_set && !in_set)
        buf_printf(c->out, "[^%s]", not_set);
    else if (letter == 'u' && c->end - c->p >= 4) {
        buf_printf(c->out, "\\x{%.4s}", c->p);
        c->p += 4;
    } else {
        buf_printf(c->out, "\\%c", letter);
        put_braces(c);
    }
}

/* A set, from behind its '[' to behind its ']'. */
static int put_set(struct cursor *c, struct err *e)
{
    bool first = true;
    if (c->p < c->end && *c->p == '^')
        buf_char(c->out, *c->p++);
    for (; c->p < c->end; first = false) {
        char ch = *c->p++;
        if (ch == ']' && !first) {
            buf_char(c->out, ch);
            return 0;
        }
        if (ch == '[' && c->p < c->end && *c->p != ':')
            return err_set(e, ERR_UNSUPPORTED, "a regex with a set inside a set");
        if (ch == '&' && c->p < c->end && *c->p == '&')
            return err_set(e, ERR_UNSUPPORTED, "a regex with an intersection of sets (&&)");
        if (ch == '[') { /* [:alpha:] */
            const char *close = memmem(c->p, (size_t)(c->end - c->p), ":]", 2);
            if (!close)
                return err_set(e, ERR_UNSUPPORTED, "a regex with a set inside a set");
            buf_char(c->out, ch);
            buf_add(c->out, c->p, (size_t)(close + 2 - c->p));
            c->p = close + 2;
        } else if (ch == '\\' && c->p < c->end) {
            if (*c->p == 'W' || *c->p == 'H')
                return err_set(e, ERR_UNSUPPORTED, "a regex with \\%c inside a set", *c->p);
            put_escape(c, true);
        } else {
            buf_char(c->out, ch);
        }
    }
    return err_set(e, ERR_BAD_INPUT, "a regex with a set that does not end");
}

/* "(?m:" lets the dot match a newline in Ruby, and means something else in PCRE2. */
static bool is_ruby_flag(const struct cursor *c)
{
    const char *p = c->p;
    if (c->end - p < 2 || *p++ != '?')
        return false;
    while (p < c->end && (*p == 'i' || *p == 'x' || *p == '-'))
        p++;
    return p < c->end && *p == 'm';
}

/* Puts the last atom, with the interval behind it, into a group of its own. */
static void wrap_atom(struct cursor *c)
{
    static const char open[] = "(?:";
    size_t n = sizeof open - 1;
    if (buf_str(c->out, "(?:)"))
        return;
    char *at = c->out->data + c->atom;
    memmove(at + n, at, c->out->len - n - 1 - c->atom);
    memcpy(at, open, n);
}

/* {n}, {n,}, {,m}, {n,m} at the cursor: its length, or 0. */
static size_t interval_len(const struct cursor *c)
{
    const char *p = c->p + 1;
    size_t n = 0;
    for (; p < c->end && ((*p >= '0' && *p <= '9') || *p == ','); p++)
        n++;
    return n && p < c->end && *p == '}' ? n + 2 : 0;
}

/* Ruby knows no possessive interval: x{1,3}+ is (?:x{1,3})+, and x{3}? is (?:x{3})?. */
static void put_interval(struct cursor *c, size_t len)
{
    bool is_exact = !memchr(c->p, ',', len);
    if (c->p[1] == ',')
        buf_printf(c->out, "{0%.*s", (int)len - 1, c->p + 1);
    else
        buf_add(c->out, c->p, len);
    c->p += len;
    if (c->p < c->end && (*c->p == '+' || (*c->p == '?' && is_exact)))
        wrap_atom(c);
}

/* What kind of group: its '?' is no quantifier. */
static void put_kind(struct cursor *c)
{
    size_t n = c->p < c->end && *c->p == '?';
    if (n) {
        const char *p = c->p + 1;
        while (p < c->end && (*p == 'i' || *p == 'x' || *p == '-' || *p == '<'))
            p++;
        if (p < c->end && (*p == ':' || *p == '=' || *p == '!' || *p == '>'))
            n = (size_t)(p + 1 - c->p);
    }
    buf_add(c->out, c->p, n);
    c->p += n;
}

static int put_open(struct cursor *c, struct err *e)
{
    if (c->depth == MAX_NESTING)
        return err_set(e, ERR_UNSUPPORTED, "a regex with groups deeper than %d", MAX_NESTING);
    c->group[c->depth++] = c->out->len;
    buf_char(c->out, *c->p++);
    if (is_ruby_flag(c))
        return err_set(e, ERR_UNSUPPORTED, "a regex with the flag (?m)");
    put_kind(c);
    return 0;
}

static int put_next(struct cursor *c, struct err *e)
{
    size_t begin = c->out->len, interval = *c->p == '{' ? interval_len(c) : 0;
    char ch = *c->p;
    if (interval) {
        put_interval(c, interval);
        return 0;
    }
    if (ch == '(')
        return put_open(c, e);
    if (ch == ')' && c->depth)
        c->atom = c->group[--c->depth];
    else if (!strchr("*+?", ch))
        c->atom = begin;
    c->p++;
    if (ch == '\\' && c->p < c->end) {
        put_escape(c, false);
        return 0;
    }
    buf_char(c->out, ch);
    return ch == '[' ? put_set(c, e) : 0;
}

int regex_translate(const char *pattern, size_t len, struct buf *out, struct err *e)
{
    struct cursor c = {.p = pattern, .end = pattern + len, .out = out, .atom = out->len};
    while (c.p < c.end)
        if (put_next(&c, e))
            return -1;
    return buf_check(out, "regex", e);
}

/* ---- compiling and matching ---- */

static int compile(struct regex *r, const char *pattern, size_t len, struct err *e)
{
    struct buf b;
    int code, rc = -1;
    size_t at;
    buf_init(&b, 16 * MAX_PATTERN_BYTES);
    if (regex_translate(pattern, len, &b, e))
        goto out;
    r->code = pcre2_compile((PCRE2_SPTR)(b.data ? b.data : ""), b.len,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                            &code, &at, NULL);
    if (!r->code) {
        char why[128] = "unknown";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        err_set(e, ERR_BAD_INPUT, "the regex does not compile: %s", why);
        goto out;
    }
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* without it the interpreter matches */
    r->limit = pcre2_match_context_create(NULL);
    if (!r->limit) {
        err_set(e, ERR_NO_MEMORY, "no memory for a regex");
        goto out;
    }
    pcre2_set_match_limit(r->limit, MATCH_LIMIT);
    pcre2_set_heap_limit(r->limit, HEAP_LIMIT_KIB);
    rc = 0;
out:
    buf_release(&b);
    return rc;
}

struct regex *regex_new(const char *pattern, size_t len, struct err *e)
{
    if (len > MAX_PATTERN_BYTES) {
        err_set(e, ERR_TOO_LARGE, "a regex of %zu bytes; at most %d", len, MAX_PATTERN_BYTES);
        return NULL;
    }
    struct regex *r = xcalloc(1, sizeof *r);
    if (compile(r, pattern, len, e)) {
        regex_free(r);
        return NULL;
    }
    return r;
}

void regex_free(struct regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    pcre2_match_context_free(r->limit);
    free(r);
}

struct regex_run *regex_run_new(const struct regex *r, struct err *e)
{
    struct regex_run *m = xcalloc(1, sizeof *m);
    m->data = pcre2_match_data_create_from_pattern(r->code, NULL);
    if (m->data)
        return m;
    err_set(e, ERR_NO_MEMORY, "no memory for a regex");
    free(m);
    return NULL;
}

void regex_run_free(struct regex_run *m)
{
    if (!m)
        return;
    pcre2_match_data_free(m->data);
    free(m);
}

int regex_find(const struct regex *r, struct regex_run *m, const uint8_t *text, size_t len,
               size_t start, size_t *lo, size_t *hi, struct err *e)
{
    uint32_t flags = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(r->code, text, len, start, flags, m->data, r->limit);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(r->code, text, len, start, flags | PCRE2_NO_JIT, m->data, r->limit);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0)
        return err_set(e, ERR_TOO_LARGE, "the text needs too many steps in the tokenizer's regex");
    const size_t *bounds = pcre2_get_ovector_pointer(m->data);
    *lo = bounds[0];
    *hi = bounds[1] > bounds[0] ? bounds[1] : bounds[0];
    if (*lo < start) /* \K in a lookbehind */
        *lo = *hi = start;
    return 1;
}
