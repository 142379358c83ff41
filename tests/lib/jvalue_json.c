/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive descent over files that the tests themselves bring; depth is bounded all the same.
 */
#include "tests/lib/jvalue_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/token/utf8.h"

struct reader {
    struct arena *a;
    const char *p, *end;
    struct err *e;
    int depth;
};

static int bad(struct reader *r, const char *what)
{
    return err_set(r->e, ERR_BAD_INPUT, "%s, %zu bytes before the end", what,
                   (size_t)(r->end - r->p));
}

static void skip(struct reader *r)
{
    while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p)
        r->p++;
}

static int hex4(struct reader *r, uint32_t *out)
{
    char text[5] = {0};
    if (r->end - r->p < 4)
        return bad(r, "a \\u escape is cut");
    memcpy(text, r->p, 4);
    *out = (uint32_t)strtoul(text, NULL, 16);
    r->p += 4;
    return 0;
}

static int read_escape(struct reader *r, char *w, size_t *n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = *r->p++;
    const char *at = c ? strchr(from, c) : NULL;
    uint32_t u, low;
    if (at) {
        w[(*n)++] = to[at - from];
        return 0;
    }
    if (c != 'u' || hex4(r, &u))
        return bad(r, "an unknown escape");
    if (u >= 0xD800 && u < 0xDC00) {
        r->p += 2;
        if (hex4(r, &low))
            return -1;
        u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
    }
    *n += utf8_put((uint8_t *)w + *n, u);
    return 0;
}

static int read_string(struct reader *r, struct jvalue *out)
{
    const char *q = ++r->p;
    while (q < r->end && *q != '"')
        q += *q == '\\' ? 2 : 1;
    char *w = arena_alloc(r->a, (size_t)(q - r->p) + 4);
    size_t n = 0;
    while (r->p < r->end && *r->p != '"') {
        if (*r->p == '\\') {
            r->p++;
            if (read_escape(r, w, &n))
                return -1;
        } else {
            w[n++] = *r->p++;
        }
    }
    if (r->p++ >= r->end)
        return bad(r, "a string is not closed");
    return jv_str(r->a, w, n, out, r->e);
}

static int read_number(struct reader *r, struct jvalue *out)
{
    char text[64] = {0};
    size_t n = 0;
    bool is_float = false;
    while (r->p < r->end && n < 63 && strchr("+-0123456789.eE", *r->p) && *r->p) {
        is_float |= strchr(".eE", *r->p) != NULL;
        text[n++] = *r->p++;
    }
    if (n == 0)
        return bad(r, "a value was expected");
    *out = is_float ? jv_float(strtod(text, NULL)) : jv_int(strtoll(text, NULL, 10));
    return 0;
}

static int read_value(struct reader *r, struct jvalue *out);

static int read_members(struct reader *r, char close, struct jvalue *out)
{
    bool is_dict = close == '}';
    struct jvalue key, v;
    r->p++;
    if (is_dict ? jv_dict(r->a, out, r->e) : jv_list(r->a, out, r->e))
        return -1;
    for (skip(r); r->p < r->end && *r->p != close; skip(r)) {
        if (is_dict) {
            if (read_string(r, &key))
                return -1;
            skip(r);
            r->p++; /* the colon */
        }
        if (read_value(r, &v) || (is_dict ? jv_dict_put(r->a, out, key.s->p, key.s->len, v, r->e)
                                          : jv_list_add(r->a, out, v, r->e)))
            return -1;
        skip(r);
        if (r->p < r->end && *r->p == ',')
            r->p++;
    }
    return r->p++ < r->end ? 0 : bad(r, "a list or object is not closed");
}

static int read_value(struct reader *r, struct jvalue *out)
{
    static const struct {
        const char *word;
        struct jvalue value;
    } words[] = {{"null", {.type = JT_NONE}},
                 {"true", {.type = JT_BOOL, .b = true}},
                 {"false", {.type = JT_BOOL, .b = false}}};
    skip(r);
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i].word);
        if ((size_t)(r->end - r->p) >= n && memcmp(r->p, words[i].word, n) == 0) {
            r->p += n;
            *out = words[i].value;
            return 0;
        }
    }
    if (r->p == r->end || r->depth > 100)
        return bad(r, "a value was expected");
    if (*r->p == '"')
        return read_string(r, out);
    if (*r->p != '{' && *r->p != '[')
        return read_number(r, out);
    r->depth++;
    int rc = read_members(r, *r->p == '{' ? '}' : ']', out);
    r->depth--;
    return rc;
}

int test_jvalue_parse(struct arena *a, const char *text, size_t len, struct jvalue *out,
                      struct err *e)
{
    struct reader r = {.a = a, .p = text, .end = text + len, .e = e};
    if (read_value(&r, out))
        return -1;
    skip(&r);
    return r.p == r.end ? 0 : bad(&r, "something follows the value");
}

int test_jvalue_read(struct arena *a, const char *path, struct jvalue *out, struct err *e)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return 1;
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *text = arena_alloc(a, n + 1);
    size_t got = fread(text, 1, n, f);
    fclose(f);
    if (got != n)
        return err_set(e, ERR_IO, "%s: read %zu of %zu bytes", path, got, n);
    return test_jvalue_parse(a, text, n, out, e) ? err_wrap(e, "%s", path) : 0;
}

const char *test_jvalue_text(struct arena *a, const struct jvalue *dict, const char *key)
{
    const struct jvalue *v = jv_dict_get(dict, key);
    return v && v->type == JT_STR ? arena_strndup(a, v->s->p, v->s->len) : NULL;
}
