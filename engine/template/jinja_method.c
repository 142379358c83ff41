/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of dicts, lists, tuples, ranges and cyclers: those that do not change what they are
 * called on.
 */
#include "engine/template/jinja_ops.h"

static int dict_get(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    if (!jvalue_is_hashable(&c->arg[0]))
        return jrun_fail(r, "unhashable type: '%s'", jobj_type(&c->arg[0]));
    if (c->arg[0].type == JT_STR && jrun_pay_bytes(r, c->arg[0].s->len))
        return -1;
    const struct jvalue *found = jdict_get(self.d, &c->arg[0]);
    *out = found ? *found : c->arg[1].type == JT_MISSING ? jv_none() : c->arg[1];
    return 0;
}

/* keys, values, items */
static int dict_view(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    struct jview *v = jrun_alloc(r, 1, sizeof *v);
    if (!v)
        return -1;
    *v = (struct jview){.kind = (enum jview_kind)c->tag, .d = self.d};
    *out = (struct jvalue){.type = JT_VIEW, .origin = self.origin, .view = v};
    return 0;
}

static int any_copy(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    (void)r;
    (void)c;
    *out = self; /* nothing changes a list or a dict, so one is as good as two */
    return 0;
}

const struct jnative jmethod_dict_rows[] = {
    {"get", "key default? /", dict_get, 0},
    {"keys", "/", dict_view, JVIEW_KEYS},
    {"values", "/", dict_view, JVIEW_VALUES},
    {"items", "/", dict_view, JVIEW_ITEMS},
    {NULL, NULL, NULL, 0},
};

const struct jnative jmethod_copy_rows[] = {
    {"copy", "/", any_copy, 0},
    {NULL, NULL, NULL, 0},
};

static int list_index(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    struct jlist *l;
    if (jobj_collect(r, self, &l))
        return -1;
    int64_t n = (int64_t)l->n, bound[2] = {0, n};
    for (int i = 0; i < 2; i++) {
        if (jarg_int(r, &c->arg[1 + i], bound[i], &bound[i]))
            return -1;
        if (bound[i] < 0)
            bound[i] = bound[i] + n < 0 ? 0 : bound[i] + n;
    }
    for (int64_t i = bound[0]; i < bound[1] && i < n; i++) {
        bool is_same;
        if (jop_equal(r, &l->at[i], &c->arg[0], &is_same))
            return -1;
        if (is_same) {
            *out = jv_int(i);
            return 0;
        }
    }
    return jrun_fail(r, "value is not in list");
}

static int list_count(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    struct jlist *l;
    if (jobj_collect(r, self, &l))
        return -1;
    *out = jv_int(0);
    for (size_t i = 0; i < l->n; i++) {
        bool is_same;
        if (jop_equal(r, &l->at[i], &c->arg[0], &is_same))
            return -1;
        out->i += is_same;
    }
    return 0;
}

const struct jnative jmethod_list_rows[] = {
    {"index", "value start? stop? /", list_index, 0},
    {"count", "value /", list_count, 0},
    {NULL, NULL, NULL, 0},
};

static int cycler_next(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    (void)r;
    (void)c;
    *out = self.cycler->at[self.cycler->pos];
    self.cycler->pos = (self.cycler->pos + 1) % self.cycler->n;
    return 0;
}

static int cycler_reset(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    (void)r;
    (void)c;
    self.cycler->pos = 0;
    *out = jv_none();
    return 0;
}

const struct jnative jmethod_cycler_rows[] = {
    {"next", "/", cycler_next, 0},
    {"reset", "/", cycler_reset, 0},
    {NULL, NULL, NULL, 0},
};
