/* SPDX-License-Identifier: Apache-2.0
 *
 * str.format: {field!conversion:spec}. Fields reach into values by the same guarded access as the
 * template itself. A spec may hold fields of its own, one level deep.
 */
#include <string.h>

#include "engine/template/jinja_spec.h"
#include "engine/template/jinja_uni.h"

struct braces {
    struct jrun *r;
    const struct jcall *c;
    int64_t next; /* automatic number; -1 once a field was numbered by hand */
    bool is_auto;
};

static int get_arg(struct braces *b, const struct jvalue *fmt, size_t from, size_t to,
                   struct jvalue *out)
{
    const char *p = fmt->s->p + from;
    size_t n = to - from;
    int64_t i = 0;
    bool is_number = n > 0;
    for (size_t k = 0; k < n; k++)
        is_number &= p[k] >= '0' && p[k] <= '9';
    if (n == 0 || is_number) {
        if (n == 0 ? b->next < 0 : b->is_auto)
            return jrun_fail(b->r, "cannot switch between manual and automatic field numbering");
        if (n && jnum_parse_int(p, n, 10, &i))
            return jrun_fail(b->r, "a field number is too large");
        if (n == 0)
            i = b->next++;
        else
            b->next = -1;
        b->is_auto |= n == 0;
        if ((uint64_t)i >= b->c->n_pos)
            return jrun_fail(b->r, "Replacement index %lld out of range for positional args tuple",
                             (long long)i);
        *out = b->c->pos[i];
        return 0;
    }
    for (size_t k = 0; k < b->c->n_kw; k++)
        if (b->c->kw[k].len == n && memcmp(b->c->kw[k].name, p, n) == 0) {
            *out = b->c->kw[k].value;
            return 0;
        }
    return jrun_fail(b->r, "format misses its argument '%.*s'", (int)(n < 80 ? n : 80), p);
}

/* name.attr[index]... */
static int get_field(struct braces *b, const struct jvalue *fmt, size_t from, size_t to,
                     struct jvalue *out)
{
    const char *s = fmt->s->p;
    size_t at = from;
    while (at < to && s[at] != '.' && s[at] != '[')
        at++;
    if (get_arg(b, fmt, from, at, out))
        return -1;
    while (at < to) {
        bool is_attr = s[at] == '.';
        size_t begin = ++at, end;
        struct jvalue key, of = *out;
        while (at < to && (is_attr ? s[at] != '.' && s[at] != '[' : s[at] != ']'))
            at++;
        end = at;
        if (begin == end || (!is_attr && at++ == to))
            return jrun_fail(b->r, "a field of a format is malformed");
        key = jv_int(0);
        bool is_number = !is_attr && jnum_parse_int(s + begin, end - begin, 10, &key.i) == 0;
        if (!is_number && jtext_view(b->r, fmt, begin, end, &key))
            return -1;
        if (is_attr ? jget_attr(b->r, of, key, out) : jget_item(b->r, of, key, out))
            return -1;
        if (!is_attr && at < to && s[at] != '.' && s[at] != '[')
            return jrun_fail(b->r, "Only '.' or '[' may follow ']' in format field specifier");
    }
    return 0;
}

static bool is_align(uint32_t c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static int parse_spec(struct jrun *r, const struct jvalue *text, struct jspec *spec)
{
    const char *p = text->s->p, *end = p + text->s->len;
    size_t n = 0;
    *spec = (struct jspec){.fill = ' ', .precision = -1};
    if (p < end) {
        uint32_t fill = juni_get(p, end, &n);
        if (p + n < end && is_align((unsigned char)p[n])) {
            spec->fill = fill;
            spec->align = p[n];
            p += n + 1;
        } else if (is_align((unsigned char)*p)) {
            spec->align = *p++;
        }
    }
    if (p < end && (*p == '+' || *p == '-' || *p == ' '))
        spec->sign = *p == '-' ? 0 : *p, p++;
    if (p < end && *p == '#')
        spec->alternate = true, p++;
    if (p < end && *p == '0') {
        if (!spec->align) {
            spec->fill = '0';
            spec->align = '=';
        }
        p++;
    }
    int64_t *const into[2] = {&spec->width, &spec->precision};
    for (int i = 0; i < 2; i++) {
        if (i == 1) {
            if (p < end && (*p == ',' || *p == '_'))
                spec->group = *p++;
            if (p == end || *p != '.')
                break;
            p++;
            spec->precision = 0;
        }
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            if ((*into[i] = *into[i] * 10 + (*p - '0')) > 1 << 24)
                return jrun_limit(r, "a format is too wide");
    }
    if (p < end)
        spec->type = *p++;
    return p == end ? 0 : jrun_fail(r, "Invalid format specifier");
}

static int write_value(struct braces *b, struct jsink *out, const struct jvalue *v,
                       const struct jvalue *spec_text)
{
    struct jspec spec;
    struct jvalue text;
    if (spec_text->s->len == 0) {
        jrepr_add_str(out, v);
        return out->failed ? -1 : 0;
    }
    if (parse_spec(b->r, spec_text, &spec))
        return -1;
    if (v->type == JT_INT || v->type == JT_BOOL || v->type == JT_FLOAT)
        return jspec_number(out, &spec, v);
    if (v->type != JT_STR)
        return jrun_fail(b->r, "unsupported format string passed to %s.__format__", jobj_type(v));
    if ((spec.type && spec.type != 's') || spec.align == '=')
        return jrun_fail(b->r, "the format is not one for strings");
    text = *v;
    return jspec_string(out, &spec, &text);
}

static int expand(struct braces *b, const struct jvalue *fmt, int depth, struct jsink *out);

/* The field between braces at [from, to). */
static int replace_field(struct braces *b, const struct jvalue *fmt, size_t from, size_t to,
                         int depth, struct jsink *out)
{
    const char *s = fmt->s->p;
    struct jvalue v, part, spec;
    size_t name = from;
    for (bool in_index = false; name < to; name++) {
        in_index = in_index ? s[name] != ']' : s[name] == '[';
        if (!in_index && (s[name] == '!' || s[name] == ':'))
            break;
    }
    if (get_field(b, fmt, from, name, &v))
        return -1;
    struct jsink conv, nested;
    jsink_init(&conv, b->r);
    jsink_init(&nested, b->r);
    if (name < to && s[name] == '!') {
        if (name + 2 > to || (name + 2 < to && s[name + 2] != ':') || !strchr("sra", s[name + 1]))
            return jrun_fail(b->r, "a conversion of a format is malformed");
        if (s[name + 1] == 's')
            jrepr_add_str(&conv, &v);
        else
            jrepr_add_repr(&conv, &v);
        if (jsink_take(&conv, &v))
            return -1;
        name += 2;
    }
    size_t spec_from = name < to ? name + 1 : to;
    if (jtext_view(b->r, fmt, spec_from, to, &part) || expand(b, &part, depth + 1, &nested) ||
        jsink_take(&nested, &spec))
        return -1;
    if (!fmt->is_marked)
        return write_value(b, out, &v, &spec);
    jsink_init(&conv, b->r);
    if (write_value(b, &conv, &v, &spec) || jsink_take(&conv, &part))
        return -1;
    part.is_marked = v.type == JT_STR && v.is_marked;
    if (jtext_escape(b->r, &part, &v))
        return -1;
    jsink_value(out, &v);
    return 0;
}

static int expand(struct braces *b, const struct jvalue *fmt, int depth, struct jsink *out)
{
    const char *s = fmt->s->p;
    size_t n = fmt->s->len, i = 0;
    if (depth > 2)
        return jrun_fail(b->r, "Max string recursion exceeded");
    while (i < n && !out->failed) {
        size_t from = i;
        while (i < n && s[i] != '{' && s[i] != '}')
            i++;
        jsink_part(out, fmt, from, i);
        if (i == n)
            break;
        if (i + 1 < n && s[i + 1] == s[i]) {
            jsink_part(out, fmt, i, i + 1);
            i += 2;
            continue;
        }
        if (s[i] == '}')
            return jrun_fail(b->r, "Single '}' encountered in format string");
        size_t end = i + 1;
        for (int open = 1; end < n; end++) {
            open += (s[end] == '{') - (s[end] == '}');
            if (open == 0)
                break;
        }
        if (end == n)
            return jrun_fail(b->r, "expected '}' before end of string");
        if (replace_field(b, fmt, i + 1, end, depth, out))
            return -1;
        i = end + 1;
    }
    return out->failed ? -1 : 0;
}

int jformat_braces(struct jrun *r, struct jvalue fmt, const struct jcall *c, struct jvalue *out)
{
    struct braces b = {.r = r, .c = c};
    struct jsink s;
    jsink_init(&s, r);
    if (expand(&b, &fmt, 0, &s) || jsink_take(&s, out))
        return -1;
    out->is_marked = fmt.is_marked;
    return 0;
}
