/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors, memory and scopes of a render.
 */
#include "engine/template/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/template/jinja_obj.h"

int jrun_fail(struct jrun *r, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(r->e, ERR_BAD_INPUT, "chat template, line %d: %s", r->line, text);
}

int jrun_limit(struct jrun *r, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(r->e, ERR_TOO_LARGE, "chat template, line %d: %s", r->line, text);
}

int jrun_out_of_ops(struct jrun *r)
{
    return jrun_limit(r, "rendering takes more than %llu operations",
                      (unsigned long long)r->ops_max);
}

int jrun_undefined(struct jrun *r, const struct jvalue *v)
{
    const struct jundef *u = v->undef;
    if (!u)
        return jrun_fail(r, "an undefined value was used");
    if (u->hint)
        return jrun_fail(r, "%s", u->hint);
    bool is_str = u->name.type == JT_STR;
    int n = is_str ? (int)(u->name.s->len < 80 ? u->name.s->len : 80) : 0;
    const char *p = is_str ? u->name.s->p : "";
    if (u->obj.type == JT_MISSING)
        return jrun_fail(r, "'%.*s' is undefined", n, p);
    const char *type = jobj_type(&u->obj), *object = u->obj.type == JT_NONE ? "" : " object";
    if (u->obj.type == JT_NONE)
        type = "None";
    if (is_str)
        return jrun_fail(r, "'%s%s' has no attribute '%.*s'", type, object, n, p);
    if (u->name.type == JT_INT)
        return jrun_fail(r, "%s%s has no element %lld", type, object, (long long)u->name.i);
    return jrun_fail(r, "%s%s has no such element", type, object);
}

void *jrun_alloc(struct jrun *r, size_t n, size_t size)
{
    struct err e = ERR_INIT;
    void *p = arena_try(r->a, n, size, &e);
    if (!p && e.code == ERR_NO_MEMORY)
        *r->e = e;
    else if (!p)
        jrun_limit(r, "rendering takes more than %zu bytes of memory", r->a->cap_bytes);
    return p;
}

char *jrun_printf(struct jrun *r, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t n = strlen(text);
    char *p = jrun_alloc(r, n + 1, 1);
    if (p)
        memcpy(p, text, n + 1);
    return p;
}

struct jscope *jscope_push(struct jrun *r)
{
    struct jscope *s = jrun_alloc(r, 1, sizeof *s);
    if (s) {
        s->parent = r->scope;
        r->scope = s;
    }
    return s;
}

void jscope_keep(struct jscope *s)
{
    for (; s && !s->is_kept; s = s->parent)
        s->is_kept = true;
}

int jscope_set(struct jrun *r, const struct jsym *sym, struct jvalue v)
{
    struct jscope *s = r->scope;
    if (!s) {
        r->root[sym->id] = v;
        return 0;
    }
    r->ops += s->n / 16; /* the search */
    for (size_t i = 0; i < s->n; i++)
        if (s->var[i].sym == sym->id) {
            s->var[i].value = v;
            return 0;
        }
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 4;
        struct jvar *var = jrun_alloc(r, cap, sizeof *var);
        if (!var)
            return -1;
        if (s->n)
            memcpy(var, s->var, s->n * sizeof *var);
        s->var = var;
        s->cap = cap;
    }
    s->var[s->n++] = (struct jvar){.sym = sym->id, .value = v};
    return 0;
}

struct jvalue jscope_get(struct jrun *r, const struct jsym *sym)
{
    for (const struct jscope *s = r->scope; s; s = s->parent) {
        r->ops += s->n / 16;
        for (size_t i = 0; i < s->n; i++)
            if (s->var[i].sym == sym->id)
                return s->var[i].value;
    }
    return r->root[sym->id];
}
