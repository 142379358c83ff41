/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds become regexes over digits, one alternative for each place at which a number may first
 * differ from its bound; the automata of both bounds are then met with that of all numbers.
 */
#include "engine/grammar/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/grammar/json_text.h"
#include "engine/grammar/multiple.h"
#include "engine/grammar/regex_parse.h"

#define FAR 1e15 /* no number of JSON_MAX_DIGITS lies behind it */

/* ---- bounds ---- */

static double as_double(const struct jvalue *v)
{
    return v->type == JT_INT ? (double)v->i : v->f;
}

/* Decimal without exponent, and without zeros at its end. */
static bool bound_text(const struct jvalue *v, char text[64])
{
    double f = as_double(v);
    if ((v->type != JT_INT && v->type != JT_FLOAT) || !isfinite(f))
        return false;
    text[0] = 0;
    if (fabs(f) >= FAR)
        return true;
    if (v->type == JT_INT) {
        snprintf(text, 64, "%lld", (long long)v->i);
        return true;
    }
    for (int digits = 0; digits <= 40; digits++) {
        snprintf(text, 64, "%.*f", digits, f);
        if (strtod(text, NULL) == f)
            break;
    }
    if (strchr(text, '.')) {
        char *end = text + strlen(text);
        while (end[-1] == '0')
            *--end = 0;
        if (end[-1] == '.')
            *--end = 0;
    }
    if (!strcmp(text, "-0"))
        snprintf(text, 64, "0");
    return true;
}

static int n_digits(const char *text)
{
    int n = 0;
    for (text += strspn(text, "-0."); *text; text++)
        n += *text != '.';
    return n;
}

/* A text of more digits than a double holds may be read as the bound itself: where the bound has so
 * many, the next number is the bound. */
static bool step_inside(struct bound *b, int sign)
{
    struct jvalue next = {.type = JT_FLOAT, .f = nextafter(b->value, sign * (double)INFINITY)};
    if (!b->is_exclusive || n_digits(b->text) < JSON_MAX_DIGITS)
        return true;
    b->is_exclusive = false;
    b->value = next.f;
    return bound_text(&next, b->text);
}

static bool narrow(struct bound *b, const struct jvalue *v, bool is_exclusive, int sign)
{
    struct bound n = {.is_set = true, .is_exclusive = is_exclusive, .value = as_double(v)};
    if (!bound_text(v, n.text) || (v->type == JT_FLOAT && !step_inside(&n, sign)))
        return false;
    if (!b->is_set || (n.value - b->value) * sign > 0)
        *b = n;
    else if (n.value == b->value)
        b->is_exclusive |= is_exclusive;
    return true;
}

bool number_at_least(struct number_range *r, const struct jvalue *v, bool is_exclusive)
{
    return narrow(&r->lo, v, is_exclusive, 1);
}

bool number_at_most(struct number_range *r, const struct jvalue *v, bool is_exclusive)
{
    return narrow(&r->hi, v, is_exclusive, -1);
}

bool number_is_free(const struct number_range *r)
{
    return !(r->lo.is_set && !(r->lo.value <= -FAR)) && !(r->hi.is_set && !(r->hi.value >= FAR)) &&
           !r->multiple;
}

bool number_admits(const struct number_range *r, const struct jvalue *v)
{
    double f = as_double(v);
    if (r->is_integer && f != floor(f))
        return false;
    if (r->lo.is_set && (f < r->lo.value || (f == r->lo.value && r->lo.is_exclusive)))
        return false;
    if (r->hi.is_set && (f > r->hi.value || (f == r->hi.value && r->hi.is_exclusive)))
        return false;
    if (r->multiple) {
        double q = f / as_double(r->multiple);
        return q == floor(q);
    }
    return true;
}

/* ---- regexes of digits ---- */

struct decimal {
    const char *whole, *part; /* digits before and behind the point */
    size_t n_whole, n_part;
};

static struct decimal decimal_of(const char *text)
{
    struct decimal d = {.whole = text + (*text == '-')};
    d.n_whole = strcspn(d.whole, ".");
    d.part = d.whole + d.n_whole + (d.whole[d.n_whole] == '.');
    d.n_part = strlen(d.part);
    return d;
}

static void put_digits(struct buf *b, char lo, char hi)
{
    buf_printf(b, "[%c-%c]", lo, hi);
}

/* |or: whole part not that of the bound but above it (or below it) */
static void put_other_wholes(struct buf *b, const struct decimal *d, bool above)
{
    if (above)
        buf_printf(b, "|[1-9]\\d{%zu,}(\\.\\d+)?", d->n_whole);
    else if (d->n_whole > 1)
        buf_printf(b, "|(0|[1-9]\\d{0,%zu})(\\.\\d+)?", d->n_whole - 2);
    for (size_t i = 0; i < d->n_whole; i++) {
        char c = d->whole[i], least = i == 0 && d->n_whole > 1 ? '1' : '0';
        if (above ? c == '9' : c <= least)
            continue;
        buf_printf(b, "|%.*s", (int)i, d->whole);
        put_digits(b, above ? c + 1 : least, above ? '9' : c - 1);
        buf_printf(b, "\\d{%zu}(\\.\\d+)?", d->n_whole - i - 1);
    }
}

/* At least the bound (text without its sign). */
static void put_at_least(struct buf *b, const char *text, bool is_exclusive)
{
    struct decimal d = decimal_of(text);
    int nw = (int)d.n_whole;
    buf_str(b, "^(");
    if (d.n_part == 0)
        buf_printf(b, is_exclusive ? "%.*s\\.0*[1-9]\\d*" : "%.*s(\\.\\d+)?", nw, d.whole);
    else
        buf_printf(b, is_exclusive ? "%.*s\\.%s\\d*[1-9]\\d*" : "%.*s\\.%s\\d*", nw, d.whole,
                   d.part);
    for (size_t i = 0; i < d.n_part; i++)
        if (d.part[i] < '9') {
            buf_printf(b, "|%.*s\\.%.*s", nw, d.whole, (int)i, d.part);
            put_digits(b, d.part[i] + 1, '9');
            buf_str(b, "\\d*");
        }
    put_other_wholes(b, &d, true);
    buf_str(b, ")$");
}

static void put_at_most(struct buf *b, const char *text, bool is_exclusive)
{
    struct decimal d = decimal_of(text);
    int nw = (int)d.n_whole;
    buf_str(b, "^([^0-9]");
    if (d.n_part == 0 && !is_exclusive)
        buf_printf(b, "|%.*s(\\.0+)?", nw, d.whole);
    if (d.n_part > 0) {
        buf_printf(b, "|%.*s", nw, d.whole);
        if (!is_exclusive)
            buf_printf(b, "|%.*s\\.%s0*", nw, d.whole, d.part);
    }
    for (size_t i = 0; i < d.n_part; i++) {
        if (i > 0)
            buf_printf(b, "|%.*s\\.%.*s", nw, d.whole, (int)i, d.part);
        if (d.part[i] > '0') {
            buf_printf(b, "|%.*s\\.%.*s", nw, d.whole, (int)i, d.part);
            put_digits(b, '0', d.part[i] - 1);
            buf_str(b, "\\d*");
        }
    }
    put_other_wholes(b, &d, false);
    buf_str(b, ")$");
}

static struct dfa *dfa_of_buf(struct budget *b, struct buf *text)
{
    struct node *n = text->failed ? NULL : regex_parse(b, text->data, text->len, REGEX_ECMA);
    struct dfa *d = n ? dfa_of(b, n, true) : NULL;
    if (!d)
        budget_fail(b, ERR_NO_MEMORY, "no memory for a range of numbers");
    buf_clear(text);
    return d;
}

/* Those of `d` that the regex in `text` has too. */
static struct dfa *met(struct budget *b, struct dfa *d, struct buf *text)
{
    struct dfa *other = d ? dfa_of_buf(b, text) : NULL;
    return other ? dfa_combine(b, DFA_AND, d, other) : NULL;
}

/* ---- all of it ---- */

/* How many digits behind the point: one more than the bounds have, or six where there is room. */
static int part_digits(const char *lo, const char *hi)
{
    struct decimal l = decimal_of(lo ? lo : ""), h = decimal_of(hi ? hi : "");
    int whole = (int)(l.n_whole > h.n_whole ? l.n_whole : h.n_whole);
    int part = (int)(l.n_part > h.n_part ? l.n_part : h.n_part) + 1;
    int room = JSON_MAX_DIGITS - whole < 6 ? JSON_MAX_DIGITS - whole : 6;
    return part > room ? part : room;
}

/* All numbers of JSON_MAX_DIGITS in sum: as many as a double tells apart, so that a reader who
 * rounds to one does not step over a bound. */
static void put_all(struct buf *b, int n_part)
{
    int n_whole = JSON_MAX_DIGITS - n_part > 1 ? JSON_MAX_DIGITS - n_part : 1;
    buf_printf(b, "^(0|[1-9]\\d{0,%d})", JSON_MAX_DIGITS - 1);
    if (n_part > 0)
        buf_printf(b, "$|^(0|[1-9]\\d{0,%d})\\.\\d{1,%d}", n_whole - 1, n_part);
    buf_str(b, "$");
}

/* What is written without a sign: at least `lo` and at most `hi`, as texts, NULL for none. */
static struct dfa *unsigned_dfa(struct budget *b, const struct number_range *r,
                                const struct multiple *m, const char *lo, bool lo_exclusive,
                                const char *hi, bool hi_exclusive, struct buf *text)
{
    put_all(text, r->is_integer ? 0 : m->dfa ? m->n_part : part_digits(lo, hi));
    struct dfa *d = dfa_of_buf(b, text);
    if (lo && *lo) {
        put_at_least(text, lo, lo_exclusive);
        d = met(b, d, text);
    }
    if (hi && *hi) {
        put_at_most(text, hi, hi_exclusive);
        d = met(b, d, text);
    }
    return d && m->dfa ? multiple_met(b, m, d) : d;
}

uint32_t number_build(struct build *d, const struct number_range *r, const char *path,
                      uint32_t next)
{
    struct budget *b = d->b;
    const struct bound *lo = &r->lo, *hi = &r->hi;
    bool plus = !hi->is_set || hi->value >= 0, minus = !lo->is_set || lo->value < 0;
    bool lo_counts = lo->is_set && lo->value >= 0, hi_counts = hi->is_set && hi->value <= 0;
    struct dfa *p = NULL, *m = NULL;
    struct multiple multiple = {.path = path};
    struct buf text;
    char step[64];
    if (r->multiple && multiple_init(b, &multiple, bound_text(r->multiple, step) ? step : ""))
        return PROGRAM_FAIL;
    if ((lo->is_set && lo->value >= FAR) || (hi->is_set && hi->value <= -FAR)) {
        budget_fail(b, ERR_UNSUPPORTED, "%s: numbers of more than %d digits", path,
                    JSON_MAX_DIGITS);
        return PROGRAM_FAIL;
    }
    buf_init(&text, REGEX_MAX_BYTES);
    if (plus)
        p = unsigned_dfa(b, r, &multiple, lo_counts ? lo->text : NULL, lo->is_exclusive,
                         hi->is_set ? hi->text : NULL, hi->is_exclusive, &text);
    if (minus && !b->failed) /* what is behind the sign is more than 0 */
        m = unsigned_dfa(b, r, &multiple, hi_counts && hi->value < 0 ? hi->text + 1 : "0",
                         !hi_counts || hi->value == 0 || hi->is_exclusive,
                         lo->is_set && *lo->text ? lo->text + 1 : NULL, lo->is_exclusive, &text);
    buf_release(&text);
    uint32_t at = p ? build_dfa(d, SPELL_PLAIN, p, next) : PROGRAM_FAIL;
    uint32_t below = m ? build_dfa(d, SPELL_PLAIN, m, next) : PROGRAM_FAIL;
    if (below != PROGRAM_FAIL)
        at = build_either(d, build_byte(d, '-', '-', below), at);
    return at;
}
