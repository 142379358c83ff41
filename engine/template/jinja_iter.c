/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking anything that Python would iterate: strings by character, dicts by key, ranges, views,
 * generators (once), what is undefined (nothing).
 */
#include "engine/template/jinja_obj.h"
#include "engine/template/jinja_text.h"

#include "engine/template/jinja_uni.h"

/* A generator over a generator over ... fills as deep as the chain is long, so it counts as depth.
 */
static int gen_fill(struct jrun *r, struct jgen *g)
{
    int (*fill)(struct jrun *, struct jgen *) = g->fill;
    if (!fill)
        return 0;
    if (r->depth >= JRUN_MAX_DEPTH)
        return jrun_limit(r, "generators are nested more than %d deep", JRUN_MAX_DEPTH);
    g->fill = NULL;
    r->depth++;
    int bad = fill(r, g);
    r->depth--;
    return bad;
}

int jiter_begin(struct jrun *r, struct jvalue of, struct jiter *it)
{
    *it = (struct jiter){.of = of};
    switch (of.type) {
    case JT_UNDEFINED:
        return 0;
    case JT_ITER:
        return gen_fill(r, of.gen);
    case JT_STR:
        it->n = of.s->len;
        return 0;
    case JT_LIST:
    case JT_TUPLE:
    case JT_DICT:
    case JT_RANGE:
    case JT_VIEW:
        return jobj_len(r, &of, &it->n);
    default:
        return jrun_fail(r, "'%s' object is not iterable", jobj_type(&of));
    }
}

static int view_item(struct jrun *r, const struct jvalue *of, size_t i, struct jvalue *out)
{
    const struct jview *v = of->view;
    if (v->kind == JVIEW_ITEMS)
        return jobj_pair(r, v->d->key[i], v->d->val[i], out);
    *out = v->kind == JVIEW_KEYS ? v->d->key[i] : v->d->val[i];
    return 0;
}

int jiter_next(struct jrun *r, struct jiter *it, struct jvalue *out)
{
    const struct jvalue *of = &it->of;
    if (jrun_pay(r, 1))
        return -1;
    if (of->type == JT_ITER) {
        struct jgen *g = of->gen;
        if (g->pos >= g->items.l->n)
            return 0;
        *out = g->items.l->at[g->pos++];
        return 1;
    }
    if (it->pos >= it->n)
        return 0;
    size_t i = it->pos++, len;
    switch (of->type) {
    case JT_STR:
        juni_get(of->s->p + i, of->s->p + of->s->len, &len);
        it->pos = i + len;
        if (jtext_view(r, of, i, i + len, out))
            return -1;
        out->is_marked = false;
        return 1;
    case JT_DICT:
        *out = of->d->key[i];
        return 1;
    case JT_RANGE:
        *out = jv_int(of->range->start + (int64_t)i * of->range->step);
        out->origin = of->origin;
        return 1;
    case JT_VIEW:
        return view_item(r, of, i, out) ? -1 : 1;
    default:
        *out = of->l->at[i];
        return 1;
    }
}

int jobj_collect(struct jrun *r, struct jvalue of, struct jlist **out)
{
    if (of.type == JT_LIST || of.type == JT_TUPLE) {
        *out = of.l;
        return 0;
    }
    struct jiter it;
    struct jvalue list, v;
    if (jiter_begin(r, of, &it) || jobj_list(r, JT_LIST, NULL, 0, &list))
        return -1;
    int got;
    while ((got = jiter_next(r, &it, &v)) > 0)
        if (jobj_add(r, &list, v))
            return -1;
    *out = list.l;
    return got;
}
