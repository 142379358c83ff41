/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of str that cut, join and change text. Those that look for something are in
 * jinja_strfind.c. Each keeps the origin of every byte it passes on.
 */
#include <string.h>

#include "engine/template/jinja_ops.h"
#include "engine/template/jinja_strops.h"
#include "engine/template/jinja_uni.h"

/* A result is as safe for HTML as the string it was made of. */
static int take_like(struct jsink *s, const struct jvalue *like, struct jvalue *out)
{
    if (jsink_take(s, out))
        return -1;
    out->is_marked = like->is_marked;
    return 0;
}

static bool in_set(const struct jvalue *set, uint32_t c)
{
    struct jwalk w;
    if (set->type != JT_STR)
        return juni_is_space(c);
    for (jwalk_begin(&w, set); jwalk_next(&w);)
        if (w.c == c)
            return true;
    return false;
}

int jstrip(struct jrun *r, struct jvalue self, struct jvalue set, enum jstrip_side side,
           struct jvalue *out)
{
    const struct jstr *s = self.s;
    size_t from = 0, to = s->len, n;
    if (set.type != JT_STR && set.type != JT_NONE && set.type != JT_MISSING)
        return jrun_fail(r, "strip arg must be None or str");
    if (jrun_pay_bytes(r, s->len) || (set.type == JT_STR && jrun_pay(r, set.s->len)))
        return -1;
    while ((side & JSTRIP_LEFT) && from < to &&
           in_set(&set, juni_get(s->p + from, s->p + to, &n))) {
        from += n;
        if (set.type == JT_STR && jrun_pay_bytes(r, set.s->len))
            return -1;
    }
    while ((side & JSTRIP_RIGHT) && to > from) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)s->p[at] & 0xC0) == 0x80)
            at--;
        if (!in_set(&set, juni_get(s->p + at, s->p + to, &n)))
            break;
        to = at;
        if (set.type == JT_STR && jrun_pay_bytes(r, set.s->len))
            return -1;
    }
    return jtext_view(r, &self, from, to, out);
}

static int str_strip(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    return jstrip(r, self, c->arg[0], (enum jstrip_side)c->tag, out);
}

int jcase(struct jrun *r, const struct jvalue *self, enum jcase_rule rule, struct jvalue *out)
{
    struct jsink s;
    struct jwalk w;
    char b[JUNI_MAX_BYTES];
    bool was_cased = false;
    jsink_init(&s, r);
    for (jwalk_begin(&w, self); jwalk_next(&w) && !s.failed;) {
        enum juni_case to = rule == JCASE_UPPER ? JUNI_UPPER : JUNI_LOWER;
        bool is_cased = juni_is_cased(w.c);
        if ((rule == JCASE_CAPITAL && w.at == 0) || (rule == JCASE_TITLE && !was_cased))
            to = JUNI_TITLE;
        if (rule == JCASE_SWAP)
            to = juni_is_upper(w.c) ? JUNI_LOWER : JUNI_UPPER;
        was_cased = is_cased;
        jsink_add(&s, b, juni_map(w.c, to, b), w.origin);
    }
    return take_like(&s, self, out);
}

static int str_case(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    return jcase(r, &self, (enum jcase_rule)c->tag, out);
}

int jreplace(struct jrun *r, const struct jvalue *self, const struct jvalue *from,
             const struct jvalue *to, int64_t max, struct jvalue *out)
{
    struct jsink s;
    size_t at = 0;
    jsink_init(&s, r);
    if (jrun_pay_bytes(r, self->s->len))
        return -1;
    for (int64_t n = 0; (max < 0 || n < max) && !s.failed; n++) {
        size_t hit = jtext_find(self, from, at);
        if (hit == SIZE_MAX || jrun_pay(r, 1))
            break;
        jsink_part(&s, self, at, hit);
        jsink_value(&s, to);
        at = hit + from->s->len;
        if (from->s->len == 0) { /* between any two characters, and at both ends */
            size_t len = 0;
            if (at == self->s->len)
                break;
            juni_get(self->s->p + at, self->s->p + self->s->len, &len);
            jsink_part(&s, self, at, at + len);
            at += len;
        }
    }
    if (r->ops > r->ops_max)
        return -1;
    jsink_part(&s, self, at, self->s->len);
    return take_like(&s, self, out);
}

static int str_replace(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    int64_t max;
    struct jvalue from = c->arg[0], to = c->arg[1];
    if (jarg_str(r, &from, "replace()") || jarg_str(r, &to, "replace()") ||
        jarg_int(r, &c->arg[2], -1, &max))
        return -1;
    if (self.is_marked && jtext_escape(r, &to, &to))
        return -1;
    return jreplace(r, &self, &from, &to, max, out);
}

int jjoin(struct jrun *r, const struct jvalue *sep, struct jvalue items, bool any_type,
          struct jvalue *out)
{
    struct jiter it;
    struct jvalue v, text;
    struct jsink s;
    int got;
    jsink_init(&s, r);
    if (jiter_begin(r, items, &it))
        return -1;
    for (bool is_first = true; (got = jiter_next(r, &it, &v)) > 0; is_first = false) {
        if (!any_type && v.type != JT_STR)
            return jrun_fail(r, "sequence item: expected str instance, %s found", jobj_type(&v));
        text = v;
        if (!is_first)
            jsink_value(&s, sep);
        if (!any_type && sep->is_marked && jtext_escape(r, &v, &text))
            return -1;
        jrepr_add_str(&s, &text);
        if (s.failed)
            return -1;
    }
    return got < 0 ? -1 : take_like(&s, sep, out);
}

static int str_join(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    return jjoin(r, &self, c->arg[0], false, out);
}

static int str_splitlines(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    struct jwalk w;
    struct jvalue line;
    size_t from = 0;
    bool keep = jarg_bool(&c->arg[0], false);
    if (jobj_list(r, JT_LIST, NULL, 0, out) || jrun_pay_bytes(r, self.s->len))
        return -1;
    for (jwalk_begin(&w, &self); jwalk_next(&w);) {
        uint32_t ch = w.c;
        if (!((ch >= 0x0A && ch <= 0x0D) || (ch >= 0x1C && ch <= 0x1E) || ch == 0x85 ||
              ch == 0x2028 || ch == 0x2029))
            continue;
        size_t end = w.at;
        if (ch == '\r' && w.pos < self.s->len && self.s->p[w.pos] == '\n')
            jwalk_next(&w);
        if (jtext_view(r, &self, from, keep ? w.pos : end, &line) || jobj_add(r, out, line))
            return -1;
        from = w.pos;
    }
    if (from == self.s->len)
        return 0;
    return jtext_view(r, &self, from, self.s->len, &line) || jobj_add(r, out, line) ? -1 : 0;
}

/* removeprefix and removesuffix */
static int str_remove(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    if (jarg_str(r, &c->arg[0], "removeprefix() or removesuffix()"))
        return -1;
    const struct jstr *s = self.s, *p = c->arg[0].s;
    bool at_end = c->tag == JSTRIP_RIGHT;
    bool has = s->len >= p->len && memcmp(s->p + (at_end ? s->len - p->len : 0), p->p, p->len) == 0;
    size_t cut = has ? p->len : 0;
    return jtext_view(r, &self, at_end ? 0 : cut, at_end ? s->len - cut : s->len, out);
}

/* center, ljust, rjust: the tag says where the text goes. */
static int str_pad(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    int64_t width;
    struct jvalue fill = c->arg[1];
    struct jsink s;
    if (jarg_int(r, &c->arg[0], 0, &width))
        return -1;
    if (fill.type == JT_MISSING && jtext_new(r, " ", 1, JORIGIN_TEMPLATE, &fill))
        return -1;
    if (fill.type != JT_STR || fill.s->n_cp != 1)
        return jrun_fail(r, "The fill character must be exactly one character long");
    size_t n = self.s->n_cp, missing = width > (int64_t)n ? (size_t)width - n : 0;
    size_t left = missing / 2 + (missing & (size_t)width & 1); /* as CPython's center rounds */
    size_t before = c->tag == '<' ? 0 : c->tag == '>' ? missing : left;
    jsink_init(&s, r);
    for (size_t i = 0; i < before && !s.failed; i++)
        jsink_value(&s, &fill);
    jsink_value(&s, &self);
    for (size_t i = before; i < missing && !s.failed; i++)
        jsink_value(&s, &fill);
    return take_like(&s, &self, out);
}

static int str_zfill(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    int64_t width;
    struct jsink s;
    if (jarg_int(r, &c->arg[0], 0, &width))
        return -1;
    size_t n = self.s->n_cp;
    size_t sign = self.s->len && (self.s->p[0] == '-' || self.s->p[0] == '+');
    jsink_init(&s, r);
    jsink_part(&s, &self, 0, sign);
    jsink_fill(&s, '0', width > (int64_t)n ? (size_t)width - n : 0, self.origin);
    jsink_part(&s, &self, sign, self.s->len);
    return take_like(&s, &self, out);
}

static int str_format(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    return jformat_braces(r, self, c, out);
}

const struct jnative jmethod_str_rows[] = {
    {"strip", "chars? /", str_strip, JSTRIP_BOTH},
    {"lstrip", "chars? /", str_strip, JSTRIP_LEFT},
    {"rstrip", "chars? /", str_strip, JSTRIP_RIGHT},
    {"upper", "/", str_case, JCASE_UPPER},
    {"lower", "/", str_case, JCASE_LOWER},
    {"casefold", "/", str_case, JCASE_LOWER},
    {"title", "/", str_case, JCASE_TITLE},
    {"capitalize", "/", str_case, JCASE_CAPITAL},
    {"swapcase", "/", str_case, JCASE_SWAP},
    {"replace", "old new count? /", str_replace, 0},
    {"join", "iterable /", str_join, 0},
    {"splitlines", "keepends?", str_splitlines, 0},
    {"removeprefix", "prefix /", str_remove, JSTRIP_LEFT},
    {"removesuffix", "suffix /", str_remove, JSTRIP_RIGHT},
    {"center", "width fillchar? /", str_pad, '^'},
    {"ljust", "width fillchar? /", str_pad, '<'},
    {"rjust", "width fillchar? /", str_pad, '>'},
    {"zfill", "width /", str_zfill, 0},
    {"format", "*", str_format, 0},
    {NULL, NULL, NULL, 0},
};
