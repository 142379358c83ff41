/* SPDX-License-Identifier: Apache-2.0
 *
 * Access: x.name looks for a method first and then for an item, x["name"] the other way round, as
 * the sandboxed environment does. There is nothing behind an attribute but the tables of methods
 * here: what Python would answer for a name with two underscores is an unsafe, undefined value,
 * and so are the methods that would change a list or a dict.
 */
#include <string.h>

#include "engine/template/jinja_ops.h"

static const struct jnative *const str_methods[] = {jmethod_str_rows, jmethod_find_rows, NULL};
static const struct jnative *const dict_methods[] = {jmethod_dict_rows, jmethod_copy_rows, NULL};
static const struct jnative *const list_methods[] = {jmethod_list_rows, jmethod_copy_rows, NULL};
static const struct jnative *const tuple_methods[] = {jmethod_list_rows, NULL};
static const struct jnative *const cycler_methods[] = {jmethod_cycler_rows, NULL};

static const struct jnative *find_method(const struct jnative *const *tables,
                                         const struct jvalue *name)
{
    for (; *tables; tables++)
        for (const struct jnative *row = *tables; row->name; row++)
            if (jtext_is(name, row->name))
                return row;
    return NULL;
}

static bool is_any(const struct jvalue *name, const char *const *words)
{
    for (; *words; words++)
        if (jtext_is(name, *words))
            return true;
    return false;
}

/* Whether Python would find the name and the sandbox would refuse it. */
static bool is_unsafe(const struct jvalue *of, const struct jvalue *name)
{
    static const char *const list_words[] = {"append", "clear",  "pop",    "reverse", "insert",
                                             "sort",   "extend", "remove", NULL};
    static const char *const dict_words[] = {"clear",      "pop",    "popitem",
                                             "setdefault", "update", NULL};
    static const char *const object_words[] = {"__class__", "__init__", "__doc__", "__module__",
                                               NULL};
    const struct jstr *s = name->s;
    if (of->type == JT_UNDEFINED)
        return is_any(name, object_words);
    if (of->type == JT_LIST && is_any(name, list_words))
        return true;
    if (of->type == JT_DICT && is_any(name, dict_words))
        return true;
    return s->len > 4 && memcmp(s->p, "__", 2) == 0 && memcmp(s->p + s->len - 2, "__", 2) == 0;
}

static int unsafe(struct jrun *r, const struct jvalue *of, const struct jvalue *name,
                  struct jvalue *out)
{
    const char *hint =
        jrun_printf(r, "access to attribute '%.*s' of '%s' object is unsafe.",
                    (int)(name->s->len < 80 ? name->s->len : 80), name->s->p, jobj_type(of));
    return hint ? jobj_undefined_hint(r, hint, out) : -1;
}

static int get_field(struct jrun *r, const struct jvalue *of, const struct jvalue *name,
                     struct jvalue *out)
{
    const struct jvalue *found;
    (void)r;
    switch (of->type) {
    case JT_NAMESPACE:
        found = jdict_get(&of->space->d, name);
        if (found)
            *out = *found;
        return found != NULL;
    case JT_TUPLE:
        if (!of->is_marked || !(jtext_is(name, "grouper") || jtext_is(name, "list")))
            return 0;
        *out = of->l->at[jtext_is(name, "list")];
        return 1;
    case JT_CYCLER:
        if (!jtext_is(name, "current"))
            return 0;
        *out = of->cycler->at[of->cycler->pos];
        return 1;
    case JT_MACRO:
        if (!jtext_is(name, "name"))
            return 0;
        return jtext_new(r, of->closure->m->name->name, of->closure->m->name->len, 0, out) ? -1 : 1;
    case JT_LOOP:
        return jloop_attr(r, of->loop, name, out);
    default:
        return 0;
    }
}

/* What getattr(of, name) gives: 1 found, 0 no such attribute, -1. */
static int py_attr(struct jrun *r, struct jvalue of, struct jvalue name, struct jvalue *out)
{
    const struct jnative *row = NULL;
    if (is_unsafe(&of, &name))
        return unsafe(r, &of, &name, out) ? -1 : 1;
    if (of.type == JT_UNDEFINED)
        return jrun_undefined(r, &of);
    int got = get_field(r, &of, &name, out);
    if (got)
        return got;
    if (of.type == JT_STR)
        row = find_method(str_methods, &name);
    else if (of.type == JT_DICT)
        row = find_method(dict_methods, &name);
    else if (of.type == JT_LIST)
        row = find_method(list_methods, &name);
    else if (of.type == JT_TUPLE || of.type == JT_RANGE)
        row = find_method(tuple_methods, &name);
    else if (of.type == JT_CYCLER)
        row = find_method(cycler_methods, &name);
    if (!row)
        return 0;
    return jobj_method(r, row, of, out) ? -1 : 1;
}

/* A whole index, made positive; false when it is none or lies outside. */
static bool place(const struct jvalue *index, size_t n, size_t *at)
{
    int64_t i;
    if (!jop_integer(index, &i))
        return false;
    if (i < 0)
        i += (int64_t)n;
    *at = (size_t)i;
    return i >= 0 && (size_t)i < n;
}

/* of[index]: 1 found, 0 not (whatever Python would raise), -1. */
static int py_item(struct jrun *r, const struct jvalue *of, const struct jvalue *index,
                   struct jvalue *out)
{
    const struct jvalue *found;
    size_t i;
    switch (of->type) {
    case JT_UNDEFINED:
        return jrun_undefined(r, of);
    case JT_DICT:
        if (!jvalue_is_hashable(index))
            return 0;
        if (jrun_pay_bytes(r, index->type == JT_STR ? index->s->len : 0))
            return -1;
        found = jdict_get(of->d, index);
        if (found)
            *out = *found;
        return found != NULL;
    case JT_LIST:
    case JT_TUPLE:
        if (!place(index, of->l->n, &i))
            return 0;
        *out = of->l->at[i];
        return 1;
    case JT_RANGE:
        if (!place(index, of->range->n, &i))
            return 0;
        *out = jv_int(of->range->start + (int64_t)i * of->range->step);
        return 1;
    case JT_STR:
        if (!place(index, of->s->n_cp, &i) || jrun_pay_bytes(r, i))
            return 0;
        return jtext_view(r, of, jtext_offset(of, i), jtext_offset(of, i + 1), out) ? -1 : 1;
    default:
        return 0;
    }
}

int jget_attr(struct jrun *r, struct jvalue of, struct jvalue name, struct jvalue *out)
{
    int got = py_attr(r, of, name, out);
    if (got == 0)
        got = py_item(r, &of, &name, out);
    if (got)
        return got < 0 ? -1 : 0;
    return jobj_undefined_attr(r, of, name, out);
}

int jget_attr_only(struct jrun *r, struct jvalue of, struct jvalue name, struct jvalue *out)
{
    int got = py_attr(r, of, name, out);
    if (got)
        return got < 0 ? -1 : 0;
    return jobj_undefined_attr(r, of, name, out);
}

int jget_item(struct jrun *r, struct jvalue of, struct jvalue index, struct jvalue *out)
{
    int got = py_item(r, &of, &index, out);
    if (got == 0 && index.type == JT_STR)
        got = py_attr(r, of, index, out);
    if (got)
        return got < 0 ? -1 : 0;
    return jobj_undefined_attr(r, of, index, out);
}

/* Python's rule for slices: bounds clipped to what there is, for either sign of the step. */
static int slice_bounds(struct jrun *r, const struct jvalue bound[3], int64_t n, int64_t *from,
                        int64_t *to, int64_t *step)
{
    int64_t v[3] = {0, 0, 1};
    for (int i = 0; i < 3; i++)
        if (bound[i].type != JT_NONE && !jop_integer(&bound[i], &v[i]))
            return jrun_fail(r, "slice indices must be integers or None");
    if (v[2] == 0)
        return jrun_fail(r, "slice step cannot be zero");
    *step = v[2] == INT64_MIN ? -INT64_MAX : v[2];
    int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? n - 1 : n;
    int64_t *const at[2] = {from, to};
    for (int i = 0; i < 2; i++) {
        if (bound[i].type == JT_NONE)
            *at[i] = (*step < 0) == (i == 0) ? high : low;
        else if (v[i] < 0)
            *at[i] = v[i] < -n ? low : v[i] + n;
        else
            *at[i] = v[i] > high ? high : v[i];
    }
    return 0;
}

static int slice_range(struct jrun *r, const struct jrange *of, int64_t from, int64_t step,
                       size_t n, struct jvalue *out)
{
    struct jrange *g = jrun_alloc(r, 1, sizeof *g);
    if (!g)
        return -1;
    *g = (struct jrange){.start = of->start + from * of->step, .step = of->step, .n = n};
    if (__builtin_mul_overflow(of->step, step, &g->step) && n > 1)
        return jrun_fail(r, "the step of a range does not fit in 64 bits");
    *out = (struct jvalue){.type = JT_RANGE, .range = g};
    return 0;
}

static size_t slice_count(int64_t from, int64_t to, int64_t step)
{
    if (step > 0)
        return from < to ? (size_t)((to - from - 1) / step) + 1 : 0;
    return from > to ? (size_t)((from - to - 1) / -step) + 1 : 0;
}

static int slice_str(struct jrun *r, const struct jvalue *of, int64_t from, int64_t step, size_t n,
                     struct jvalue *out)
{
    if (jrun_pay_bytes(r, of->s->n_cp == of->s->len ? n : of->s->len))
        return -1;
    if (step == 1 || n == 0) {
        size_t begin = n ? jtext_offset(of, (size_t)from) : 0;
        size_t end = n ? jtext_offset(of, (size_t)from + n) : 0;
        return jtext_view(r, of, begin, end, out);
    }
    struct jsink s;
    jsink_init(&s, r);
    for (size_t i = 0; i < n && !s.failed; i++) {
        size_t cp = (size_t)(from + (int64_t)i * step), at = jtext_offset(of, cp);
        if (of->s->n_cp != of->s->len && jrun_pay_bytes(r, at))
            return -1;
        jsink_part(&s, of, at, jtext_offset(of, cp + 1));
    }
    return jsink_take(&s, out);
}

int jget_slice(struct jrun *r, struct jvalue of, const struct jvalue bound[3], struct jvalue *out)
{
    int64_t from = 0, to = 0, step = 1;
    size_t len;
    if (of.type == JT_UNDEFINED)
        return jrun_undefined(r, &of);
    if (of.type == JT_DICT)
        return jrun_fail(r, "unhashable type: 'slice'");
    if (of.type != JT_STR && of.type != JT_LIST && of.type != JT_TUPLE && of.type != JT_RANGE)
        return jrun_fail(r, "'%s' object is not subscriptable", jobj_type(&of));
    if (jobj_len(r, &of, &len) || slice_bounds(r, bound, (int64_t)len, &from, &to, &step))
        return -1;
    size_t n = slice_count(from, to, step);
    if (of.type == JT_STR) {
        if (slice_str(r, &of, from, step, n, out))
            return -1;
        out->is_marked = of.is_marked;
        return 0;
    }
    if (of.type == JT_RANGE)
        return slice_range(r, of.range, n ? from : 0, step, n, out);
    enum jtype type = of.type == JT_TUPLE ? JT_TUPLE : JT_LIST;
    struct jlist *l;
    if (jobj_collect(r, of, &l))
        return -1;
    if (jobj_list(r, type, step == 1 && n ? l->at + from : NULL, n, out))
        return -1;
    if (step != 1)
        for (size_t i = 0; i < n; i++)
            out->l->at[out->l->n++] = l->at[from + (int64_t)i * step];
    out->origin = of.origin;
    return 0;
}

/* The part of a path from byte `from` to its dot, as jget_item wants it: digits are a number. */
static int path_part(struct jrun *r, const struct jvalue *path, size_t from, size_t to,
                     struct jvalue *out)
{
    bool is_digits = to > from;
    for (size_t i = from; i < to; i++)
        is_digits &= path->s->p[i] >= '0' && path->s->p[i] <= '9';
    if (!is_digits)
        return jtext_view(r, path, from, to, out);
    *out = jv_int(0);
    if (jnum_parse_int(path->s->p + from, to - from, 10, &out->i))
        return jrun_fail(r, "an index in an attribute path is too large");
    return 0;
}

int jget_path(struct jrun *r, struct jvalue v, struct jvalue path, const struct jvalue *fallback,
              struct jvalue *out)
{
    *out = v;
    if (path.type == JT_NONE || path.type == JT_MISSING)
        return 0;
    if (path.type != JT_STR)
        return jget_item(r, v, path, out);
    for (size_t from = 0; from <= path.s->len;) {
        const char *dot = memchr(path.s->p + from, '.', path.s->len - from);
        size_t to = dot ? (size_t)(dot - path.s->p) : path.s->len;
        struct jvalue part, of = *out;
        if (path_part(r, &path, from, to, &part) || jget_item(r, of, part, out))
            return -1;
        if (fallback && out->type == JT_UNDEFINED)
            *out = *fallback;
        from = to + 1;
    }
    return 0;
}
