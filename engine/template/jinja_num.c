/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text, both ways, as Python does it: repr() of a float is the shortest text that reads
 * back as the same float.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/template/jinja_ops.h"
#include "engine/template/jinja_uni.h"

size_t jnum_int(int64_t i, char out[JNUM_TEXT])
{
    return (size_t)snprintf(out, JNUM_TEXT, "%lld", (long long)i);
}

/* The fewest digits that read back as f, with the exponent of the first. */
static int shortest(double f, char digits[24], int *exp10)
{
    char text[40];
    /* 15 digits always fit a normal number, and trailing zeros are cut below */
    for (int n = fabs(f) < 1e-300 ? 1 : 15; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, f);
        if (strtod(text, NULL) == f)
            break;
    }
    int n = 0;
    const char *p = text + (*text == '-');
    for (; *p != 'e'; p++)
        if (*p != '.')
            digits[n++] = *p;
    *exp10 = (int)strtol(p + 1, NULL, 10);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return n;
}

size_t jnum_float(double f, char out[JNUM_TEXT])
{
    if (isnan(f) || isinf(f))
        return (size_t)snprintf(out, JNUM_TEXT, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
    char d[24];
    int exp10, n = f == 0 ? 1 : shortest(f, d, &exp10);
    if (f == 0) {
        d[0] = '0';
        exp10 = 0;
    }
    char *w = out;
    if (signbit(f))
        *w++ = '-';
    if (exp10 < -4 || exp10 >= 16) {
        *w++ = d[0];
        if (n > 1)
            *w++ = '.';
        memcpy(w, d + 1, (size_t)n - 1);
        w += n - 1;
        w += snprintf(w, JNUM_TEXT - (size_t)(w - out), "e%c%02d", exp10 < 0 ? '-' : '+',
                      abs(exp10));
        return (size_t)(w - out);
    }
    if (exp10 < 0) {
        *w++ = '0';
        *w++ = '.';
        for (int i = -1; i > exp10; i--)
            *w++ = '0';
        memcpy(w, d, (size_t)n);
        w += n;
    } else {
        for (int i = 0; i <= exp10; i++)
            *w++ = i < n ? d[i] : '0';
        *w++ = '.';
        if (n <= exp10 + 1)
            *w++ = '0';
        for (int i = exp10 + 1; i < n; i++)
            *w++ = d[i];
    }
    *w = 0;
    return (size_t)(w - out);
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

int jnum_parse_int(const char *p, size_t n, int base, int64_t *out)
{
    const char *end = juni_rstrip_space(p, p + n);
    p = juni_skip_space(p, end);
    bool is_neg = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    if (end - p > 2 && *p == '0') {
        int kind = p[1] | 0x20, b = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
        if (b && (base == b || base == 0)) {
            base = b;
            p += 2 + (p[2] == '_');
        }
    }
    base = base ? base : 10;
    int64_t v = 0;
    bool is_big = false, was_digit = false;
    for (; p < end; p++) {
        if (*p == '_' && was_digit) {
            was_digit = false;
            continue;
        }
        int d = digit_of(*p);
        if (d >= base)
            return -1;
        was_digit = true;
        is_big |= __builtin_mul_overflow(v, base, &v) || __builtin_sub_overflow(v, d, &v);
    }
    if (!was_digit)
        return -1;
    if (is_big || (!is_neg && v == INT64_MIN))
        return -2;
    *out = is_neg ? v : -v;
    return 0;
}

/* nan, inf, infinity, whatever their case and sign. */
static bool parse_special(const char *s, double *out)
{
    bool is_neg = *s == '-';
    s += *s == '-' || *s == '+';
    if (strcasecmp(s, "nan") == 0)
        *out = NAN;
    else if (strcasecmp(s, "inf") == 0 || strcasecmp(s, "infinity") == 0)
        *out = is_neg ? -INFINITY : INFINITY;
    else
        return false;
    return true;
}

int jnum_parse_float(const char *p, size_t n, double *out)
{
    char text[512];
    const char *end = juni_rstrip_space(p, p + n);
    size_t w = 0;
    p = juni_skip_space(p, end);
    if (p == end || (size_t)(end - p) >= sizeof text)
        return -1;
    for (const char *s = p; s < end; s++) {
        if (*s == '_' && s > p && s + 1 < end && digit_of(s[-1]) < 10 && digit_of(s[1]) < 10)
            continue;
        text[w++] = *s;
    }
    text[w] = 0;
    if (strlen(text) != w)
        return -1;
    if (parse_special(text, out))
        return 0;
    if (strspn(text, "0123456789+-.eE") != w)
        return -1;
    char *stop;
    *out = strtod(text, &stop);
    return *stop || stop == text ? -1 : 0;
}
