/* SPDX-License-Identifier: Apache-2.0
 *
 * Equality, order, membership, and the stable sort that the filters share.
 */
#include <string.h>

#include "engine/template/jinja_ops.h"

static bool is_number(const struct jvalue *v)
{
    return v->type == JT_BOOL || v->type == JT_INT || v->type == JT_FLOAT;
}

static int equal(struct jrun *r, const struct jvalue *a, const struct jvalue *b, int depth,
                 bool *out);

static int equal_lists(struct jrun *r, const struct jvalue *a, const struct jvalue *b, int depth,
                       bool *out)
{
    *out = a->l->n == b->l->n;
    for (size_t i = 0; *out && i < a->l->n; i++)
        if (equal(r, &a->l->at[i], &b->l->at[i], depth, out))
            return -1;
    return 0;
}

static int equal_dicts(struct jrun *r, const struct jvalue *a, const struct jvalue *b, int depth,
                       bool *out)
{
    *out = a->d->n == b->d->n;
    for (size_t i = 0; *out && i < a->d->n; i++) {
        const struct jvalue *other = jdict_get(b->d, &a->d->key[i]);
        *out = other != NULL;
        if (other && equal(r, &a->d->val[i], other, depth, out))
            return -1;
    }
    return 0;
}

static bool equal_ranges(const struct jrange *a, const struct jrange *b)
{
    return a->n == b->n &&
           (a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

static int equal(struct jrun *r, const struct jvalue *a, const struct jvalue *b, int depth,
                 bool *out)
{
    if (jrun_pay(r, 1))
        return -1;
    *out = false;
    if (a->type != b->type && !(is_number(a) && is_number(b)))
        return 0;
    if (depth > JRUN_MAX_NESTING)
        return jrun_limit(r, "values are nested more than %d deep", JRUN_MAX_NESTING);
    switch (a->type) {
    case JT_LIST:
    case JT_TUPLE:
        return equal_lists(r, a, b, depth + 1, out);
    case JT_DICT:
        return equal_dicts(r, a, b, depth + 1, out);
    case JT_RANGE:
        *out = equal_ranges(a->range, b->range);
        return 0;
    case JT_STR:
        if (jrun_pay_bytes(r, a->s->len))
            return -1;
        break;
    default:
        break;
    }
    *out = jvalue_same_key(a, b);
    return 0;
}

int jop_equal(struct jrun *r, const struct jvalue *a, const struct jvalue *b, bool *out)
{
    return equal(r, a, b, 0, out);
}

static int sign(bool less, bool more)
{
    return less ? -1 : more;
}

static int order(struct jrun *r, enum jop op, const struct jvalue *a, const struct jvalue *b,
                 int depth, int *out);

/* The first pair of items that differ decides, then the length. */
static int order_lists(struct jrun *r, enum jop op, const struct jvalue *a, const struct jvalue *b,
                       int depth, int *out)
{
    size_t n = a->l->n < b->l->n ? a->l->n : b->l->n;
    for (size_t i = 0; i < n; i++) {
        bool is_same;
        if (equal(r, &a->l->at[i], &b->l->at[i], depth, &is_same))
            return -1;
        if (!is_same)
            return order(r, op, &a->l->at[i], &b->l->at[i], depth, out);
    }
    *out = sign(a->l->n<b->l->n, a->l->n> b->l->n);
    return 0;
}

enum { UNORDERED = 2 }; /* a NaN is beside every number */

/* -1, 0, 1 or UNORDERED; an error for what Python cannot order. */
static int order(struct jrun *r, enum jop op, const struct jvalue *a, const struct jvalue *b,
                 int depth, int *out)
{
    static const char *const names[] = {
        [JOP_LT] = "<", [JOP_LE] = "<=", [JOP_GT] = ">", [JOP_GE] = ">="};
    int64_t i, j;
    double f, g;
    if (a->type == JT_UNDEFINED || b->type == JT_UNDEFINED)
        return jrun_undefined(r, a->type == JT_UNDEFINED ? a : b);
    if (depth > JRUN_MAX_NESTING)
        return jrun_limit(r, "values are nested more than %d deep", JRUN_MAX_NESTING);
    if (jop_integer(a, &i) && jop_integer(b, &j)) {
        *out = sign(i<j, i> j);
    } else if (jop_number(a, &f) && jop_number(b, &g)) {
        *out = f != f || g != g ? UNORDERED : sign(f<g, f> g);
    } else if (a->type == JT_STR && b->type == JT_STR) {
        size_t n = a->s->len < b->s->len ? a->s->len : b->s->len;
        if (jrun_pay_bytes(r, n))
            return -1;
        int c = memcmp(a->s->p, b->s->p, n); /* UTF-8 sorts as its code points do */
        *out = c ? sign(c<0, c> 0) : sign(a->s->len<b->s->len, a->s->len> b->s->len);
    } else if (a->type == b->type && (a->type == JT_LIST || a->type == JT_TUPLE)) {
        return order_lists(r, op, a, b, depth + 1, out);
    } else {
        return jrun_fail(r, "'%s' not supported between instances of '%s' and '%s'", names[op],
                         jobj_type(a), jobj_type(b));
    }
    return 0;
}

static int contains(struct jrun *r, const struct jvalue *item, const struct jvalue *in, bool *out)
{
    *out = false;
    if (in->type == JT_STR) {
        if (item->type != JT_STR)
            return jrun_fail(r, "'in <string>' requires string as left operand, not %s",
                             jobj_type(item));
        if (jrun_pay_bytes(r, in->s->len))
            return -1;
        *out = jtext_find(in, item, 0) != SIZE_MAX;
        return 0;
    }
    bool is_keys = in->type == JT_VIEW && in->view->kind == JVIEW_KEYS;
    if (in->type == JT_DICT || is_keys) {
        if (!jvalue_is_hashable(item))
            return jrun_fail(r, "unhashable type: '%s'", jobj_type(item));
        if (jrun_pay_bytes(r, item->type == JT_STR ? item->s->len : 0))
            return -1;
        *out = jdict_get(is_keys ? in->view->d : in->d, item) != NULL;
        return 0;
    }
    if (!jobj_is_iterable(in))
        return jrun_fail(r, "argument of type '%s' is not iterable", jobj_type(in));
    struct jiter it;
    struct jvalue v;
    int got;
    if (jiter_begin(r, *in, &it))
        return -1;
    while ((got = jiter_next(r, &it, &v)) > 0) {
        if (equal(r, &v, item, 0, out))
            return -1;
        if (*out)
            return 0;
    }
    return got;
}

int jop_compare(struct jrun *r, enum jop op, const struct jvalue *a, const struct jvalue *b,
                bool *out)
{
    int c;
    switch (op) {
    case JOP_EQ:
    case JOP_NE:
        if (equal(r, a, b, 0, out))
            return -1;
        *out ^= op == JOP_NE;
        return 0;
    case JOP_IN:
    case JOP_NOT_IN:
        if (contains(r, a, b, out))
            return -1;
        *out ^= op == JOP_NOT_IN;
        return 0;
    default:
        if (order(r, op, a, b, 0, &c))
            return -1;
        *out = c != UNORDERED && (op == JOP_LT   ? c < 0
                                  : op == JOP_LE ? c <= 0
                                  : op == JOP_GT ? c > 0
                                                 : c >= 0);
        return 0;
    }
}

/* Merges the runs [from, mid) and [mid, to) of idx; equal keys keep their order. */
static int merge(struct jrun *r, const struct jvalue *key, size_t *idx, size_t *tmp,
                 const size_t at[3], bool is_reverse)
{
    size_t i = at[0], j = at[1], w = at[0];
    while (i < at[1] && j < at[2]) {
        bool take_right;
        const struct jvalue *left = &key[idx[i]], *right = &key[idx[j]];
        if (jrun_pay(r, 1) || jop_compare(r, JOP_LT, is_reverse ? left : right,
                                          is_reverse ? right : left, &take_right))
            return -1;
        tmp[w++] = take_right ? idx[j++] : idx[i++];
    }
    while (i < at[1])
        tmp[w++] = idx[i++];
    while (j < at[2])
        tmp[w++] = idx[j++];
    memcpy(idx + at[0], tmp + at[0], (at[2] - at[0]) * sizeof *idx);
    return 0;
}

int jsort(struct jrun *r, struct jvalue *item, struct jvalue *key, size_t n, bool is_reverse)
{
    size_t *idx = jrun_alloc(r, n + 1, sizeof *idx), *tmp = jrun_alloc(r, n + 1, sizeof *tmp);
    struct jvalue *sorted = jrun_alloc(r, n + 1, sizeof *sorted);
    if (!idx || !tmp || !sorted)
        return -1;
    for (size_t i = 0; i < n; i++)
        idx[i] = i;
    for (size_t width = 1; width < n; width *= 2)
        for (size_t from = 0; from + width < n; from += 2 * width) {
            size_t to = from + 2 * width < n ? from + 2 * width : n;
            const size_t at[3] = {from, from + width, to};
            if (merge(r, key, idx, tmp, at, is_reverse))
                return -1;
        }
    for (size_t pass = 0; pass < 2; pass++) {
        struct jvalue *of = pass ? key : item;
        for (size_t i = 0; i < n; i++)
            sorted[i] = of[idx[i]];
        if (n)
            memcpy(of, sorted, n * sizeof *of);
    }
    return 0;
}
