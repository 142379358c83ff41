/* SPDX-License-Identifier: Apache-2.0
 *
 * A text is checked against the grammar first, then handed to strtod or summed by hand: what
 * strtol and strtod accept besides (spaces, a plus sign, hexadecimal, "inf", "nan") never reaches
 * them. The program never leaves the C locale, so their point is a point.
 */
#include "engine/base/num.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *s)
{
    while (is_digit(*s))
        s++;
    return s;
}

int num_int(const char *text, int64_t min, int64_t max, int64_t *value, struct err *e)
{
    bool is_negative = *text == '-', fits = true;
    const char *s = text + is_negative;
    int64_t v = 0;
    if (!is_digit(*s) || *skip_digits(s))
        return err_set(e, ERR_BAD_INPUT, "\"%.40s\" is not a whole number", text);
    for (; *s && fits; s++) {
        int digit = *s - '0';
        fits = !__builtin_mul_overflow(v, 10, &v) &&
               !__builtin_add_overflow(v, is_negative ? -digit : digit, &v);
    }
    if (!fits || v < min || v > max)
        return err_set(e, ERR_BAD_INPUT, "%.40s is not from %" PRId64 " to %" PRId64, text, min,
                       max);
    *value = v;
    return 0;
}

/* Behind digits with or without a fraction; NULL when there is no digit. */
static const char *skip_fixed(const char *s)
{
    const char *whole = s;
    s = skip_digits(s);
    bool has_digit = s > whole;
    if (*s == '.') {
        const char *fraction = s + 1;
        s = skip_digits(fraction);
        has_digit |= s > fraction;
    }
    return has_digit ? s : NULL;
}

/* The same, with or without an exponent. */
static const char *skip_decimal(const char *s)
{
    s = skip_fixed(s);
    if (!s || (*s != 'e' && *s != 'E'))
        return s;
    const char *exponent = s + 1 + (s[1] == '-' || s[1] == '+');
    return is_digit(*exponent) ? skip_digits(exponent) : NULL;
}

int num_double(const char *text, double min, double max, double *value, struct err *e)
{
    const char *end = skip_decimal(text + (*text == '-'));
    if (!end || *end)
        return err_set(e, ERR_BAD_INPUT, "\"%.40s\" is not a number", text);
    double v = strtod(text, NULL);
    if (!isfinite(v) || v < min || v > max)
        return err_set(e, ERR_BAD_INPUT, "%.40s is not from %g to %g", text, min, max);
    *value = v;
    return 0;
}

/* The factor of a unit; 0: no unit. */
static int64_t unit_of(const char *s)
{
    static const char letters[] = "KMGT";
    if (!*s || !strcmp(s, "B"))
        return 1;
    for (int i = 0; letters[i]; i++) {
        if ((*s & ~0x20) == letters[i])
            return !s[1] || !strcmp(s + 1, "B") || !strcmp(s + 1, "iB") ? INT64_C(1) << 10 * (i + 1)
                                                                        : 0;
    }
    return 0;
}

int num_size(const char *text, int64_t min, int64_t max, int64_t *bytes, struct err *e)
{
    const char *end = skip_fixed(text), *at = text;
    int64_t unit = end ? unit_of(end) : 0, whole = 0;
    if (!unit)
        return err_set(e, ERR_BAD_INPUT, "\"%.40s\" is not a size, such as 512M or 8G", text);
    bool fits = true;
    for (; is_digit(*at) && fits; at++)
        fits = !__builtin_mul_overflow(whole, 10, &whole) &&
               !__builtin_add_overflow(whole, *at - '0', &whole);
    fits = fits && !__builtin_mul_overflow(whole, unit, &whole);
    if (*at == '.')
        fits = fits &&
               !__builtin_add_overflow(whole, (int64_t)(strtod(at, NULL) * (double)unit), &whole);
    if (!fits || whole < min || whole > max) {
        char lo[NUM_TEXT_BYTES], hi[NUM_TEXT_BYTES];
        return err_set(e, ERR_BAD_INPUT, "%.40s is not from %s to %s", text, num_size_text(min, lo),
                       num_size_text(max, hi));
    }
    *bytes = whole;
    return 0;
}

char *num_size_text(int64_t bytes, char text[NUM_TEXT_BYTES])
{
    static const char *const unit[] = {"", "K", "M", "G", "T"};
    int i = 0;
    for (; i < 4 && bytes && bytes % 1024 == 0; i++)
        bytes /= 1024;
    snprintf(text, NUM_TEXT_BYTES, "%" PRId64 "%s", bytes, unit[i]);
    return text;
}

int num_bool(const char *text, bool *value, struct err *e)
{
    static const char *const word[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (int i = 0; i < 8; i++) {
        if (!strcmp(text, word[i])) {
            *value = i & 1;
            return 0;
        }
    }
    return err_set(e, ERR_BAD_INPUT, "\"%.40s\" is neither true nor false", text);
}
