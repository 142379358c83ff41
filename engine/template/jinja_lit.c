/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and string escapes. Nothing here depends on the locale but strtod, and the program never
 * calls setlocale for numbers.
 */
#include "engine/template/jinja_lit.h"

#include <stdlib.h>
#include <string.h>

#include "engine/template/jinja_uni.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* The end of the digits at p, which single underscores may part; p when there are none. */
static const char *digits(const char *p, const char *end, int base)
{
    const char *begin = p;
    while (p < end) {
        const char *d = p + (*p == '_' && p > begin);
        if (d == end || digit_value(*d) >= base)
            break;
        p = d + 1;
    }
    return p;
}

size_t jlit_float(const char *p, const char *end, bool is_after_dot, double *out)
{
    if (is_after_dot || p == end || !is_digit(*p))
        return 0;
    const char *q = digits(p, end, 10), *whole = q;
    if (q + 1 < end && *q == '.' && is_digit(q[1]))
        q = digits(q + 1, end, 10);
    if (q + 1 < end && (*q == 'e' || *q == 'E')) {
        const char *x = q + 1 + (q[1] == '+' || q[1] == '-');
        if (x < end && is_digit(*x))
            q = digits(x, end, 10);
    }
    if (q == whole || (size_t)(q - p) > 400)
        return 0;
    char text[401];
    size_t n = 0;
    for (const char *s = p; s < q; s++)
        if (*s != '_')
            text[n++] = *s;
    text[n] = 0;
    *out = strtod(text, NULL);
    return (size_t)(q - p);
}

size_t jlit_int(const char *p, const char *end, int64_t *out)
{
    int base = 10;
    const char *s = p;
    if (end - p > 2 && *p == '0') {
        int kind = p[1] | 0x20;
        int b = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
        size_t gap = p[2] == '_' && end - p > 3;
        if (b && digit_value(p[2 + gap]) < b) {
            base = b;
            s = p + 2 + gap;
        }
    }
    const char *q = digits(s, end, base);
    if (base == 10 && *p == '0') /* a decimal zero ends before any other digit */
        for (q = s; q < end && *q == '0';)
            q++;
    int64_t v = 0;
    for (; s < q; s++)
        if (*s != '_' &&
            (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit_value(*s), &v)))
            return 0;
    *out = v;
    return (size_t)(q - p);
}

/* n hex digits at p as a code point; -1 when they are not there. */
static int64_t hex(const char *p, const char *end, int n)
{
    int64_t c = 0;
    if (end - p < n)
        return -1;
    for (int i = 0; i < n; i++) {
        int d = digit_value(p[i]);
        if (d > 15)
            return -1;
        c = c * 16 + d;
    }
    return c;
}

/* The escape after a backslash at *p; writes its bytes to out. Returns bytes, or -1. */
static int escape(const char **p, const char *end, char out[4], struct err *e)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = *(*p)++;
    const char *at = c ? strchr(from, c) : NULL;
    if (at) {
        out[0] = to[at - from];
        return 1;
    }
    if (c == '\n')
        return 0;
    if (c >= '0' && c <= '7') {
        int v = c - '0';
        for (int i = 0; i < 2 && *p < end && **p >= '0' && **p <= '7'; i++)
            v = v * 8 + (*(*p)++ - '0');
        return (int)juni_put((uint32_t)v, out);
    }
    int n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n == 0) { /* not an escape: the backslash stays */
        if (c == 'N')
            return err_set(e, ERR_UNSUPPORTED, "\\N{...} in a string literal");
        (*p)--;
        out[0] = '\\';
        return 1;
    }
    int64_t v = hex(*p, end, n);
    if (v < 0 || v > 0x10FFFF || (v >= 0xD800 && v <= 0xDFFF))
        return err_set(e, ERR_BAD_INPUT, "bad \\%c escape in a string literal", c);
    *p += n;
    return (int)juni_put((uint32_t)v, out);
}

int jlit_unescape(struct arena *a, const char *s, size_t n, const char **out, size_t *out_len,
                  struct err *e)
{
    *out = s;
    *out_len = n;
    if (n == 0 || !memchr(s, '\\', n))
        return 0;
    char *buf = arena_try(a, n + 4, 1, e);
    if (!buf)
        return -1;
    size_t w = 0;
    for (const char *p = s, *end = s + n; p < end;) {
        if (*p != '\\') {
            buf[w++] = *p++;
            continue;
        }
        p++;
        if (p == end)
            return err_set(e, ERR_BAD_INPUT, "a string literal ends with a backslash");
        int k = escape(&p, end, buf + w, e);
        if (k < 0)
            return -1;
        w += (size_t)k;
    }
    *out = buf;
    *out_len = w;
    return 0;
}
