/* SPDX-License-Identifier: Apache-2.0
 *
 * for loops and the object `loop`. Items come one at a time, and the filter (`if` behind the
 * iterable) is asked as they come, so that a body that changes a namespace is seen by the filter
 * of the next item, as in Python; loop.last looks one item ahead, loop.length takes all that is
 * left.
 *
 * Each turn has a scope of its own. The else branch runs when no turn of the body reached its end:
 * this includes the case that every turn was left by break or continue, as the reference does.
 */
#include <string.h>

#include "engine/template/jinja_ops.h"

/* The next item that passes the filter; 1, 0 at the end, -1. */
static int pull(struct jrun *r, struct jloop *l, struct jvalue *out)
{
    const struct jnode *n = l->node;
    int got;
    while ((got = jiter_next(r, &l->it, out)) > 0) {
        if (!n->loop.filter || l->is_filtered)
            return 1;
        struct jscope *outer = r->scope;
        struct jvalue pass;
        r->scope = l->scope;
        int bad =
            !jscope_push(r) || jassign(r, n->loop.target, *out) || jeval(r, n->loop.filter, &pass);
        r->scope = outer;
        if (bad)
            return -1;
        if (jobj_is_true(&pass))
            return 1;
    }
    return got;
}

static int peek(struct jrun *r, struct jloop *l)
{
    if (l->after.type != JT_MISSING)
        return 1;
    int got = pull(r, l, &l->after);
    if (got <= 0)
        l->after.type = JT_MISSING;
    return got;
}

static int length(struct jrun *r, struct jloop *l)
{
    if (l->length >= 0)
        return 0;
    size_t n;
    if (!l->node->loop.filter && jobj_has_len(&l->items)) {
        if (jobj_len(r, &l->items, &n))
            return -1;
        l->length = (int64_t)n;
        return 0;
    }
    struct jvalue rest, v;
    int got;
    if (jobj_list(r, JT_LIST, NULL, 0, &rest))
        return -1;
    while ((got = pull(r, l, &v)) > 0)
        if (jobj_add(r, &rest, v))
            return -1;
    if (got < 0)
        return -1;
    l->length = l->index0 + 1 + (int64_t)rest.l->n + (l->after.type != JT_MISSING);
    l->is_filtered = true; /* what is left has passed the filter */
    return jiter_begin(r, rest, &l->it);
}

static int loop_number(struct jrun *r, struct jloop *l, const struct jvalue *name,
                       struct jvalue *out)
{
    static const char *const names[] = {"index",  "index0",   "depth",    "depth0",
                                        "length", "revindex", "revindex0"};
    size_t i = 0;
    while (i < sizeof names / sizeof *names && !jtext_is(name, names[i]))
        i++;
    if (i == sizeof names / sizeof *names)
        return 0;
    if (i >= 4 && length(r, l))
        return -1;
    const int64_t values[] = {l->index0 + 1,
                              l->index0,
                              l->depth0 + 1,
                              l->depth0,
                              l->length,
                              l->length - l->index0,
                              l->length - l->index0 - 1};
    *out = jv_int(values[i]);
    return 1;
}

int jloop_attr(struct jrun *r, struct jloop *l, const struct jvalue *name, struct jvalue *out)
{
    int got = loop_number(r, l, name, out);
    if (got)
        return got;
    if (jtext_is(name, "first")) {
        *out = jv_bool(l->index0 == 0);
        return 1;
    }
    if (jtext_is(name, "last") || jtext_is(name, "nextitem")) {
        got = peek(r, l);
        if (got < 0)
            return -1;
        if (jtext_is(name, "last"))
            *out = jv_bool(!got);
        else if (got)
            *out = l->after;
        else
            return jobj_undefined_hint(r, "there is no next item", out) ? -1 : 1;
        return 1;
    }
    if (jtext_is(name, "previtem")) {
        *out = l->before;
        return l->index0 > 0 || jobj_undefined_hint(r, "there is no previous item", out) == 0 ? 1
                                                                                              : -1;
    }
    for (const struct jnative *row = jmethod_loop_rows; row->name; row++)
        if (jtext_is(name, row->name)) {
            struct jvalue self = {.type = JT_LOOP, .loop = l};
            return jobj_method(r, row, self, out) ? -1 : 1;
        }
    return 0;
}

static int loop_cycle(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    if (c->n_pos == 0)
        return jrun_fail(r, "no items for cycling given");
    *out = c->pos[(size_t)self.loop->index0 % c->n_pos];
    return 0;
}

static int loop_changed(struct jrun *r, struct jvalue self, struct jcall *c, struct jvalue *out)
{
    struct jvalue now;
    bool is_same = false;
    if (jobj_list(r, JT_TUPLE, c->pos, c->n_pos, &now))
        return -1;
    if (self.loop->changed.type != JT_MISSING && jop_equal(r, &self.loop->changed, &now, &is_same))
        return -1;
    self.loop->changed = now;
    *out = jv_bool(!is_same);
    return 0;
}

const struct jnative jmethod_loop_rows[] = {
    {"cycle", "*", loop_cycle, 0},
    {"changed", "*", loop_changed, 0},
    {NULL, NULL, NULL, 0},
};

/* The turns; *ran: whether one came to its end. */
static enum jflow run_turns(struct jrun *r, struct jloop *l, bool *ran)
{
    const struct jnode *n = l->node;
    struct jscope *scope = NULL;
    struct jvalue v;
    for (;;) {
        int got = 1;
        if (l->after.type != JT_MISSING) {
            v = l->after;
            l->after.type = JT_MISSING;
        } else {
            got = pull(r, l, &v);
        }
        if (got <= 0)
            return got ? JFLOW_ERROR : JFLOW_NEXT;
        l->index0++;
        l->before = l->now;
        l->now = v;
        r->scope = l->scope;
        if (scope && !scope->is_kept) {
            scope->n = 0;
            r->scope = scope;
        } else if (!(scope = jscope_push(r))) {
            return JFLOW_ERROR;
        }
        struct jvalue self = {.type = JT_LOOP, .loop = l};
        if (jassign(r, n->loop.target, v) ||
            (n->loop.uses_loop && jscope_set(r, r->tree->sym_loop, self)))
            return JFLOW_ERROR;
        enum jflow flow = jexec(r, n->loop.body);
        if (flow == JFLOW_ERROR || flow == JFLOW_BREAK)
            return flow;
        *ran |= flow == JFLOW_NEXT;
    }
}

static enum jflow run_loop(struct jrun *r, const struct jnode *n, struct jscope *scope,
                           struct jvalue items, int depth0)
{
    struct jloop *l = jrun_alloc(r, 1, sizeof *l);
    if (!l)
        return JFLOW_ERROR;
    const struct jvalue missing = {.type = JT_MISSING};
    *l = (struct jloop){.node = n,
                        .scope = scope,
                        .items = items,
                        .now = missing,
                        .before = missing,
                        .after = missing,
                        .changed = missing,
                        .index0 = -1,
                        .length = -1,
                        .depth0 = depth0};
    struct jscope *outer = r->scope;
    bool ran = false;
    if (jiter_begin(r, items, &l->it))
        return JFLOW_ERROR;
    enum jflow flow = run_turns(r, l, &ran);
    if (flow != JFLOW_ERROR && !ran && n->loop.other) {
        r->scope = scope;
        flow = jscope_push(r) ? jexec(r, n->loop.other) : JFLOW_ERROR;
    } else if (flow == JFLOW_BREAK) {
        flow = JFLOW_NEXT;
    }
    r->scope = outer;
    return flow;
}

enum jflow jexec_for(struct jrun *r, const struct jnode *n)
{
    struct jvalue items;
    if (jeval(r, n->loop.iter, &items))
        return JFLOW_ERROR;
    return run_loop(r, n, r->scope, items, 0);
}

int jloop_recurse(struct jrun *r, struct jloop *from, struct jvalue items, struct jvalue *out)
{
    if (!from->node->flag)
        return jrun_fail(r, "the loop must have the 'recursive' marker to be called recursively");
    if (r->calls == JRUN_MAX_CALLS)
        return jrun_limit(r, "calls are nested more than %d deep", JRUN_MAX_CALLS);
    struct jsink sink, *outer = r->out;
    jsink_init(&sink, r);
    r->out = &sink;
    r->calls++;
    enum jflow flow = run_loop(r, from->node, from->scope, items, from->depth0 + 1);
    r->calls--;
    r->out = outer;
    return flow == JFLOW_ERROR ? -1 : jsink_take(&sink, out);
}
