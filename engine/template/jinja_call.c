/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: evaluating arguments, binding them to the parameters of C functions and of macros, and
 * running a macro's body with its output caught.
 */
#include <string.h>

#include "engine/template/jinja_ops.h"

static bool same_name(const struct jkwarg *kw, const char *name, size_t len)
{
    return kw->len == len && memcmp(kw->name, name, len) == 0;
}

static int add_keywords(struct jrun *r, const struct jvalue *dict, struct jkwarg *kw, size_t *n)
{
    for (size_t i = 0; i < dict->d->n; i++) {
        const struct jvalue *key = &dict->d->key[i];
        if (key->type != JT_STR)
            return jrun_fail(r, "keywords must be strings");
        for (size_t k = 0; k < *n; k++)
            if (same_name(&kw[k], key->s->p, key->s->len))
                return jrun_fail(r, "got multiple values for keyword argument '%.*s'",
                                 (int)(key->s->len < 80 ? key->s->len : 80), key->s->p);
        kw[(*n)++] =
            (struct jkwarg){.name = key->s->p, .len = key->s->len, .value = dict->d->val[i]};
        if (jrun_pay(r, *n))
            return -1;
    }
    return 0;
}

int jcall_args(struct jrun *r, const struct jargs *args, const struct jvalue *caller,
               struct jcall *c)
{
    struct jvalue star2 = jv_none(), star = jv_none();
    struct jlist *more = NULL;
    size_t n = args->pos.n, n_kw = args->n_kw + (caller != NULL);
    struct jvalue *pos = n ? jrun_alloc(r, n, sizeof *pos) : NULL;
    if (n && !pos)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (jeval(r, args->pos.at[i], &pos[i]))
            return -1;
    if (args->star) {
        if (jeval(r, args->star, &star) || jobj_collect(r, star, &more))
            return -1;
        struct jvalue *joined = jrun_alloc(r, n + more->n + 1, sizeof *joined);
        if (!joined || jrun_pay(r, more->n))
            return -1;
        if (n)
            memcpy(joined, pos, n * sizeof *pos);
        if (more->n)
            memcpy(joined + n, more->at, more->n * sizeof *pos);
        pos = joined;
        n += more->n;
    }
    struct jkwarg *kw = NULL;
    if (args->star2) {
        if (jeval(r, args->star2, &star2))
            return -1;
        if (star2.type != JT_DICT)
            return jrun_fail(r, "argument after ** must be a mapping, not %s", jobj_type(&star2));
        n_kw += star2.d->n;
    }
    if (n_kw && !(kw = jrun_alloc(r, n_kw, sizeof *kw)))
        return -1;
    n_kw = 0;
    for (size_t i = 0; i < args->n_kw; i++) {
        kw[n_kw] = (struct jkwarg){.name = args->kw[i].name->name, .len = args->kw[i].name->len};
        if (jeval(r, args->kw[i].value, &kw[n_kw++].value))
            return -1;
    }
    if (caller)
        kw[n_kw++] = (struct jkwarg){.name = "caller", .len = 6, .value = *caller};
    if (args->star2 && add_keywords(r, &star2, kw, &n_kw))
        return -1;
    *c = (struct jcall){.pos = pos, .n_pos = n, .kw = kw, .n_kw = n_kw};
    return 0;
}

/* The next word of a parameter list; false at its end. */
static bool next_param(const char **spec, const char **name, size_t *len, bool *is_optional)
{
    *spec += strspn(*spec, " ");
    *name = *spec;
    size_t n = strcspn(*spec, " ");
    *spec += n;
    *is_optional = n && (*name)[n - 1] == '?';
    *len = n - *is_optional;
    return n != 0 && **name != '/';
}

/* Puts the arguments where the row's parameter list says. */
static int bind(struct jrun *r, const struct jnative *f, struct jcall *c)
{
    const char *spec = f->params, *name;
    size_t len, i = 0, n_used = 0;
    bool is_optional;
    if (c->n_kw && strchr(f->params, '/'))
        return jrun_fail(r, "%s() takes no keyword arguments", f->name);
    for (; next_param(&spec, &name, &len, &is_optional); i++) {
        const struct jkwarg *kw = NULL;
        for (size_t k = 0; k < c->n_kw; k++)
            if (same_name(&c->kw[k], name, len))
                kw = &c->kw[k];
        if (kw && i < c->n_pos)
            return jrun_fail(r, "%s() got multiple values for argument '%.*s'", f->name, (int)len,
                             name);
        n_used += kw != NULL;
        c->arg[i].type = JT_MISSING;
        if (i < c->n_pos)
            c->arg[i] = c->pos[i];
        else if (kw)
            c->arg[i] = kw->value;
        else if (!is_optional)
            return jrun_fail(r, "%s() misses its argument '%.*s'", f->name, (int)len, name);
    }
    if (c->n_pos > i)
        return jrun_fail(r, "%s() takes at most %zu arguments (%zu given)", f->name, i, c->n_pos);
    if (c->n_kw > n_used)
        return jrun_fail(r, "%s() got an unexpected keyword argument", f->name);
    return 0;
}

int jcall_native(struct jrun *r, const struct jnative *f, struct jvalue self, struct jcall *c,
                 struct jvalue *out)
{
    if (jrun_pay(r, 1))
        return -1;
    if (f->params[0] != '*' && bind(r, f, c))
        return -1;
    c->tag = f->tag;
    return f->fn(r, self, c, out);
}

int jclosure_make(struct jrun *r, const struct jmacro *m, struct jvalue *out)
{
    struct jclosure *c = jrun_alloc(r, 1, sizeof *c);
    if (!c)
        return -1;
    *c = (struct jclosure){.m = m, .scope = r->scope};
    jscope_keep(r->scope);
    *out = (struct jvalue){.type = JT_MACRO, .closure = c};
    return 0;
}

/* The keyword of that name, taken out of the count of those still unused. */
static const struct jkwarg *take_keyword(const struct jcall *c, const struct jsym *name, bool *used,
                                         size_t *n_used)
{
    for (size_t k = 0; k < c->n_kw; k++)
        if (!used[k] && same_name(&c->kw[k], name->name, name->len)) {
            used[k] = true;
            (*n_used)++;
            return &c->kw[k];
        }
    return NULL;
}

static int set_param(struct jrun *r, const struct jparam *p, const struct jvalue *given)
{
    struct jvalue v;
    if (given)
        return jscope_set(r, p->name, *given);
    if (p->value) {
        if (jeval(r, p->value, &v))
            return -1;
    } else {
        const char *hint = jrun_printf(r, "parameter '%.80s' was not provided", p->name->name);
        if (!hint || jobj_undefined_hint(r, hint, &v))
            return -1;
    }
    return jscope_set(r, p->name, v);
}

/* kwargs: the keywords that no parameter took. */
static int set_kwargs(struct jrun *r, const struct jcall *c, const bool *used)
{
    struct jdict *d = jrun_alloc(r, 1, sizeof *d);
    if (!d)
        return -1;
    for (size_t k = 0; k < c->n_kw; k++) {
        struct jvalue key;
        if (used[k])
            continue;
        if (jtext_new(r, c->kw[k].name, c->kw[k].len, JORIGIN_TEMPLATE, &key) ||
            jobj_dict_put(r, d, key, c->kw[k].value))
            return -1;
    }
    return jscope_set(r, r->tree->sym_kwargs, (struct jvalue){.type = JT_DICT, .d = d});
}

static int set_varargs(struct jrun *r, const struct jcall *c, size_t from)
{
    struct jvalue rest;
    size_t n = c->n_pos > from ? c->n_pos - from : 0;
    if (jobj_list(r, JT_TUPLE, n ? c->pos + from : NULL, n, &rest))
        return -1;
    return jscope_set(r, r->tree->sym_varargs, rest);
}

static int bind_macro(struct jrun *r, const struct jmacro *m, const struct jcall *c)
{
    size_t n_used = 0;
    bool *used = jrun_alloc(r, c->n_kw + 1, sizeof *used);
    if (!used || jrun_pay(r, m->n_param * (c->n_kw + 1)))
        return -1;
    for (size_t i = 0; i < m->n_param; i++) {
        const struct jkwarg *kw = NULL;
        const struct jvalue *given = i < c->n_pos ? &c->pos[i] : NULL;
        if (!given && (kw = take_keyword(c, m->param[i].name, used, &n_used)))
            given = &kw->value;
        if (set_param(r, &m->param[i], given))
            return -1;
    }
    if (m->uses_caller) {
        const struct jkwarg *kw = take_keyword(c, r->tree->sym_caller, used, &n_used);
        struct jvalue none;
        if (jobj_undefined_hint(r, "No caller defined", &none) ||
            jscope_set(r, r->tree->sym_caller, kw ? kw->value : none))
            return -1;
    }
    if (m->uses_kwargs ? set_kwargs(r, c, used) : n_used < c->n_kw)
        return m->uses_kwargs ? -1
                              : jrun_fail(r,
                                          "macro '%s' got a keyword argument that it does not "
                                          "take",
                                          m->name->name);
    if (m->uses_varargs)
        return set_varargs(r, c, m->n_param);
    if (c->n_pos > m->n_param)
        return jrun_fail(r, "macro '%s' takes not more than %zu argument(s)", m->name->name,
                         m->n_param);
    return 0;
}

static int call_macro(struct jrun *r, const struct jclosure *f, const struct jcall *c,
                      struct jvalue *out)
{
    struct jscope *outer = r->scope;
    if (r->calls == JRUN_MAX_CALLS)
        return jrun_limit(r, "calls are nested more than %d deep", JRUN_MAX_CALLS);
    r->calls++;
    r->scope = f->scope;
    int bad =
        !jscope_push(r) || bind_macro(r, f->m, c) || jexec_catch(r, f->m->body, out) == JFLOW_ERROR;
    r->scope = outer;
    r->calls--;
    return bad ? -1 : 0;
}

int jcall_value(struct jrun *r, struct jvalue fn, struct jcall *c, struct jvalue *out)
{
    switch (fn.type) {
    case JT_UNDEFINED:
        return jrun_undefined(r, &fn);
    case JT_MACRO:
        return call_macro(r, fn.closure, c, out);
    case JT_NATIVE:
        return jcall_native(r, fn.native, fn, c, out);
    case JT_METHOD:
        return jcall_native(r, fn.method->native, fn.method->self, c, out);
    case JT_LOOP:
        if (c->n_pos != 1 || c->n_kw)
            return jrun_fail(r, "loop() takes one argument");
        return jloop_recurse(r, fn.loop, c->pos[0], out);
    case JT_JOINER:
        *out = fn.joiner->sep;
        if (fn.joiner->is_used)
            return 0;
        fn.joiner->is_used = true;
        return jtext_new(r, "", 0, JORIGIN_TEMPLATE, out);
    default:
        return jrun_fail(r, "'%s' object is not callable", jobj_type(&fn));
    }
}

int jarg_str(struct jrun *r, const struct jvalue *v, const char *what)
{
    if (v->type == JT_STR)
        return 0;
    if (v->type == JT_UNDEFINED)
        return jrun_undefined(r, v);
    return jrun_fail(r, "%s argument must be str, not %s", what, jobj_type(v));
}

int jarg_int(struct jrun *r, const struct jvalue *v, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (v->type == JT_MISSING || jop_integer(v, out))
        return 0;
    if (v->type == JT_UNDEFINED)
        return jrun_undefined(r, v);
    return jrun_fail(r, "'%s' object cannot be interpreted as an integer", jobj_type(v));
}

bool jarg_bool(const struct jvalue *v, bool fallback)
{
    return v->type == JT_MISSING ? fallback : jobj_is_true(v);
}
