/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters that apply another filter or a test to each item: map, select, reject and the variants
 * by attribute. All are generators; the arguments behind the name go to what is named.
 */
#include "engine/template/jinja_ops.h"

/* The arguments of g behind the first n, for the filter or test that they name. */
static struct jcall rest_of(const struct jgen *g, size_t n)
{
    return (struct jcall){.pos = g->call->pos + n,
                          .n_pos = g->call->n_pos - n,
                          .kw = g->call->kw,
                          .n_kw = g->call->n_kw};
}

static const struct jnative *find_named(struct jrun *r, const struct jnative *const *tables,
                                        const struct jvalue *name, const char *what)
{
    if (name->type == JT_STR)
        for (; *tables; tables++)
            for (const struct jnative *row = *tables; row->name; row++)
                if (jtext_is(name, row->name))
                    return row;
    jrun_fail(r, "no %s named '%.*s'", what,
              name->type == JT_STR ? (int)(name->s->len < 80 ? name->s->len : 80) : 0,
              name->type == JT_STR ? name->s->p : "");
    return NULL;
}

static const struct jvalue *find_kw(const struct jcall *c, const char *name, size_t len)
{
    for (size_t k = 0; k < c->n_kw; k++) {
        struct jstr s = {.p = c->kw[k].name, .len = c->kw[k].len};
        struct jvalue v = {.type = JT_STR, .s = &s};
        if (c->kw[k].len == len && jtext_is(&v, name))
            return &c->kw[k].value;
    }
    return NULL;
}

static int map_attribute(struct jrun *r, struct jgen *g, const struct jvalue *path,
                         const struct jlist *l)
{
    const struct jvalue *fallback = find_kw(g->call, "default", 7);
    if (g->call->n_kw > 1 + (fallback != NULL))
        return jrun_fail(r, "map got an unexpected keyword argument");
    if (fallback && fallback->type == JT_NONE)
        fallback = NULL;
    for (size_t i = 0; i < l->n; i++) {
        struct jvalue v;
        if (jget_path(r, l->at[i], *path, fallback, &v) || jobj_add(r, &g->items, v))
            return -1;
    }
    return 0;
}

static int fill_map(struct jrun *r, struct jgen *g)
{
    struct jlist *l;
    const struct jcall *c = g->call;
    if (!jobj_is_true(&g->from))
        return 0;
    const struct jvalue *path = c->n_pos == 0 ? find_kw(c, "attribute", 9) : NULL;
    if (!path && c->n_pos == 0)
        return jrun_fail(r, "map requires a filter argument");
    if (jobj_collect(r, g->from, &l))
        return -1;
    if (path)
        return map_attribute(r, g, path, l);
    const struct jnative *filter = find_named(r, jnative_filters, &c->pos[0], "filter");
    if (!filter)
        return -1;
    for (size_t i = 0; i < l->n; i++) {
        struct jcall sub = rest_of(g, 1);
        struct jvalue v;
        if (jcall_native(r, filter, l->at[i], &sub, &v) || jobj_add(r, &g->items, v))
            return -1;
    }
    return 0;
}

static int fill_select(struct jrun *r, struct jgen *g)
{
    struct jlist *l;
    const struct jcall *c = g->call;
    const struct jnative *test = NULL;
    if (!jobj_is_true(&g->from))
        return 0;
    if (g->by_attr && c->n_pos == 0)
        return jrun_fail(r, "Missing parameter for attribute name");
    if (c->n_pos > g->by_attr &&
        !(test = find_named(r, jnative_tests, &c->pos[g->by_attr], "test")))
        return -1;
    if (jobj_collect(r, g->from, &l))
        return -1;
    for (size_t i = 0; i < l->n; i++) {
        struct jvalue v = l->at[i], pass;
        if (g->by_attr && jget_path(r, l->at[i], c->pos[0], NULL, &v))
            return -1;
        pass = v;
        if (test) {
            struct jcall sub = rest_of(g, g->by_attr + 1);
            if (jcall_native(r, test, v, &sub, &pass))
                return -1;
        }
        if (jobj_is_true(&pass) != g->is_negated && jobj_add(r, &g->items, l->at[i]))
            return -1;
    }
    return 0;
}

enum { PICK_MAP = 0, PICK_SELECT = 1, PICK_REJECT = 2, PICK_ATTR = 4 };

static int pick(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jgen *g;
    if (jobj_gen(r, c->tag == PICK_MAP ? fill_map : fill_select, v, c, &g))
        return -1;
    g->is_negated = c->tag & PICK_REJECT;
    g->by_attr = c->tag & PICK_ATTR;
    *out = jobj_gen_value(g);
    return 0;
}

static int pick_attr(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue name;
    return jrepr_str(r, c->arg[0], &name) ? -1 : jget_attr_only(r, v, name, out);
}

static int pick_default(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    bool is_absent = v.type == JT_UNDEFINED || (jarg_bool(&c->arg[1], false) && !jobj_is_true(&v));
    *out = is_absent ? c->arg[0] : v;
    if (out->type == JT_MISSING)
        return jtext_new(r, "", 0, JORIGIN_TEMPLATE, out);
    return 0;
}

const struct jnative jfilter_pick_rows[] = {
    {"map", "*", pick, PICK_MAP},
    {"select", "*", pick, PICK_SELECT},
    {"reject", "*", pick, PICK_REJECT},
    {"selectattr", "*", pick, PICK_SELECT | PICK_ATTR},
    {"rejectattr", "*", pick, PICK_REJECT | PICK_ATTR},
    {"attr", "name", pick_attr, 0},
    {"default", "default_value? boolean?", pick_default, 0},
    {"d", "default_value? boolean?", pick_default, 0},
    {NULL, NULL, NULL, 0},
};
