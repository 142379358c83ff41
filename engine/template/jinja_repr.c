/* SPDX-License-Identifier: Apache-2.0
 *
 * str() and repr() of every value. The characters of a string keep their origins through quoting;
 * brackets, commas and numbers take the origin of the value they belong to.
 */
#include <stdio.h>

#include "engine/template/jinja_ops.h"
#include "engine/template/jinja_uni.h"

static void add_repr(struct jsink *s, const struct jvalue *v, int depth);

static void repr_char(struct jsink *s, const struct jwalk *w, char quote)
{
    char text[16];
    uint32_t c = w->c;
    if (c == (uint32_t)quote || c == '\\')
        snprintf(text, sizeof text, "\\%c", (char)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (juni_is_printable(c)) {
        jsink_add(s, w->str->s->p + w->at, w->n, w->origin);
        return;
    } else
        snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    jsink_text(s, text, w->origin);
}

static void repr_string(struct jsink *s, const struct jvalue *v)
{
    struct jwalk w;
    bool has_single = false, has_double = false;
    for (jwalk_begin(&w, v); jwalk_next(&w);) {
        has_single |= w.c == '\'';
        has_double |= w.c == '"';
    }
    char quote = has_single && !has_double ? '"' : '\'';
    if (v->is_marked)
        jsink_text(s, "Markup(", v->origin);
    jsink_add(s, &quote, 1, jtext_origin_at(v, 0));
    for (jwalk_begin(&w, v); jwalk_next(&w) && !s->failed;)
        repr_char(s, &w, quote);
    jsink_add(s, &quote, 1, v->s->len ? jtext_origin_at(v, v->s->len - 1) : v->origin);
    if (v->is_marked)
        jsink_text(s, ")", v->origin);
}

static void repr_list(struct jsink *s, const struct jvalue *v, int depth)
{
    bool is_tuple = v->type == JT_TUPLE;
    jsink_text(s, is_tuple ? "(" : "[", v->origin);
    for (size_t i = 0; i < v->l->n && !s->failed; i++) {
        if (i)
            jsink_text(s, ", ", v->origin);
        add_repr(s, &v->l->at[i], depth);
    }
    jsink_text(s, !is_tuple ? "]" : v->l->n == 1 ? ",)" : ")", v->origin);
}

static void repr_dict(struct jsink *s, const struct jdict *d, uint32_t origin, int depth)
{
    jsink_text(s, "{", origin);
    for (size_t i = 0; i < d->n && !s->failed; i++) {
        if (i)
            jsink_text(s, ", ", origin);
        add_repr(s, &d->key[i], depth);
        jsink_text(s, ": ", origin);
        add_repr(s, &d->val[i], depth);
    }
    jsink_text(s, "}", origin);
}

static void repr_view(struct jsink *s, const struct jvalue *v, int depth)
{
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    const struct jview *view = v->view;
    jsink_text(s, names[view->kind], v->origin);
    for (size_t i = 0; i < view->d->n && !s->failed; i++) {
        if (i)
            jsink_text(s, ", ", v->origin);
        if (view->kind == JVIEW_ITEMS)
            jsink_text(s, "(", v->origin);
        if (view->kind != JVIEW_VALUES)
            add_repr(s, &view->d->key[i], depth);
        if (view->kind == JVIEW_ITEMS)
            jsink_text(s, ", ", v->origin);
        if (view->kind != JVIEW_KEYS)
            add_repr(s, &view->d->val[i], depth);
        if (view->kind == JVIEW_ITEMS)
            jsink_text(s, ")", v->origin);
    }
    jsink_text(s, "])", v->origin);
}

static void repr_range(struct jsink *s, const struct jvalue *v)
{
    char text[100];
    const struct jrange *g = v->range;
    int64_t stop = (int64_t)((uint64_t)g->start + (uint64_t)g->n * (uint64_t)g->step);
    int n = snprintf(text, sizeof text, "range(%lld, %lld", (long long)g->start, (long long)stop);
    if (g->step != 1)
        n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)g->step);
    jsink_add(s, text, (size_t)n, v->origin);
    jsink_text(s, ")", v->origin);
}

static void repr_object(struct jsink *s, const struct jvalue *v, int depth)
{
    char text[200];
    switch (v->type) {
    case JT_NAMESPACE:
        jsink_text(s, "<Namespace ", v->origin);
        repr_dict(s, &v->space->d, v->origin, depth);
        jsink_text(s, ">", v->origin);
        return;
    case JT_MACRO:
        snprintf(text, sizeof text, "<Macro '%.150s'>", v->closure->m->name->name);
        break;
    case JT_NATIVE:
        snprintf(text, sizeof text, "<function %s>", v->native->name);
        break;
    case JT_METHOD:
        snprintf(text, sizeof text, "<built-in method %s of %s object>", v->method->native->name,
                 jobj_type(&v->method->self));
        break;
    case JT_LOOP: {
        size_t n;
        if (jobj_len(s->r, v, &n)) {
            jsink_fail(s);
            return;
        }
        snprintf(text, sizeof text, "<LoopContext %lld/%zu>", (long long)v->loop->index0 + 1, n);
        break;
    }
    default:
        snprintf(text, sizeof text, "<%s object>", jobj_type(v));
    }
    jsink_text(s, text, v->origin);
}

static void add_scalar(struct jsink *s, const struct jvalue *v)
{
    char text[JNUM_TEXT];
    switch (v->type) {
    case JT_NONE:
        jsink_text(s, "None", v->origin);
        break;
    case JT_BOOL:
        jsink_text(s, v->b ? "True" : "False", v->origin);
        break;
    case JT_INT:
        jsink_add(s, text, jnum_int(v->i, text), v->origin);
        break;
    default:
        jsink_add(s, text, jnum_float(v->f, text), v->origin);
    }
}

static void add_repr(struct jsink *s, const struct jvalue *v, int depth)
{
    if (s->failed || jrun_pay(s->r, 1)) {
        jsink_fail(s);
        return;
    }
    if (depth > JRUN_MAX_NESTING) {
        jrun_limit(s->r, "values are nested more than %d deep", JRUN_MAX_NESTING);
        jsink_fail(s);
        return;
    }
    switch (v->type) {
    case JT_NONE:
    case JT_BOOL:
    case JT_INT:
    case JT_FLOAT:
        add_scalar(s, v);
        break;
    case JT_STR:
        repr_string(s, v);
        break;
    case JT_LIST:
    case JT_TUPLE:
        repr_list(s, v, depth + 1);
        break;
    case JT_DICT:
        repr_dict(s, v->d, v->origin, depth + 1);
        break;
    case JT_VIEW:
        repr_view(s, v, depth + 1);
        break;
    case JT_RANGE:
        repr_range(s, v);
        break;
    case JT_UNDEFINED:
        jsink_text(s, "Undefined", v->origin);
        break;
    default:
        repr_object(s, v, depth + 1);
    }
}

void jrepr_add_repr(struct jsink *s, const struct jvalue *v)
{
    add_repr(s, v, 0);
}

void jrepr_add_str(struct jsink *s, const struct jvalue *v)
{
    if (v->type == JT_STR)
        jsink_value(s, v);
    else if (v->type != JT_UNDEFINED)
        add_repr(s, v, 0);
}

int jrepr_str(struct jrun *r, struct jvalue v, struct jvalue *out)
{
    struct jsink s;
    if (v.type == JT_STR) {
        *out = v;
        return 0;
    }
    jsink_init(&s, r);
    jrepr_add_str(&s, &v);
    return jsink_take(&s, out);
}
