/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing JSON.
 */
#include "api/jout.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct jout jout_on(struct buf *out)
{
    return (struct jout){.out = out};
}

static void comma(struct jout *j)
{
    if (j->is_behind)
        buf_char(j->out, ',');
    j->is_behind = true;
}

void jout_open(struct jout *j, char bracket)
{
    comma(j);
    buf_char(j->out, bracket);
    j->is_behind = false;
}

void jout_close(struct jout *j, char bracket)
{
    buf_char(j->out, bracket);
    j->is_behind = true;
}

/* What must not stand in a string as it is. */
static bool is_escaped(unsigned char c)
{
    return c < 0x20 || c == '"' || c == '\\' || c == 0x7f;
}

static void escape(struct buf *out, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const char *p = c ? strchr(plain, c) : NULL;
    if (p)
        buf_printf(out, "\\%c", letter[p - plain]);
    else
        buf_printf(out, "\\u%04x", c);
}

void jout_escape(struct buf *out, const char *p, size_t n)
{
    size_t done = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_escaped((unsigned char)p[i]))
            continue;
        buf_add(out, p + done, i - done);
        escape(out, (unsigned char)p[i]);
        done = i + 1;
    }
    buf_add(out, p + done, n - done);
}

void jout_bytes(struct jout *j, const char *p, size_t n)
{
    comma(j);
    buf_char(j->out, '"');
    jout_escape(j->out, p, n);
    buf_char(j->out, '"');
}

/* The length of the UTF-8 character at p, or 0 where there is none. */
static size_t utf8(const unsigned char *p)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 4;
    if (n == 4 && (p[0] < 0xf0 || p[0] > 0xf4))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

void jout_str(struct jout *j, const char *s)
{
    if (!s) {
        jout_null(j);
        return;
    }
    comma(j);
    buf_char(j->out, '"');
    for (const char *at = s; *s; at = s) {
        size_t n = 0;
        while (*s && (n = utf8((const unsigned char *)s)) > 0)
            s += n;
        jout_escape(j->out, at, (size_t)(s - at));
        if (*s) {
            buf_str(j->out, "\\ufffd");
            s++;
        }
    }
    buf_char(j->out, '"');
}

void jout_key(struct jout *j, const char *key)
{
    jout_str(j, key);
    buf_char(j->out, ':');
    j->is_behind = false;
}

void jout_int(struct jout *j, int64_t i)
{
    comma(j);
    buf_printf(j->out, "%" PRId64, i);
}

void jout_num(struct jout *j, double x)
{
    comma(j);
    if (!isfinite(x)) {
        buf_str(j->out, "null");
        return;
    }
    char text[40];
    int digits = 15;
    do
        snprintf(text, sizeof text, "%.*g", digits, x);
    while (digits++ < 17 && strtod(text, NULL) != x);
    buf_str(j->out, text);
}

void jout_float(struct jout *j, float x)
{
    comma(j);
    if (!isfinite(x)) {
        buf_str(j->out, "null");
        return;
    }
    char text[40];
    int digits = 6;
    do
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
    while (digits++ < 9 && strtof(text, NULL) != x);
    buf_str(j->out, text);
}

void jout_bool(struct jout *j, bool b)
{
    comma(j);
    buf_str(j->out, b ? "true" : "false");
}

void jout_null(struct jout *j)
{
    comma(j);
    buf_str(j->out, "null");
}

void jout_json(struct jout *j, const char *json, size_t n)
{
    comma(j);
    buf_add(j->out, json, n);
}

void jout_raw(struct jout *j, const char *json)
{
    comma(j);
    buf_str(j->out, json);
}

void jout_put_str(struct jout *j, const char *key, const char *s)
{
    jout_key(j, key);
    jout_str(j, s);
}

void jout_put_bytes(struct jout *j, const char *key, const char *p, size_t n)
{
    jout_key(j, key);
    jout_bytes(j, n ? p : "", n);
}

void jout_put_int(struct jout *j, const char *key, int64_t i)
{
    jout_key(j, key);
    jout_int(j, i);
}

void jout_put_num(struct jout *j, const char *key, double x)
{
    jout_key(j, key);
    jout_num(j, x);
}

void jout_put_bool(struct jout *j, const char *key, bool b)
{
    jout_key(j, key);
    jout_bool(j, b);
}

void jout_put_null(struct jout *j, const char *key)
{
    jout_key(j, key);
    jout_null(j);
}

void jout_put_time(struct jout *j, const char *key, int64_t at)
{
    if (at)
        jout_put_int(j, key, at);
    else
        jout_put_null(j, key);
}
