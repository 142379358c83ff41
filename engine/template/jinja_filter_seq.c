/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters over sequences as wholes: ordering, grouping, cutting, the first and the last.
 */
#include <string.h>

#include "engine/template/jinja_ops.h"
#include "engine/template/jinja_strops.h"

static int seq_length(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    size_t n;
    (void)c;
    if (jobj_len(r, &v, &n))
        return -1;
    *out = jv_int((int64_t)n);
    return 0;
}

static int seq_list(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jlist *l;
    (void)c;
    if (jobj_collect(r, v, &l) || jobj_list(r, JT_LIST, l->at, l->n, out))
        return -1;
    out->origin = v.origin;
    return 0;
}

static int seq_first(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jiter it;
    (void)c;
    if (jiter_begin(r, v, &it))
        return -1;
    int got = jiter_next(r, &it, out);
    if (got)
        return got < 0 ? -1 : 0;
    return jobj_undefined_hint(r, "No first item, sequence was empty.", out);
}

static int seq_last(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jlist *l;
    (void)c;
    if (!jobj_has_len(&v) || v.type == JT_LOOP)
        return jrun_fail(r, "'%s' object is not reversible", jobj_type(&v));
    if (jobj_collect(r, v, &l))
        return -1;
    if (l->n == 0)
        return jobj_undefined_hint(r, "No last item, sequence was empty.", out);
    *out = l->at[l->n - 1];
    return 0;
}

static int fill_reversed(struct jrun *r, struct jgen *g)
{
    struct jlist *l;
    if (jobj_collect(r, g->from, &l))
        return -1;
    for (size_t i = l->n; i-- > 0;)
        if (jobj_add(r, &g->items, l->at[i]))
            return -1;
    return 0;
}

static int seq_reverse(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    const struct jvalue back[3] = {jv_none(), jv_none(), jv_int(-1)};
    struct jgen *g;
    if (v.type == JT_STR)
        return jget_slice(r, v, back, out);
    if (!jobj_is_iterable(&v))
        return jrun_fail(r, "argument must be iterable");
    if (jobj_gen(r, fill_reversed, v, c, &g))
        return -1;
    *out = jobj_gen_value(g);
    if (v.type != JT_ITER)
        return 0;
    /* what can be walked only once is reversed as a list */
    g->fill = NULL;
    if (fill_reversed(r, g))
        return -1;
    *out = g->items;
    return 0;
}

/* The value to compare by: in lower case unless case matters. */
static int fold(struct jrun *r, struct jvalue v, bool case_sensitive, struct jvalue *out)
{
    *out = v;
    return !case_sensitive && v.type == JT_STR ? jcase(r, &v, JCASE_LOWER, out) : 0;
}

/* "a,b.c": a list of what each path gives. */
static int multi_key(struct jrun *r, struct jvalue item, struct jvalue paths, bool case_sensitive,
                     struct jvalue *out)
{
    struct jvalue part, found, comma, folded;
    struct jvalue list;
    if (paths.type == JT_STR) {
        if (jtext_new(r, ",", 1, JORIGIN_TEMPLATE, &comma) ||
            jsplit(r, &paths, &comma, -1, false, &list))
            return -1;
    } else if (jobj_list(r, JT_LIST, &paths, 1, &list)) {
        return -1;
    }
    if (jobj_list(r, JT_LIST, NULL, 0, out))
        return -1;
    for (size_t i = 0; i < list.l->n; i++) {
        part = list.l->at[i];
        if (jget_path(r, item, part, NULL, &found) || fold(r, found, case_sensitive, &folded) ||
            jobj_add(r, out, folded))
            return -1;
    }
    return 0;
}

static int seq_sort(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jlist *l;
    struct jvalue key;
    bool case_sensitive = jarg_bool(&c->arg[1], false);
    if (jobj_collect(r, v, &l) || jobj_list(r, JT_LIST, l->at, l->n, out) ||
        jobj_list(r, JT_LIST, NULL, l->n, &key))
        return -1;
    for (size_t i = 0; i < l->n; i++) {
        if (multi_key(r, l->at[i], c->arg[2], case_sensitive, &key.l->at[i]))
            return -1;
        key.l->n++;
    }
    out->origin = v.origin;
    return jsort(r, out->l->at, key.l->at, l->n, jarg_bool(&c->arg[0], false));
}

static int seq_dictsort(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue key;
    bool case_sensitive = jarg_bool(&c->arg[0], false), by_value = false;
    if (c->arg[1].type != JT_MISSING && !jtext_is(&c->arg[1], "key")) {
        by_value = true;
        if (!jtext_is(&c->arg[1], "value"))
            return jrun_fail(r, "You can only sort by either \"key\" or \"value\"");
    }
    if (v.type == JT_UNDEFINED)
        return jrun_undefined(r, &v);
    if (v.type != JT_DICT)
        return jrun_fail(r, "'%s' object has no attribute 'items'", jobj_type(&v));
    if (jobj_list(r, JT_LIST, NULL, v.d->n, out) || jobj_list(r, JT_LIST, NULL, v.d->n, &key))
        return -1;
    for (size_t i = 0; i < v.d->n; i++) {
        struct jvalue by = by_value ? v.d->val[i] : v.d->key[i];
        if (jobj_pair(r, v.d->key[i], v.d->val[i], &out->l->at[i]) ||
            fold(r, by, case_sensitive, &key.l->at[i]))
            return -1;
    }
    out->l->n = key.l->n = v.d->n;
    out->origin = v.origin;
    return jsort(r, out->l->at, key.l->at, v.d->n, jarg_bool(&c->arg[2], false));
}

static int fill_unique(struct jrun *r, struct jgen *g)
{
    struct jdict *seen = jrun_alloc(r, 1, sizeof *seen);
    struct jlist *l;
    bool case_sensitive = jarg_bool(&g->call->arg[0], false);
    if (!seen || jobj_collect(r, g->from, &l))
        return -1;
    for (size_t i = 0; i < l->n; i++) {
        struct jvalue found, key;
        if (jget_path(r, l->at[i], g->call->arg[1], NULL, &found) ||
            fold(r, found, case_sensitive, &key))
            return -1;
        size_t n = seen->n;
        if (jobj_dict_put(r, seen, key, jv_none()))
            return -1;
        if (seen->n > n && jobj_add(r, &g->items, l->at[i]))
            return -1;
    }
    return 0;
}

static int fill_items(struct jrun *r, struct jgen *g)
{
    const struct jvalue *v = &g->from;
    if (v->type == JT_UNDEFINED)
        return 0;
    if (v->type != JT_DICT)
        return jrun_fail(r, "Can only get item pairs from a mapping.");
    for (size_t i = 0; i < v->d->n; i++) {
        struct jvalue pair;
        if (jobj_pair(r, v->d->key[i], v->d->val[i], &pair) || jobj_add(r, &g->items, pair))
            return -1;
    }
    return 0;
}

static int fill_batch(struct jrun *r, struct jgen *g)
{
    int64_t count;
    struct jlist *l;
    struct jvalue row;
    const struct jvalue *fill = &g->call->arg[1];
    bool has_fill = fill->type != JT_MISSING && fill->type != JT_NONE;
    if (jarg_int(r, &g->call->arg[0], 0, &count) || jobj_collect(r, g->from, &l))
        return -1;
    if (count > JRUN_MAX_RANGE)
        return jrun_limit(r, "a batch has more than %d items", JRUN_MAX_RANGE);
    if (jobj_list(r, JT_LIST, NULL, 0, &row))
        return -1;
    for (size_t i = 0; i < l->n; i++) {
        if ((int64_t)row.l->n == count &&
            (jobj_add(r, &g->items, row) || jobj_list(r, JT_LIST, NULL, 0, &row)))
            return -1;
        if (jobj_add(r, &row, l->at[i]))
            return -1;
    }
    if (row.l->n == 0)
        return 0;
    while (has_fill && (int64_t)row.l->n < count)
        if (jobj_add(r, &row, *fill))
            return -1;
    return jobj_add(r, &g->items, row);
}

static int fill_slice(struct jrun *r, struct jgen *g)
{
    int64_t n;
    struct jlist *l;
    const struct jvalue *fill = &g->call->arg[1];
    bool has_fill = fill->type != JT_MISSING && fill->type != JT_NONE;
    if (jarg_int(r, &g->call->arg[0], 0, &n) || jobj_collect(r, g->from, &l))
        return -1;
    if (n == 0)
        return jrun_fail(r, "integer division or modulo by zero");
    if (n > JRUN_MAX_RANGE)
        return jrun_limit(r, "more than %d slices", JRUN_MAX_RANGE);
    for (int64_t i = 0, from = 0; i < n; i++) {
        bool has_extra = i < (int64_t)l->n % n;
        int64_t len = (int64_t)l->n / n + has_extra;
        struct jvalue row;
        if (jobj_list(r, JT_LIST, NULL, 0, &row))
            return -1;
        for (int64_t k = 0; k < len; k++)
            if (jobj_add(r, &row, l->at[from + k]))
                return -1;
        if ((has_fill && !has_extra && jobj_add(r, &row, *fill)) || jobj_add(r, &g->items, row))
            return -1;
        from += len;
    }
    return 0;
}

enum { GEN_UNIQUE, GEN_ITEMS, GEN_BATCH, GEN_SLICE };

static int seq_generate(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    static int (*const fills[])(struct jrun *, struct jgen *) = {fill_unique, fill_items,
                                                                 fill_batch, fill_slice};
    struct jgen *g;
    if (jobj_gen(r, fills[c->tag], v, c, &g))
        return -1;
    *out = jobj_gen_value(g);
    return 0;
}

static int add_group(struct jrun *r, struct jvalue key, struct jvalue rows, struct jvalue *list)
{
    struct jvalue group;
    if (jobj_pair(r, key, rows, &group))
        return -1;
    group.is_marked = true;
    return jobj_add(r, list, group);
}

static int seq_groupby(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jlist *l;
    struct jvalue items, key, rows = jv_none(), found;
    const struct jvalue *fallback =
        c->arg[1].type == JT_MISSING || c->arg[1].type == JT_NONE ? NULL : &c->arg[1];
    bool case_sensitive = jarg_bool(&c->arg[2], false), is_same;
    if (jobj_collect(r, v, &l) || jobj_list(r, JT_LIST, l->at, l->n, &items) ||
        jobj_list(r, JT_LIST, NULL, l->n, &key) || jobj_list(r, JT_LIST, NULL, 0, out))
        return -1;
    for (size_t i = 0; i < l->n; i++)
        if (jget_path(r, l->at[i], c->arg[0], fallback, &found) ||
            fold(r, found, case_sensitive, &key.l->at[i]))
            return -1;
    if (jsort(r, items.l->at, key.l->at, l->n, false))
        return -1;
    for (size_t i = 0; i < l->n; i++) {
        is_same = false;
        if (i && jop_equal(r, &key.l->at[i - 1], &key.l->at[i], &is_same))
            return -1;
        if (!is_same) { /* the key shown is that of the first row, in its own case */
            if (jobj_list(r, JT_LIST, NULL, 0, &rows) ||
                jget_path(r, items.l->at[i], c->arg[0], fallback, &found) ||
                add_group(r, found, rows, out))
                return -1;
        }
        if (jobj_add(r, &rows, items.l->at[i]))
            return -1;
    }
    return 0;
}

static int seq_sum(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jlist *l;
    *out = c->arg[1].type == JT_MISSING ? jv_int(0) : c->arg[1];
    if (out->type == JT_STR)
        return jrun_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    if (jobj_collect(r, v, &l))
        return -1;
    for (size_t i = 0; i < l->n; i++) {
        struct jvalue item, left = *out;
        if (jget_path(r, l->at[i], c->arg[0], NULL, &item) ||
            jop_arith(r, JOP_ADD, left, item, out))
            return -1;
    }
    return 0;
}

/* min and max: the tag is the comparison that makes an item better. */
static int seq_best(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jlist *l;
    struct jvalue best = jv_none(), key, found;
    bool case_sensitive = jarg_bool(&c->arg[0], false), is_better;
    if (jobj_collect(r, v, &l))
        return -1;
    if (l->n == 0)
        return jobj_undefined_hint(r, "No aggregated item, sequence was empty.", out);
    for (size_t i = 0; i < l->n; i++) {
        if (jget_path(r, l->at[i], c->arg[1], NULL, &found) || fold(r, found, case_sensitive, &key))
            return -1;
        is_better = i == 0;
        if (i && jop_compare(r, (enum jop)c->tag, &key, &best, &is_better))
            return -1;
        if (is_better) {
            best = key;
            *out = l->at[i];
        }
    }
    return 0;
}

const struct jnative jfilter_seq_rows[] = {
    {"length", "", seq_length, 0},
    {"count", "", seq_length, 0},
    {"list", "", seq_list, 0},
    {"first", "", seq_first, 0},
    {"last", "", seq_last, 0},
    {"reverse", "", seq_reverse, 0},
    {"sort", "reverse? case_sensitive? attribute?", seq_sort, 0},
    {"dictsort", "case_sensitive? by? reverse?", seq_dictsort, 0},
    {"unique", "case_sensitive? attribute?", seq_generate, GEN_UNIQUE},
    {"items", "", seq_generate, GEN_ITEMS},
    {"batch", "linecount fill_with?", seq_generate, GEN_BATCH},
    {"slice", "slices fill_with?", seq_generate, GEN_SLICE},
    {"groupby", "attribute default? case_sensitive?", seq_groupby, 0},
    {"sum", "attribute? start?", seq_sum, 0},
    {"min", "case_sensitive? attribute?", seq_best, JOP_LT},
    {"max", "case_sensitive? attribute?", seq_best, JOP_GT},
    {NULL, NULL, NULL, 0},
};
