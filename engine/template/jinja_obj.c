/* SPDX-License-Identifier: Apache-2.0
 *
 * Making objects, and the questions that every type answers: its name, whether it is true, its
 * length, whether it can be called or walked.
 */
#include "engine/template/jinja_obj.h"

#include <string.h>

#include "engine/template/jinja_native.h"
#include "engine/template/jinja_text.h"

const char *jobj_type(const struct jvalue *v)
{
    static const char *const names[] = {
        [JT_UNDEFINED] = "Undefined", [JT_NONE] = "NoneType",
        [JT_BOOL] = "bool",           [JT_INT] = "int",
        [JT_FLOAT] = "float",         [JT_STR] = "str",
        [JT_LIST] = "list",           [JT_DICT] = "dict",
        [JT_TUPLE] = "tuple",         [JT_RANGE] = "range",
        [JT_VIEW] = "dict_items",     [JT_ITER] = "generator",
        [JT_NAMESPACE] = "Namespace", [JT_LOOP] = "LoopContext",
        [JT_MACRO] = "Macro",         [JT_METHOD] = "builtin_function_or_method",
        [JT_NATIVE] = "function",     [JT_CYCLER] = "Cycler",
        [JT_JOINER] = "Joiner",       [JT_MISSING] = "Undefined"};
    return names[v->type];
}

bool jobj_has_len(const struct jvalue *v)
{
    switch (v->type) {
    case JT_UNDEFINED:
    case JT_STR:
    case JT_LIST:
    case JT_TUPLE:
    case JT_DICT:
    case JT_RANGE:
    case JT_VIEW:
    case JT_LOOP:
        return true;
    default:
        return false;
    }
}

int jobj_len(struct jrun *r, const struct jvalue *v, size_t *n)
{
    struct jvalue length;
    switch (v->type) {
    case JT_UNDEFINED:
        *n = 0;
        return 0;
    case JT_STR:
        *n = v->s->n_cp;
        return 0;
    case JT_LIST:
    case JT_TUPLE:
        *n = v->l->n;
        return 0;
    case JT_DICT:
        *n = v->d->n;
        return 0;
    case JT_RANGE:
        *n = v->range->n;
        return 0;
    case JT_VIEW:
        *n = v->view->d->n;
        return 0;
    case JT_LOOP: {
        struct jstr s = {.p = "length", .len = 6, .n_cp = 6};
        struct jvalue name = {.type = JT_STR, .s = &s};
        if (jloop_attr(r, v->loop, &name, &length) < 0)
            return -1;
        *n = (size_t)length.i;
        return 0;
    }
    default:
        return jrun_fail(r, "object of type '%s' has no len()", jobj_type(v));
    }
}

bool jobj_is_true(const struct jvalue *v)
{
    switch (v->type) {
    case JT_UNDEFINED:
    case JT_NONE:
    case JT_MISSING:
        return false;
    case JT_BOOL:
        return v->b;
    case JT_INT:
        return v->i != 0;
    case JT_FLOAT:
        return v->f != 0;
    case JT_STR:
        return v->s->len != 0;
    case JT_LIST:
    case JT_TUPLE:
        return v->l->n != 0;
    case JT_DICT:
        return v->d->n != 0;
    case JT_RANGE:
        return v->range->n != 0;
    case JT_VIEW:
        return v->view->d->n != 0;
    default:
        return true;
    }
}

bool jobj_is_callable(const struct jvalue *v)
{
    switch (v->type) {
    case JT_UNDEFINED: /* calling it fails, but it has the hook */
    case JT_LOOP:
    case JT_MACRO:
    case JT_METHOD:
    case JT_NATIVE:
    case JT_JOINER:
        return true;
    default:
        return false;
    }
}

bool jobj_is_iterable(const struct jvalue *v)
{
    return jobj_has_len(v) || v->type == JT_ITER || v->type == JT_UNDEFINED;
}

int jobj_list(struct jrun *r, enum jtype type, const struct jvalue *at, size_t n,
              struct jvalue *out)
{
    struct jlist *l = jrun_alloc(r, 1, sizeof *l);
    if (!l || jrun_pay(r, 1 + n / 4))
        return -1;
    if (n) {
        l->at = jrun_alloc(r, n, sizeof *l->at);
        if (!l->at)
            return -1;
        if (at)
            memcpy(l->at, at, n * sizeof *at);
    }
    l->n = at ? n : 0;
    l->cap = n;
    *out = (struct jvalue){.type = (uint8_t)type, .l = l};
    return 0;
}

int jobj_add(struct jrun *r, struct jvalue *list, struct jvalue v)
{
    struct jlist *l = list->l;
    if (jrun_pay(r, 1))
        return -1;
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        struct jvalue *at = jrun_alloc(r, cap, sizeof *at);
        if (!at)
            return -1;
        if (l->n)
            memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = v;
    return 0;
}

int jobj_pair(struct jrun *r, struct jvalue a, struct jvalue b, struct jvalue *out)
{
    const struct jvalue at[2] = {a, b};
    return jobj_list(r, JT_TUPLE, at, 2, out);
}

int jobj_dict_put(struct jrun *r, struct jdict *d, struct jvalue key, struct jvalue v)
{
    if (!jvalue_is_hashable(&key))
        return jrun_fail(r, "unhashable type: '%s'", jobj_type(&key));
    struct err e = ERR_INIT;
    if (jrun_pay(r, 2) || (key.type == JT_STR && jrun_pay_bytes(r, key.s->len)))
        return -1;
    if (jdict_put(r->a, d, key, v, &e) == 0)
        return 0;
    return jrun_limit(r, "rendering takes more than %zu bytes of memory", r->a->cap_bytes);
}

int jobj_dict_keywords(struct jrun *r, struct jdict *d, const struct jcall *c)
{
    for (size_t k = 0; k < c->n_kw; k++) {
        struct jvalue key;
        if (jtext_new(r, c->kw[k].name, c->kw[k].len, JORIGIN_TEMPLATE, &key) ||
            jobj_dict_put(r, d, key, c->kw[k].value))
            return -1;
    }
    return 0;
}

int jobj_method(struct jrun *r, const struct jnative *native, struct jvalue self,
                struct jvalue *out)
{
    struct jmethod *m = jrun_alloc(r, 1, sizeof *m);
    if (!m)
        return -1;
    *m = (struct jmethod){.native = native, .self = self};
    *out = (struct jvalue){.type = JT_METHOD, .method = m};
    return 0;
}

int jobj_gen(struct jrun *r, int (*fill)(struct jrun *, struct jgen *), struct jvalue from,
             const struct jcall *c, struct jgen **out)
{
    struct jgen *g = jrun_alloc(r, 1, sizeof *g);
    struct jcall *call = g ? jrun_alloc(r, 1, sizeof *call) : NULL;
    if (!call)
        return -1;
    *call = *c;
    *g = (struct jgen){.fill = fill, .from = from, .call = call};
    *out = g;
    return jobj_list(r, JT_LIST, NULL, 0, &g->items);
}

struct jvalue jobj_gen_value(struct jgen *g)
{
    return (struct jvalue){.type = JT_ITER, .gen = g};
}

static int make_undefined(struct jrun *r, struct jundef u, struct jvalue *out)
{
    struct jundef *p = jrun_alloc(r, 1, sizeof *p);
    if (!p)
        return -1;
    *p = u;
    *out = (struct jvalue){.type = JT_UNDEFINED, .undef = p};
    return 0;
}

int jobj_undefined_name(struct jrun *r, const struct jsym *name, struct jvalue *out)
{
    struct jundef u = {.obj = {.type = JT_MISSING}};
    struct err e = ERR_INIT;
    if (jv_str_view(r->a, name->name, name->len, &u.name, &e))
        return jrun_limit(r, "rendering takes more than %zu bytes of memory", r->a->cap_bytes);
    return make_undefined(r, u, out);
}

int jobj_undefined_attr(struct jrun *r, struct jvalue obj, struct jvalue name, struct jvalue *out)
{
    return make_undefined(r, (struct jundef){.obj = obj, .name = name}, out);
}

int jobj_undefined_hint(struct jrun *r, const char *hint, struct jvalue *out)
{
    return make_undefined(r, (struct jundef){.hint = hint}, out);
}
