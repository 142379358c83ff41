/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers are written to a small buffer as sign, prefix and digits, which are then grouped, padded
 * and copied to the sink. Precision has a ceiling, so the buffer never overflows.
 */
#include "engine/template/jinja_spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PRECISION = 100, NUMBER_BYTES = 800 };

static void pad(struct jsink *s, const struct jspec *spec, size_t n, uint32_t origin)
{
    if (spec->fill < 0x80) {
        jsink_fill(s, (char)spec->fill, n, origin);
        return;
    }
    for (size_t i = 0; i < n && !s->failed; i++)
        jsink_char(s, spec->fill, origin);
}

/* How much of `missing` goes before the text. */
static size_t pad_before(const struct jspec *spec, char align, size_t missing)
{
    char a = spec->align ? spec->align : align;
    return a == '<' ? 0 : a == '^' ? missing / 2 : missing;
}

int jspec_string(struct jsink *s, const struct jspec *spec, const struct jvalue *str)
{
    size_t n = str->s->n_cp;
    if (spec->precision >= 0 && (size_t)spec->precision < n)
        n = (size_t)spec->precision;
    size_t missing = spec->width > (int64_t)n ? (size_t)spec->width - n : 0;
    size_t before = pad_before(spec, '<', missing);
    pad(s, spec, before, JORIGIN_TEMPLATE);
    jsink_part(s, str, 0, jtext_offset(str, n));
    pad(s, spec, missing - before, JORIGIN_TEMPLATE);
    return s->failed ? -1 : 0;
}

/* digits with a separator before each group of three whole digits */
static size_t group(char *digits, size_t n, size_t n_whole, char sep)
{
    char out[NUMBER_BYTES];
    size_t w = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && i < n_whole && (n_whole - i) % 3 == 0)
            out[w++] = sep;
        out[w++] = digits[i];
    }
    memcpy(digits, out, w);
    return w;
}

static size_t write_integer(char *out, uint64_t u, char type)
{
    static const char digits[] = "0123456789abcdef";
    unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    char tmp[64];
    size_t n = 0;
    do {
        char c = digits[u % base];
        tmp[n++] = type == 'X' && c >= 'a' ? (char)(c - 32) : c;
        u /= base;
    } while (u);
    for (size_t i = 0; i < n; i++)
        out[i] = tmp[n - 1 - i];
    return n;
}

static size_t print_float(char *out, char type, bool alternate, int precision, double f)
{
    int n;
    switch (type) {
    case 'e':
        n = snprintf(out, NUMBER_BYTES, alternate ? "%#.*e" : "%.*e", precision, f);
        break;
    case 'E':
        n = snprintf(out, NUMBER_BYTES, alternate ? "%#.*E" : "%.*E", precision, f);
        break;
    case 'f':
    case 'F':
        n = snprintf(out, NUMBER_BYTES, alternate ? "%#.*f" : "%.*f", precision, f);
        break;
    case 'G':
        n = snprintf(out, NUMBER_BYTES, alternate ? "%#.*G" : "%.*G", precision, f);
        break;
    default:
        n = snprintf(out, NUMBER_BYTES, alternate ? "%#.*g" : "%.*g", precision, f);
    }
    return (size_t)n;
}

static size_t write_float(char *out, double f, const struct jspec *spec)
{
    char type = spec->type == 'n' ? 'g' : spec->type;
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    if (!isfinite(f)) {
        const char *text = isnan(f) ? "nan" : "inf";
        bool is_upper = type == 'E' || type == 'F' || type == 'G';
        return (size_t)snprintf(out, NUMBER_BYTES, "%s",
                                is_upper ? (isnan(f) ? "NAN" : "INF") : text);
    }
    if (type == 0 && spec->precision < 0)
        return jnum_float(f, out);
    if (type == '%') {
        size_t n = (size_t)snprintf(out, NUMBER_BYTES, "%.*f", precision, f * 100);
        out[n] = '%';
        return n + 1;
    }
    return print_float(out, type ? type : 'g', spec->alternate, precision, f);
}

static int check_spec(struct jsink *s, const struct jspec *spec)
{
    if (spec->precision <= MAX_PRECISION)
        return 0;
    jrun_fail(s->r, "a format asks for more than %d digits", MAX_PRECISION);
    return jsink_fail(s);
}

/* The sign and prefix go to head, the digits to digits. */
static size_t write_digits(const struct jspec *spec, const struct jvalue *v, char head[4],
                           char *digits)
{
    int64_t i = 0;
    char t = spec->type;
    bool is_int = jop_integer(v, &i);
    bool as_int = is_int && (t == 0 || strchr("dnboxX", t));
    double f = 0;
    jop_number(v, &f);
    bool is_neg = as_int ? i < 0 : signbit(f) != 0;
    size_t h = 0;
    if (is_neg || spec->sign)
        head[h++] = is_neg ? '-' : spec->sign;
    if (as_int && spec->alternate && t && strchr("boxX", t)) {
        head[h++] = '0';
        head[h++] = t;
    }
    head[h] = 0;
    if (as_int)
        return write_integer(digits, is_neg ? 0 - (uint64_t)i : (uint64_t)i, t);
    return write_float(digits, fabs(f), spec);
}

int jspec_number(struct jsink *s, const struct jspec *spec, const struct jvalue *v)
{
    char head[4], digits[NUMBER_BYTES];
    if (check_spec(s, spec))
        return -1;
    if (!strchr("dnboxXeEfFgG%", spec->type ? spec->type : 'd')) {
        jrun_fail(s->r, "Unknown format code '%c' for object of type '%s'", spec->type,
                  jobj_type(v));
        return jsink_fail(s);
    }
    if (v->type == JT_FLOAT && spec->type && strchr("dboxX", spec->type)) {
        jrun_fail(s->r, "Unknown format code '%c' for object of type 'float'", spec->type);
        return jsink_fail(s);
    }
    size_t n = write_digits(spec, v, head, digits), h = strlen(head);
    size_t whole = 0;
    while (whole < n && digits[whole] >= '0' && digits[whole] <= '9')
        whole++;
    if (spec->group)
        n = group(digits, n, whole, spec->group);
    size_t missing = spec->width > (int64_t)(n + h) ? (size_t)spec->width - n - h : 0;
    if (spec->align == '=') {
        jsink_add(s, head, h, v->origin);
        pad(s, spec, missing, v->origin);
        jsink_add(s, digits, n, v->origin);
    } else {
        size_t before = pad_before(spec, '>', missing);
        pad(s, spec, before, JORIGIN_TEMPLATE);
        jsink_add(s, head, h, v->origin);
        jsink_add(s, digits, n, v->origin);
        pad(s, spec, missing - before, JORIGIN_TEMPLATE);
    }
    return s->failed ? -1 : 0;
}
