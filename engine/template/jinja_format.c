/* SPDX-License-Identifier: Apache-2.0
 *
 * "..." % args and "...".format(args). Both copy literal parts with the origin they have in the
 * format string and every argument with its own.
 */
#include <string.h>

#include "engine/template/jinja_spec.h"

struct percent {
    struct jrun *r;
    struct jsink out;
    const struct jvalue *fmt;
    size_t pos; /* in bytes */
    struct jvalue args;
    size_t n_used;
};

static int next_arg(struct percent *p, struct jvalue *out)
{
    if (p->args.type == JT_TUPLE) {
        if (p->n_used >= p->args.l->n)
            return jrun_fail(p->r, "not enough arguments for format string");
        *out = p->args.l->at[p->n_used++];
        return 0;
    }
    if (p->n_used++)
        return jrun_fail(p->r, "not enough arguments for format string");
    *out = p->args;
    return 0;
}

/* %(name): the argument of that key. */
static int keyed_arg(struct percent *p, struct jvalue *out)
{
    const struct jstr *s = p->fmt->s;
    const char *end = memchr(s->p + p->pos, ')', s->len - p->pos);
    struct jvalue key;
    if (p->args.type != JT_DICT)
        return jrun_fail(p->r, "format requires a mapping");
    if (!end)
        return jrun_fail(p->r, "incomplete format key");
    size_t to = (size_t)(end - s->p);
    if (jtext_view(p->r, p->fmt, p->pos + 1, to, &key))
        return -1;
    const struct jvalue *found = jdict_get(p->args.d, &key);
    if (!found)
        return jrun_fail(p->r, "the key of a format is not in the mapping");
    p->pos = to + 1;
    *out = *found;
    return 0;
}

static char peek(const struct percent *p)
{
    return p->pos < p->fmt->s->len ? p->fmt->s->p[p->pos] : 0;
}

/* A number or * at the current place; leaves *out alone when there is none. */
static int take_count(struct percent *p, int64_t *out)
{
    struct jvalue v;
    if (peek(p) == '*') {
        p->pos++;
        if (next_arg(p, &v))
            return -1;
        if (!jop_integer(&v, out) || *out < 0)
            return jrun_fail(p->r, "* wants int");
    }
    for (bool is_first = true; peek(p) >= '0' && peek(p) <= '9'; p->pos++, is_first = false) {
        *out = (is_first ? 0 : *out) * 10 + (peek(p) - '0');
        if (*out > 1 << 24)
            return jrun_limit(p->r, "a format is too wide");
    }
    return 0;
}

static void take_flags(struct percent *p, struct jspec *spec)
{
    for (;; p->pos++) {
        char c = peek(p);
        if (c == '-')
            spec->align = '<';
        else if (c == '+' || (c == ' ' && spec->sign != '+'))
            spec->sign = c;
        else if (c == '#')
            spec->alternate = true;
        else if (c == '0')
            spec->fill = '0';
        else if (c != ' ')
            return;
    }
}

static int percent_number(struct percent *p, struct jspec *spec, struct jvalue v)
{
    double f;
    bool wants_int = strchr("dioxXu", spec->type) != NULL;
    if (v.type == JT_UNDEFINED && wants_int)
        return jrun_undefined(p->r, &v);
    if (!jop_number(&v, &f))
        return jrun_fail(p->r, "%%%c format: a number is required, not %s", spec->type,
                         jobj_type(&v));
    if (strchr("iu", spec->type))
        spec->type = 'd';
    if (wants_int && v.type == JT_FLOAT) {
        if (spec->type != 'd')
            return jrun_fail(p->r, "%%%c format: an integer is required, not float", spec->type);
        if (!(f > -9.2e18 && f < 9.2e18))
            return jrun_fail(p->r, "cannot convert float to integer");
        uint32_t origin = v.origin;
        v = jv_int((int64_t)f);
        v.origin = origin;
    }
    if (spec->align == '<')
        spec->fill = ' ';
    else
        spec->align = spec->fill == '0' ? '=' : '>';
    return jspec_number(&p->out, spec, &v);
}

static int percent_text(struct percent *p, struct jspec *spec, struct jvalue v)
{
    struct jvalue text = v;
    int64_t c;
    struct jsink s;
    spec->align = spec->align ? spec->align : '>';
    spec->fill = ' ';
    jsink_init(&s, p->r);
    if (spec->type == 'c' && jop_integer(&v, &c)) {
        if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
            return jrun_fail(p->r, "%%c arg not in range(0x110000)");
        jsink_char(&s, (uint32_t)c, v.origin);
    } else if (spec->type == 'c' && (v.type != JT_STR || v.s->n_cp != 1)) {
        return jrun_fail(p->r, "%%c requires int or char");
    } else if (spec->type == 'r') {
        jrepr_add_repr(&s, &v);
    } else {
        jrepr_add_str(&s, &v);
    }
    if (jsink_take(&s, &text) ||
        (p->fmt->is_marked && !v.is_marked && jtext_escape(p->r, &text, &text)))
        return -1;
    return jspec_string(&p->out, spec, &text);
}

/* One conversion, p->pos behind its %. */
static int percent_one(struct percent *p)
{
    struct jspec spec = {.fill = ' ', .precision = -1};
    struct jvalue v;
    bool is_keyed = peek(p) == '(';
    if (is_keyed && keyed_arg(p, &v))
        return -1;
    take_flags(p, &spec);
    if (take_count(p, &spec.width))
        return -1;
    if (peek(p) == '.') {
        p->pos++;
        spec.precision = 0;
        if (take_count(p, &spec.precision))
            return -1;
    }
    while (peek(p) == 'l' || peek(p) == 'h' || peek(p) == 'L')
        p->pos++;
    spec.type = peek(p);
    p->pos++;
    if (spec.type == '%') {
        jsink_text(&p->out, "%", p->fmt->origin);
        return 0;
    }
    if (!spec.type)
        return jrun_fail(p->r, "incomplete format");
    if (!strchr("sracdiouxXeEfFgG", spec.type))
        return jrun_fail(p->r, "unsupported format character '%c'", spec.type);
    if (!is_keyed && next_arg(p, &v))
        return -1;
    if (strchr("srac", spec.type))
        return percent_text(p, &spec, v);
    return percent_number(p, &spec, v);
}

int jformat_percent(struct jrun *r, struct jvalue fmt, struct jvalue args, struct jvalue *out)
{
    struct percent p = {.r = r, .fmt = &fmt, .args = args};
    const struct jstr *s = fmt.s;
    jsink_init(&p.out, r);
    while (p.pos < s->len) {
        const char *at = memchr(s->p + p.pos, '%', s->len - p.pos);
        size_t to = at ? (size_t)(at - s->p) : s->len;
        jsink_part(&p.out, &fmt, p.pos, to);
        p.pos = to + 1;
        if (at && percent_one(&p))
            return -1;
    }
    /* what can be indexed counts as a mapping, of which not all needs to be used */
    bool is_mapping = args.type == JT_DICT || args.type == JT_LIST || args.type == JT_RANGE ||
                      args.type == JT_UNDEFINED;
    if (args.type == JT_TUPLE ? p.n_used < args.l->n : p.n_used == 0 && !is_mapping)
        return jrun_fail(r, "not all arguments converted during string formatting");
    if (jsink_take(&p.out, out))
        return -1;
    out->is_marked = fmt.is_marked;
    return 0;
}
