/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of str that look for something: split and its kin, find, count, the is... questions.
 */
#include <string.h>

#include "engine/template/jinja_ops.h"
#include "engine/template/jinja_strops.h"
#include "engine/template/jinja_uni.h"

/* Tags: which end a search begins at, and whether a miss is an error. */
enum { FROM_LEFT = 0, FROM_RIGHT = 1, MUST_FIND = 2 };

static int add_piece(struct jrun *r, const struct jvalue *self, size_t from, size_t to,
                     struct jvalue *list)
{
    struct jvalue v;
    return jtext_view(r, self, from, to, &v) || jobj_add(r, list, v) ? -1 : 0;
}

static int split_blank(struct jrun *r, const struct jvalue *self, int64_t max, struct jvalue *out)
{
    const char *p = self->s->p, *end = p + self->s->len, *begin = p;
    for (int64_t n = 0;; n++) {
        p = juni_skip_space(p, end);
        if (p == end)
            return 0;
        const char *q = p;
        size_t len;
        if (max >= 0 && n >= max)
            q = end; /* what is left keeps its blanks at the end */
        else
            while (q < end && !juni_is_space(juni_get(q, end, &len)))
                q += len;
        if (add_piece(r, self, (size_t)(p - begin), (size_t)(q - begin), out))
            return -1;
        if (max >= 0 && n >= max)
            return 0;
        p = q;
    }
}

static int rsplit_blank(struct jrun *r, const struct jvalue *self, int64_t max, struct jvalue *out)
{
    const char *begin = self->s->p, *end = begin + self->s->len;
    for (int64_t n = 0;; n++) {
        end = juni_rstrip_space(begin, end);
        if (end == begin)
            return 0;
        const char *q = end;
        if (max >= 0 && n >= max)
            q = begin;
        while (q > begin && !(max >= 0 && n >= max)) {
            const char *at = q - 1;
            size_t len;
            while (at > begin && ((unsigned char)*at & 0xC0) == 0x80)
                at--;
            if (juni_is_space(juni_get(at, end, &len)))
                break;
            q = at;
        }
        if (add_piece(r, self, (size_t)(q - begin), (size_t)(end - begin), out))
            return -1;
        if (max >= 0 && n >= max)
            return 0;
        end = q;
    }
}

static int split_at(struct jrun *r, const struct jvalue *self, const struct jvalue *sep,
                    int64_t max, struct jvalue *out)
{
    size_t from = 0;
    for (int64_t n = 0; max < 0 || n < max; n++) {
        size_t hit = jtext_find(self, sep, from);
        if (hit == SIZE_MAX)
            break;
        if (add_piece(r, self, from, hit, out))
            return -1;
        from = hit + sep->s->len;
    }
    return add_piece(r, self, from, self->s->len, out);
}

static int rsplit_at(struct jrun *r, const struct jvalue *self, const struct jvalue *sep,
                     int64_t max, struct jvalue *out)
{
    size_t to = self->s->len;
    for (int64_t n = 0; max < 0 || n < max; n++) {
        size_t hit;
        if (jtext_rfind(r, self, sep, to, &hit))
            return -1;
        if (hit == SIZE_MAX)
            break;
        if (add_piece(r, self, hit + sep->s->len, to, out))
            return -1;
        to = hit;
    }
    return add_piece(r, self, 0, to, out);
}

static void reverse(struct jlist *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        struct jvalue v = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = v;
    }
}

int jsplit(struct jrun *r, const struct jvalue *self, const struct jvalue *sep, int64_t max,
           bool from_right, struct jvalue *out)
{
    bool by_blank = sep->type == JT_NONE || sep->type == JT_MISSING;
    if (!by_blank && jarg_str(r, sep, "split()"))
        return -1;
    if (!by_blank && sep->s->len == 0)
        return jrun_fail(r, "empty separator");
    if (jrun_pay_bytes(r, self->s->len) || jobj_list(r, JT_LIST, NULL, 0, out))
        return -1;
    if (!from_right)
        return by_blank ? split_blank(r, self, max, out) : split_at(r, self, sep, max, out);
    if (by_blank ? rsplit_blank(r, self, max, out) : rsplit_at(r, self, sep, max, out))
        return -1;
    reverse(out->l);
    return 0;
}

/* split and rsplit */
static int str_split(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    int64_t max;
    if (jarg_int(r, &c->arg[1], -1, &max))
        return -1;
    return jsplit(r, &self, &c->arg[0], max, c->tag == FROM_RIGHT, out);
}

/* partition and rpartition */
static int str_partition(struct jrun *r, struct jvalue value, struct jcall *c, struct jvalue *out)
{
    const struct jvalue *self = &value, *sep = &c->arg[0];
    bool from_right = c->tag == FROM_RIGHT;
    if (jarg_str(r, sep, "partition()") || jrun_pay_bytes(r, self->s->len))
        return -1;
    if (sep->s->len == 0)
        return jrun_fail(r, "empty separator");
    size_t len = self->s->len;
    size_t hit = from_right ? SIZE_MAX : jtext_find(self, sep, 0);
    if (from_right && jtext_rfind(r, self, sep, len, &hit))
        return -1;
    size_t a = hit, b = hit + sep->s->len;
    if (hit == SIZE_MAX)
        a = b = from_right ? 0 : len;
    return jobj_list(r, JT_TUPLE, NULL, 3, out) || add_piece(r, self, 0, a, out) ||
                   add_piece(r, self, a, b, out) || add_piece(r, self, b, len, out)
               ? -1
               : 0;
}

/* The part of self that the optional bounds name, in bytes; false when they exclude each other. */
static int window(struct jrun *r, const struct jvalue *self, const struct jcall *c, size_t *from,
                  size_t *to, bool *is_empty)
{
    int64_t n = (int64_t)self->s->n_cp, bound[2] = {0, n};
    for (int i = 0; i < 2; i++) {
        if (c->arg[1 + i].type != JT_NONE && jarg_int(r, &c->arg[1 + i], bound[i], &bound[i]))
            return -1;
        if (bound[i] < 0)
            bound[i] = bound[i] + n < 0 ? 0 : bound[i] + n;
    }
    bound[1] = bound[1] > n ? n : bound[1];
    *is_empty = bound[0] > bound[1];
    *from = jtext_offset(self, (size_t)bound[0]);
    *to = jtext_offset(self, (size_t)bound[1]);
    return jrun_pay_bytes(r, self->s->len);
}

/* find, rfind, index, rindex */
static int str_find(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    size_t from, to, hit = SIZE_MAX;
    bool is_empty, from_right = c->tag & FROM_RIGHT;
    *out = jv_int(-1);
    if (jarg_str(r, &c->arg[0], "find()") || window(r, &self, c, &from, &to, &is_empty))
        return -1;
    if (!is_empty && !from_right)
        hit = jtext_find(&self, &c->arg[0], from);
    else if (!is_empty && jtext_rfind(r, &self, &c->arg[0], to, &hit))
        return -1;
    if (hit != SIZE_MAX && hit >= from && hit + c->arg[0].s->len <= to)
        out->i = (int64_t)jtext_index(&self, hit);
    if (out->i < 0 && (c->tag & MUST_FIND))
        return jrun_fail(r, "substring not found");
    return 0;
}

static int str_count(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    size_t from, to, n = 0;
    bool is_empty;
    const struct jvalue *what = &c->arg[0];
    if (jarg_str(r, what, "count()") || window(r, &self, c, &from, &to, &is_empty))
        return -1;
    if (what->s->len == 0) {
        n = is_empty ? 0 : jutf8_count(self.s->p + from, to - from) + 1;
    } else {
        for (; !is_empty; n++) {
            size_t hit = jtext_find(&self, what, from);
            if (hit == SIZE_MAX || hit + what->s->len > to)
                break;
            from = hit + what->s->len;
        }
    }
    *out = jv_int((int64_t)n);
    return jrun_pay(r, n);
}

/* Whether self, within its window, begins or ends with what. */
static int has_affix(struct jrun *r, struct jvalue self, const struct jcall *c,
                     const struct jvalue *what, bool at_end, bool *out)
{
    size_t from, to;
    bool is_empty;
    if (what->type != JT_STR)
        return what->type == JT_UNDEFINED
                   ? jrun_undefined(r, what)
                   : jrun_fail(r, "%s first arg must be str or a tuple of str, not %s",
                               at_end ? "endswith" : "startswith", jobj_type(what));
    if (window(r, &self, c, &from, &to, &is_empty))
        return -1;
    const struct jstr *w = what->s;
    *out = !is_empty && to - from >= w->len &&
           memcmp(self.s->p + (at_end ? to - w->len : from), w->p, w->len) == 0;
    return 0;
}

/* startswith and endswith */
static int str_affix(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    bool at_end = c->tag == FROM_RIGHT;
    *out = jv_bool(false);
    if (c->arg[0].type != JT_TUPLE)
        return has_affix(r, self, c, &c->arg[0], at_end, &out->b);
    for (size_t i = 0; i < c->arg[0].l->n && !out->b; i++)
        if (has_affix(r, self, c, &c->arg[0].l->at[i], at_end, &out->b))
            return -1;
    return 0;
}

enum { IS_DIGIT, IS_ALPHA, IS_ALNUM, IS_SPACE, IS_LOWER, IS_UPPER };

static bool passes(uint32_t c, int tag)
{
    bool is_digit = tag != IS_ALPHA && tag != IS_SPACE && juni_is_digit(c);
    bool is_alpha = (tag == IS_ALPHA || tag == IS_ALNUM) && juni_is_alpha(c);
    return is_digit || is_alpha || (tag == IS_SPACE && juni_is_space(c));
}

int jstr_is_case(struct jrun *r, const struct jvalue *self, bool upper, struct jvalue *out)
{
    struct jwalk w;
    bool has_cased = false, is_good = true;
    for (jwalk_begin(&w, self); is_good && jwalk_next(&w);) {
        bool is_cased = juni_is_cased(w.c);
        has_cased |= is_cased;
        is_good = !is_cased || (upper ? juni_is_upper(w.c) : juni_is_lower(w.c));
    }
    *out = jv_bool(is_good && has_cased);
    return jrun_pay_bytes(r, self->s->len);
}

/* isdigit and its kin: every character passes, and there is one. */
static int str_is(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    struct jwalk w;
    if (c->tag == IS_LOWER || c->tag == IS_UPPER)
        return jstr_is_case(r, &self, c->tag == IS_UPPER, out);
    *out = jv_bool(self.s->len > 0);
    for (jwalk_begin(&w, &self); out->b && jwalk_next(&w);)
        out->b = passes(w.c, c->tag);
    return jrun_pay_bytes(r, self.s->len);
}

const struct jnative jmethod_find_rows[] = {
    {"split", "sep? maxsplit?", str_split, FROM_LEFT},
    {"rsplit", "sep? maxsplit?", str_split, FROM_RIGHT},
    {"partition", "sep /", str_partition, FROM_LEFT},
    {"rpartition", "sep /", str_partition, FROM_RIGHT},
    {"find", "sub start? end? /", str_find, FROM_LEFT},
    {"rfind", "sub start? end? /", str_find, FROM_RIGHT},
    {"index", "sub start? end? /", str_find, FROM_LEFT | MUST_FIND},
    {"rindex", "sub start? end? /", str_find, FROM_RIGHT | MUST_FIND},
    {"count", "sub start? end? /", str_count, 0},
    {"startswith", "prefix start? end? /", str_affix, FROM_LEFT},
    {"endswith", "suffix start? end? /", str_affix, FROM_RIGHT},
    {"isdigit", "/", str_is, IS_DIGIT},
    {"isdecimal", "/", str_is, IS_DIGIT},
    {"isnumeric", "/", str_is, IS_DIGIT},
    {"isalpha", "/", str_is, IS_ALPHA},
    {"isalnum", "/", str_is, IS_ALNUM},
    {"isspace", "/", str_is, IS_SPACE},
    {"islower", "/", str_is, IS_LOWER},
    {"isupper", "/", str_is, IS_UPPER},
    {NULL, NULL, NULL, 0},
};
