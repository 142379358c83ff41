/* SPDX-License-Identifier: Apache-2.0
 *
 * Values as text, and whether two are the same value to JSON Schema (1 and 1.0 are).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/grammar/json_text.h"

static int no_quote(struct budget *b, const char *quote)
{
    return budget_fail(b, ERR_UNSUPPORTED, "a value that holds %s cannot be written", quote);
}

/* Between quotes that it must not hold. */
static int write_plain(const struct json_text *j, const struct jstr *s, struct buf *out)
{
    if (memmem(s->p, s->len, j->quote, strlen(j->quote)))
        return no_quote(j->d->b, j->quote);
    buf_str(out, j->quote);
    buf_add(out, s->p, s->len);
    return buf_str(out, j->quote);
}

static void write_quoted(const struct jstr *s, struct buf *out)
{
    static const char letter[] = "\b\f\n\r\t\"\\", name[] = "bfnrt\"\\";
    buf_char(out, '"');
    for (size_t i = 0; i < s->len; i++) {
        uint8_t c = (uint8_t)s->p[i];
        const char *at = c ? strchr(letter, c) : NULL;
        if (at)
            buf_printf(out, "\\%c", name[at - letter]);
        else if (c < 0x20)
            buf_printf(out, "\\u%04x", c);
        else
            buf_char(out, (char)c);
    }
    buf_char(out, '"');
}

static int write_string(const struct json_text *j, const struct jstr *s, struct buf *out)
{
    if (j->quote)
        return write_plain(j, s, out);
    write_quoted(s, out);
    return 0;
}

static int write_key(const struct json_text *j, const struct jstr *s, struct buf *out)
{
    if (!j->quote) {
        write_quoted(s, out);
        return buf_str(out, ": ");
    }
    for (size_t i = 0; i < s->len; i++)
        if (s->p[i] && strchr(":,{}[]<>\" \t\r\n", s->p[i]))
            return no_quote(j->d->b, "marks in a member's name");
    buf_add(out, s->p, s->len);
    return buf_char(out, ':');
}

static int write_float(struct budget *b, double f, struct buf *out)
{
    char text[40];
    if (!isfinite(f))
        return budget_fail(b, ERR_BAD_INPUT, "a number that is not finite");
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, f);
        if (strtod(text, NULL) == f)
            break;
    }
    buf_str(out, text);
    if (!strpbrk(text, ".e"))
        buf_str(out, ".0");
    return 0;
}

static int write_value(const struct json_text *j, const struct jvalue *v, int depth,
                       struct buf *out)
{
    struct budget *b = j->d->b;
    const char *comma = j->quote ? "," : ", ";
    if (depth > JSON_MAX_DEPTH)
        return budget_fail(b, ERR_TOO_LARGE, "a value more than %d deep", JSON_MAX_DEPTH);
    switch (v->type) {
    case JT_NONE:
        return buf_str(out, j->is_python ? "None" : "null");
    case JT_BOOL:
        return buf_str(out, j->is_python ? v->b ? "True" : "False" : v->b ? "true" : "false");
    case JT_INT:
        return buf_printf(out, "%lld", (long long)v->i);
    case JT_FLOAT:
        return write_float(b, v->f, out);
    case JT_STR:
        return write_string(j, v->s, out);
    case JT_LIST:
        buf_char(out, '[');
        for (size_t i = 0; i < v->l->n; i++) {
            if (i)
                buf_str(out, comma);
            if (write_value(j, &v->l->at[i], depth + 1, out))
                return -1;
        }
        return buf_char(out, ']');
    case JT_DICT:
        buf_char(out, '{');
        for (size_t i = 0; i < v->d->n; i++) {
            if (i)
                buf_str(out, comma);
            if (write_key(j, v->d->key[i].s, out) || write_value(j, &v->d->val[i], depth + 1, out))
                return -1;
        }
        return buf_char(out, '}');
    default:
        return budget_fail(b, ERR_BAD_INPUT, "a value that is not JSON");
    }
}

int json_text_write(const struct json_text *j, const struct jvalue *v, struct buf *out)
{
    struct err e = ERR_INIT;
    if (write_value(j, v, 0, out))
        return -1;
    return buf_check(out, "a value of the schema", &e) ? budget_fail(j->d->b, e.code, "%s", e.msg)
                                                       : 0;
}

static bool same_number(const struct jvalue *x, const struct jvalue *y)
{
    if (x->type == JT_INT && y->type == JT_INT)
        return x->i == y->i;
    return (x->type == JT_INT ? (double)x->i : x->f) == (y->type == JT_INT ? (double)y->i : y->f);
}

static bool same_at(const struct jvalue *x, const struct jvalue *y, int depth)
{
    bool is_num = x->type == JT_INT || x->type == JT_FLOAT;
    if (is_num && (y->type == JT_INT || y->type == JT_FLOAT))
        return same_number(x, y);
    if (x->type != y->type || depth > JSON_MAX_DEPTH)
        return false;
    switch (x->type) {
    case JT_BOOL:
        return x->b == y->b;
    case JT_STR:
        return x->s->len == y->s->len && !memcmp(x->s->p, y->s->p, x->s->len);
    case JT_LIST:
        for (size_t i = 0; i < x->l->n; i++)
            if (i >= y->l->n || !same_at(&x->l->at[i], &y->l->at[i], depth + 1))
                return false;
        return x->l->n == y->l->n;
    case JT_DICT:
        for (size_t i = 0; i < x->d->n; i++) {
            const struct jvalue *other = jdict_get(y->d, &x->d->key[i]);
            if (!other || !same_at(&x->d->val[i], other, depth + 1))
                return false;
        }
        return x->d->n == y->d->n;
    default:
        return x->type == JT_NONE;
    }
}

bool json_text_same(const struct jvalue *x, const struct jvalue *y)
{
    return same_at(x, y, 0);
}
