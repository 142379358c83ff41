/* SPDX-License-Identifier: Apache-2.0
 *
 * tojson, as chat templates know it: json.dumps with ensure_ascii off by default, not the one that
 * escapes for HTML. Keys that are numbers, booleans or None become strings as there.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/template/jinja_ops.h"

static int write(struct jsink *s, const struct jjson *o, const struct jvalue *v, int depth);

static void write_char(struct jsink *s, const struct jjson *o, const struct jwalk *w)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    char text[16];
    uint32_t c = w->c;
    const char *at = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (at)
        snprintf(text, sizeof text, "\\%c", to[at - from]);
    else if (c < 0x20 || (o->ensure_ascii && c >= 0x7F && c < 0x10000))
        snprintf(text, sizeof text, "\\u%04x", c);
    else if (o->ensure_ascii && c >= 0x10000)
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                 0xDC00 + ((c - 0x10000) & 0x3FF));
    else {
        jsink_add(s, w->str->s->p + w->at, w->n, w->origin);
        return;
    }
    jsink_text(s, text, w->origin);
}

static void write_string(struct jsink *s, const struct jjson *o, const struct jvalue *v)
{
    struct jwalk w;
    jsink_text(s, "\"", jtext_origin_at(v, 0));
    for (jwalk_begin(&w, v); jwalk_next(&w) && !s->failed;)
        write_char(s, o, &w);
    jsink_text(s, "\"", v->s->len ? jtext_origin_at(v, v->s->len - 1) : v->origin);
}

static void write_number(struct jsink *s, const struct jvalue *v)
{
    char text[JNUM_TEXT];
    size_t n = v->type == JT_INT ? jnum_int(v->i, text) : jnum_float(v->f, text);
    if (v->type == JT_FLOAT && !isfinite(v->f))
        n = (size_t)snprintf(text, sizeof text, "%s",
                             isnan(v->f) ? "NaN"
                             : v->f > 0  ? "Infinity"
                                         : "-Infinity");
    jsink_add(s, text, n, v->origin);
}

/* What parts the items belongs to the value written, unless someone outside chose it. */
static void write_mark(struct jsink *s, const struct jvalue *mark, uint32_t origin)
{
    if (jorigin_is_trusted(mark->origin) && !mark->s->span)
        jsink_add(s, mark->s->p, mark->s->len, origin);
    else
        jsink_value(s, mark);
}

static void write_break(struct jsink *s, const struct jjson *o, uint32_t origin, int depth)
{
    if (!o->is_pretty)
        return;
    jsink_text(s, "\n", origin);
    for (int i = 0; i < depth; i++)
        write_mark(s, &o->indent, origin);
}

static int write_list(struct jsink *s, const struct jjson *o, const struct jvalue *v, int depth)
{
    if (v->l->n == 0) {
        jsink_text(s, "[]", v->origin);
        return 0;
    }
    jsink_text(s, "[", v->origin);
    for (size_t i = 0; i < v->l->n && !s->failed; i++) {
        if (i)
            write_mark(s, &o->item_sep, v->origin);
        write_break(s, o, v->origin, depth);
        if (write(s, o, &v->l->at[i], depth))
            return -1;
    }
    write_break(s, o, v->origin, depth - 1);
    jsink_text(s, "]", v->origin);
    return 0;
}

static int write_key(struct jsink *s, const struct jjson *o, const struct jvalue *key)
{
    switch (key->type) {
    case JT_STR:
        write_string(s, o, key);
        return 0;
    case JT_NONE:
    case JT_BOOL:
    case JT_INT:
    case JT_FLOAT:
        jsink_text(s, "\"", key->origin);
        if (write(s, o, key, 0))
            return -1;
        jsink_text(s, "\"", key->origin);
        return 0;
    default:
        jrun_fail(s->r, "keys must be str, int, float, bool or None, not %s", jobj_type(key));
        return jsink_fail(s);
    }
}

static int sorted_copy(struct jrun *r, struct jdict *d)
{
    struct jvalue keys, vals;
    if (jobj_list(r, JT_LIST, d->key, d->n, &keys) || jobj_list(r, JT_LIST, d->val, d->n, &vals))
        return -1;
    struct jvalue *sort_by = jrun_alloc(r, d->n + 1, sizeof *sort_by);
    if (!sort_by)
        return -1;
    if (d->n)
        memcpy(sort_by, d->key, d->n * sizeof *sort_by);
    if (jsort(r, vals.l->at, sort_by, d->n, false))
        return -1;
    d->key = sort_by;
    d->val = vals.l->at;
    return 0;
}

static int write_dict(struct jsink *s, const struct jjson *o, const struct jvalue *v, int depth)
{
    struct jdict d = *v->d;
    if (o->sort_keys && sorted_copy(s->r, &d))
        return jsink_fail(s);
    if (d.n == 0) {
        jsink_text(s, "{}", v->origin);
        return 0;
    }
    jsink_text(s, "{", v->origin);
    for (size_t i = 0; i < d.n && !s->failed; i++) {
        if (i)
            write_mark(s, &o->item_sep, v->origin);
        write_break(s, o, v->origin, depth);
        if (write_key(s, o, &d.key[i]))
            return -1;
        write_mark(s, &o->key_sep, v->origin);
        if (write(s, o, &d.val[i], depth))
            return -1;
    }
    write_break(s, o, v->origin, depth - 1);
    jsink_text(s, "}", v->origin);
    return 0;
}

static int write(struct jsink *s, const struct jjson *o, const struct jvalue *v, int depth)
{
    if (jrun_pay(s->r, 1))
        return jsink_fail(s);
    if (depth > JRUN_MAX_NESTING) {
        jrun_limit(s->r, "values are nested more than %d deep", JRUN_MAX_NESTING);
        return jsink_fail(s);
    }
    switch (v->type) {
    case JT_NONE:
        jsink_text(s, "null", v->origin);
        break;
    case JT_BOOL:
        jsink_text(s, v->b ? "true" : "false", v->origin);
        break;
    case JT_INT:
    case JT_FLOAT:
        write_number(s, v);
        break;
    case JT_STR:
        write_string(s, o, v);
        break;
    case JT_LIST:
    case JT_TUPLE:
        return write_list(s, o, v, depth + 1);
    case JT_DICT:
        return write_dict(s, o, v, depth + 1);
    default:
        jrun_fail(s->r, "Object of type %s is not JSON serializable", jobj_type(v));
        return jsink_fail(s);
    }
    return s->failed ? -1 : 0;
}

int jjson_write(struct jsink *s, const struct jjson *o, const struct jvalue *v)
{
    return write(s, o, v, 0);
}
