/* SPDX-License-Identifier: Apache-2.0
 *
 * By descent into a list of steps for a machine with a stack: depth is bounded while it is read, so
 * the stack has a size.
 */
#include "api/formula.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

enum { DEPTH_MAX = 32, STACK_MAX = 512 };

enum code { PUT, VALUE, ADD, SUB, MUL, DIV, POW, NEG, MIN, MAX, ABS, FLOOR, CEIL, EXP, SQRT, LOG };

struct step {
    enum code code;
    double number; /* PUT */
    size_t value;  /* VALUE */
};

struct formula {
    size_t n;
    struct step step[];
};

struct reader {
    const char *p, *end;
    const char *const *name;
    size_t n_name;
    struct formula *out;
    int depth, stack, most;
    char *why; /* [n_why] */
    size_t n_why;
};

static const struct {
    const char *name;
    enum code code;
    bool is_of_many;
} functions[] = {{"min", MIN, true},      {"max", MAX, true},    {"abs", ABS, false},
                 {"floor", FLOOR, false}, {"ceil", CEIL, false}, {"exp", EXP, false},
                 {"sqrt", SQRT, false},   {"log", LOG, false}};

enum { N_FUNCTION = sizeof functions / sizeof *functions };

static int bad(struct reader *r, const char *what)
{
    snprintf(r->why, r->n_why, "%s", what);
    return -1;
}

/* Another step; it leaves so many numbers more on the stack. There are fewer steps than bytes. */
static void add(struct reader *r, struct step s, int grows)
{
    r->out->step[r->out->n++] = s;
    r->stack += grows;
    r->most = r->stack > r->most ? r->stack : r->most;
}

static void add_code(struct reader *r, enum code code, int grows)
{
    add(r, (struct step){.code = code}, grows);
}

static void skip_space(struct reader *r)
{
    while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p)
        r->p++;
}

/* Whether this character comes, and is taken. */
static bool take(struct reader *r, char c)
{
    skip_space(r);
    if (r->p >= r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

static int read_sum(struct reader *r);

/* strtod wants an end, and knows words and hexadecimal digits that are none here. */
static int read_number(struct reader *r)
{
    char text[64], *end;
    size_t n = 0;
    while (r->p + n < r->end && n + 1 < sizeof text &&
           (isdigit((unsigned char)r->p[n]) || r->p[n] == '.' ||
            ((r->p[n] == 'e' || r->p[n] == 'E') && n > 0) ||
            ((r->p[n] == '-' || r->p[n] == '+') && n > 0 && (r->p[n - 1] | 32) == 'e')))
        n++;
    memcpy(text, r->p, n);
    text[n] = 0;
    double x = strtod(text, &end);
    if (end == text || !isfinite(x))
        return bad(r, "has a number that cannot be read");
    r->p += end - text;
    add(r, (struct step){.code = PUT, .number = x}, 1);
    return 0;
}

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static int read_call(struct reader *r, size_t i)
{
    int n = 0;
    if (!take(r, '('))
        return bad(r, "names a function without its '('");
    do {
        if (read_sum(r))
            return -1;
        if (n++ > 0 && functions[i].is_of_many)
            add_code(r, functions[i].code, -1);
    } while (take(r, ','));
    if (!take(r, ')'))
        return bad(r, "has a '(' without its ')'");
    if (functions[i].is_of_many ? n < 2 : n != 1)
        return bad(r, functions[i].is_of_many ? "gives min or max fewer than two numbers"
                                              : "gives a function of one number several");
    if (!functions[i].is_of_many)
        add_code(r, functions[i].code, 0);
    return 0;
}

static int read_word(struct reader *r)
{
    const char *word = r->p;
    while (r->p < r->end && is_word_char(*r->p))
        r->p++;
    size_t n = (size_t)(r->p - word);
    for (size_t i = 0; i < r->n_name; i++)
        if (strlen(r->name[i]) == n && !memcmp(r->name[i], word, n)) {
            add(r, (struct step){.code = VALUE, .value = i}, 1);
            return 0;
        }
    for (size_t i = 0; i < N_FUNCTION; i++)
        if (strlen(functions[i].name) == n && !memcmp(functions[i].name, word, n))
            return read_call(r, i);
    snprintf(r->why, r->n_why, "names '%.*s', which is none of its graders and no function",
             (int)(n < 64 ? n : 64), word);
    return -1;
}

static int read_atom(struct reader *r)
{
    if (take(r, '(')) {
        if (read_sum(r))
            return -1;
        return take(r, ')') ? 0 : bad(r, "has a '(' without its ')'");
    }
    if (r->p >= r->end)
        return bad(r, "ends where a number is due");
    if (isdigit((unsigned char)*r->p) || *r->p == '.')
        return read_number(r);
    if (is_word_char(*r->p))
        return read_word(r);
    return bad(r, "has a character that is not of a formula");
}

static int read_sign(struct reader *r);

static int read_power(struct reader *r)
{
    if (read_atom(r))
        return -1;
    if (!take(r, '^'))
        return 0;
    if (read_sign(r))
        return -1;
    add_code(r, POW, -1);
    return 0;
}

/* What opens another level: of each there is a bounded number. */
static int read_sign(struct reader *r)
{
    bool is_minus = take(r, '-');
    if (!is_minus)
        take(r, '+');
    if (++r->depth > DEPTH_MAX)
        return bad(r, "is nested too deep");
    if (read_power(r))
        return -1;
    if (is_minus)
        add_code(r, NEG, 0);
    r->depth--;
    return 0;
}

static int read_product(struct reader *r)
{
    if (read_sign(r))
        return -1;
    for (;;) {
        enum code code = take(r, '*') ? MUL : take(r, '/') ? DIV : PUT;
        if (code == PUT)
            return 0;
        if (read_sign(r))
            return -1;
        add_code(r, code, -1);
    }
}

static int read_sum(struct reader *r)
{
    if (read_product(r))
        return -1;
    for (;;) {
        enum code code = take(r, '+') ? ADD : take(r, '-') ? SUB : PUT;
        if (code == PUT)
            return 0;
        if (read_product(r))
            return -1;
        add_code(r, code, -1);
    }
}

const struct formula *formula_new(struct arena *a, const char *text, size_t n,
                                  const char *const *name, size_t n_name, char *why, size_t n_why)
{
    if (n > FORMULA_BYTES_MAX) {
        snprintf(why, n_why, "is too long: at most %d bytes", FORMULA_BYTES_MAX);
        return NULL;
    }
    struct formula *f = arena_alloc(a, sizeof *f + (n + 1) * sizeof *f->step);
    struct reader r = {.p = text,
                       .end = text + n,
                       .name = name,
                       .n_name = n_name,
                       .out = f,
                       .why = why,
                       .n_why = n_why};
    if (read_sum(&r))
        return NULL;
    skip_space(&r);
    if (r.p < r.end) {
        bad(&r, "has something behind its end");
        return NULL;
    }
    ASSERT(r.most <= STACK_MAX && r.stack == 1);
    return f;
}

static double of_one(enum code code, double x)
{
    switch (code) {
    case NEG:
        return -x;
    case ABS:
        return fabs(x);
    case FLOOR:
        return floor(x);
    case CEIL:
        return ceil(x);
    case EXP:
        return exp(x);
    case SQRT:
        return sqrt(x);
    default:
        return log(x);
    }
}

/* min and max of something that is no number are none, whichever side it stands on. */
static double of_two(enum code code, double x, double y)
{
    switch (code) {
    case ADD:
        return x + y;
    case SUB:
        return x - y;
    case MUL:
        return x * y;
    case DIV:
        return x / y;
    case POW:
        return pow(x, y);
    case MIN:
        return isnan(x) || x < y ? x : y;
    default:
        return isnan(x) || x > y ? x : y;
    }
}

double formula_value(const struct formula *f, const double *value)
{
    double stack[STACK_MAX];
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        const struct step *s = &f->step[i];
        if (s->code == PUT) {
            stack[n++] = s->number;
        } else if (s->code == VALUE) {
            stack[n++] = value[s->value];
        } else if ((s->code >= ADD && s->code <= POW) || s->code == MIN || s->code == MAX) {
            n--;
            stack[n - 1] = of_two(s->code, stack[n - 1], stack[n]);
        } else {
            stack[n - 1] = of_one(s->code, stack[n - 1]);
        }
    }
    return stack[0];
}
