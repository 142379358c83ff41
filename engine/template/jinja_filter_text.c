/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters that make text of text. What is not a string becomes one first, as str() does.
 */
#include <string.h>

#include "engine/template/jinja_ops.h"
#include "engine/template/jinja_strops.h"
#include "engine/template/jinja_uni.h"

static int plain_text(struct jrun *r, struct jvalue v, struct jvalue *out)
{
    if (jrepr_str(r, v, out))
        return -1;
    out->is_marked = false;
    return 0;
}

static int text_string(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    (void)c;
    return jrepr_str(r, v, out);
}

static int text_safe(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    (void)c;
    if (jrepr_str(r, v, out))
        return -1;
    out->is_marked = true;
    return 0;
}

enum { ESCAPE_ONCE, ESCAPE_AGAIN };

static int text_escape(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue text;
    if (jrepr_str(r, v, &text))
        return -1;
    text.is_marked &= c->tag == ESCAPE_ONCE;
    return jtext_escape(r, &text, out);
}

static int text_case(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue text;
    return jrepr_str(r, v, &text) ? -1 : jcase(r, &text, (enum jcase_rule)c->tag, out);
}

/* title: each run of blanks, dashes and opening brackets begins a word. */
static int text_title(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue text;
    struct jsink s;
    struct jwalk w;
    char b[JUNI_MAX_BYTES];
    bool is_begin = true;
    (void)c;
    if (jrepr_str(r, v, &text))
        return -1;
    jsink_init(&s, r);
    for (jwalk_begin(&w, &text); jwalk_next(&w) && !s.failed;) {
        bool is_gap = juni_is_space(w.c) || (w.c && w.c < 0x80 && strchr("-({[<", (int)w.c));
        enum juni_case to = is_begin && !is_gap ? JUNI_UPPER : JUNI_LOWER;
        jsink_add(&s, b, juni_map(w.c, to, b), w.origin);
        is_begin = is_gap;
    }
    return jsink_take(&s, out);
}

static int text_trim(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue text;
    return jrepr_str(r, v, &text) ? -1 : jstrip(r, text, c->arg[0], JSTRIP_BOTH, out);
}

static int text_replace(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue text, from, to;
    int64_t max = -1;
    if (plain_text(r, v, &text) || plain_text(r, c->arg[0], &from) || plain_text(r, c->arg[1], &to))
        return -1;
    if (c->arg[2].type != JT_NONE && jarg_int(r, &c->arg[2], -1, &max))
        return -1;
    return jreplace(r, &text, &from, &to, max, out);
}

static int text_join(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue sep, items = v;
    struct jlist *l;
    if (c->arg[0].type == JT_MISSING ? jtext_new(r, "", 0, JORIGIN_TEMPLATE, &sep)
                                     : plain_text(r, c->arg[0], &sep))
        return -1;
    if (c->arg[1].type != JT_MISSING && c->arg[1].type != JT_NONE) {
        if (jobj_collect(r, v, &l) || jobj_list(r, JT_LIST, NULL, 0, &items))
            return -1;
        for (size_t i = 0; i < l->n; i++) {
            struct jvalue item;
            if (jget_path(r, l->at[i], c->arg[1], NULL, &item) || jobj_add(r, &items, item))
                return -1;
        }
    }
    return jjoin(r, &sep, items, true, out);
}

static int text_format(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue text, args;
    if (jrepr_str(r, v, &text))
        return -1;
    if (c->n_pos && c->n_kw)
        return jrun_fail(r, "can't handle positional and keyword arguments at the same time");
    if (c->n_kw == 0)
        return jobj_list(r, JT_TUPLE, c->pos, c->n_pos, &args) ||
                       jformat_percent(r, text, args, out)
                   ? -1
                   : 0;
    struct jdict *d = jrun_alloc(r, 1, sizeof *d);
    if (!d || jobj_dict_keywords(r, d, c))
        return -1;
    return jformat_percent(r, text, (struct jvalue){.type = JT_DICT, .d = d}, out);
}

static int blanks(struct jrun *r, int64_t n, struct jvalue *out)
{
    struct jsink s;
    jsink_init(&s, r);
    jsink_fill(&s, ' ', n > 0 ? (size_t)n : 0, JORIGIN_TEMPLATE);
    return jsink_take(&s, out);
}

static bool is_line_end(uint32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

static int text_indent(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue width = c->arg[0];
    int64_t n;
    struct jsink s;
    struct jwalk w;
    bool first = jarg_bool(&c->arg[1], false), blank = jarg_bool(&c->arg[2], false);
    if (jarg_str(r, &v, "indent()"))
        return -1;
    if (width.type != JT_STR && (jarg_int(r, &width, 4, &n) || blanks(r, n, &width)))
        return -1;
    jsink_init(&s, r);
    if (first)
        jsink_value(&s, &width);
    bool is_begin = false; /* of a line after the first, nothing of it written yet */
    for (jwalk_begin(&w, &v); jwalk_next(&w) && !s.failed;) {
        if (is_line_end(w.c)) {
            if (is_begin && blank)
                jsink_value(&s, &width);
            if (w.c == '\r' && w.pos < v.s->len && v.s->p[w.pos] == '\n')
                jwalk_next(&w);
            jsink_text(&s, "\n", w.origin);
            is_begin = true;
            continue;
        }
        if (is_begin)
            jsink_value(&s, &width);
        is_begin = false;
        jsink_add(&s, v.s->p + w.at, w.n, w.origin);
    }
    if (is_begin && blank)
        jsink_value(&s, &width);
    if (jsink_take(&s, out))
        return -1;
    out->is_marked = v.is_marked;
    return 0;
}

static int text_truncate(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    int64_t length, leeway;
    struct jvalue end = c->arg[2], head, left;
    size_t n;
    if (jobj_len(r, &v, &n) || jarg_int(r, &c->arg[0], 255, &length))
        return -1;
    if (end.type == JT_MISSING ? jtext_new(r, "...", 3, JORIGIN_TEMPLATE, &end)
                               : jarg_str(r, &end, "truncate()"))
        return -1;
    leeway = 5;
    if (c->arg[3].type != JT_NONE && jarg_int(r, &c->arg[3], 5, &leeway))
        return -1;
    if (length < (int64_t)end.s->n_cp || leeway < 0)
        return jrun_fail(r, "truncate() got a length shorter than its end, or a negative leeway");
    *out = v;
    if ((int64_t)n <= length || (int64_t)n - length <= leeway)
        return 0;
    if (jarg_str(r, &v, "truncate()"))
        return -1;
    size_t keep = (size_t)length - end.s->n_cp;
    if (jtext_view(r, &v, 0, jtext_offset(&v, keep), &head))
        return -1;
    if (!jarg_bool(&c->arg[1], false)) {
        size_t to = head.s->len;
        while (to > 0 && head.s->p[to - 1] != ' ')
            to--;
        if (to > 0 && jtext_view(r, &head, 0, to - 1, &head))
            return -1;
    }
    left = head;
    return jtext_concat(r, &left, &end, out);
}

static int text_wordcount(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue text;
    struct jwalk w;
    bool in_word = false;
    (void)c;
    if (jrepr_str(r, v, &text) || jrun_pay_bytes(r, text.s->len))
        return -1;
    *out = jv_int(0);
    for (jwalk_begin(&w, &text); jwalk_next(&w);) {
        bool is_word = juni_is_word(w.c);
        out->i += is_word && !in_word;
        in_word = is_word;
    }
    return 0;
}

static int text_center(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jvalue text;
    int64_t width;
    struct jsink s;
    if (jrepr_str(r, v, &text) || jarg_int(r, &c->arg[0], 80, &width))
        return -1;
    size_t n = text.s->n_cp, missing = width > (int64_t)n ? (size_t)width - n : 0;
    size_t left = missing / 2 + (missing & (size_t)width & 1);
    jsink_init(&s, r);
    jsink_fill(&s, ' ', left, JORIGIN_TEMPLATE);
    jsink_value(&s, &text);
    jsink_fill(&s, ' ', missing - left, JORIGIN_TEMPLATE);
    return jsink_take(&s, out);
}

static int quote(struct jsink *s, struct jvalue v, bool in_query)
{
    static const char keep[] = "_.-~", hex[] = "0123456789ABCDEF";
    struct jvalue text;
    if (jrepr_str(s->r, v, &text))
        return jsink_fail(s);
    for (size_t i = 0; i < text.s->len && !s->failed; i++) {
        unsigned char b = (unsigned char)text.s->p[i];
        uint32_t origin = jtext_origin_at(&text, i);
        bool is_plain = b < 0x80 && (juni_is_alpha(b) || juni_is_digit(b) ||
                                     (b && strchr(keep, b)) || (b == '/' && !in_query));
        const char coded[3] = {'%', hex[b >> 4], hex[b & 15]};
        if (is_plain)
            jsink_add(s, &text.s->p[i], 1, origin);
        else if (b == ' ' && in_query)
            jsink_text(s, "+", origin);
        else
            jsink_add(s, coded, 3, origin);
    }
    return s->failed ? -1 : 0;
}

static int text_urlencode(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jsink s;
    struct jlist *pairs, *pair;
    (void)c;
    jsink_init(&s, r);
    if (v.type == JT_STR || !jobj_is_iterable(&v))
        return quote(&s, v, false) || jsink_take(&s, out) ? -1 : 0;
    if (v.type == JT_DICT) {
        struct jview *view = jrun_alloc(r, 1, sizeof *view);
        if (!view)
            return -1;
        *view = (struct jview){.kind = JVIEW_ITEMS, .d = v.d};
        v = (struct jvalue){.type = JT_VIEW, .view = view};
    }
    if (jobj_collect(r, v, &pairs))
        return -1;
    for (size_t i = 0; i < pairs->n; i++) {
        if (jobj_collect(r, pairs->at[i], &pair))
            return -1;
        if (pair->n != 2)
            return jrun_fail(r, "urlencode needs pairs");
        if (i)
            jsink_text(&s, "&", JORIGIN_TEMPLATE);
        if (quote(&s, pair->at[0], true))
            return -1;
        jsink_text(&s, "=", JORIGIN_TEMPLATE);
        if (quote(&s, pair->at[1], true))
            return -1;
    }
    return jsink_take(&s, out);
}

/* indent, separators: None or not given leave the default. */
static int json_options(struct jrun *r, const struct jcall *c, struct jjson *o)
{
    const struct jvalue *indent = &c->arg[1], *seps = &c->arg[2];
    int64_t n;
    o->ensure_ascii = jarg_bool(&c->arg[0], false);
    o->sort_keys = jarg_bool(&c->arg[3], false);
    o->is_pretty = indent->type != JT_MISSING && indent->type != JT_NONE;
    o->indent = *indent;
    if (indent->type != JT_STR) {
        if (o->is_pretty && jarg_int(r, indent, 0, &n))
            return -1;
        if (blanks(r, o->is_pretty ? n : 0, &o->indent))
            return -1;
    }
    if (seps->type != JT_MISSING && seps->type != JT_NONE) {
        if ((seps->type != JT_TUPLE && seps->type != JT_LIST) || seps->l->n != 2 ||
            seps->l->at[0].type != JT_STR || seps->l->at[1].type != JT_STR)
            return jrun_fail(r, "tojson: separators must be a pair of strings");
        o->item_sep = seps->l->at[0];
        o->key_sep = seps->l->at[1];
        return 0;
    }
    const char *item_sep = o->is_pretty ? "," : ", ";
    return jtext_new(r, item_sep, strlen(item_sep), JORIGIN_TEMPLATE, &o->item_sep) ||
                   jtext_new(r, ": ", 2, JORIGIN_TEMPLATE, &o->key_sep)
               ? -1
               : 0;
}

static int text_tojson(struct jrun *r, struct jvalue v, struct jcall *c, struct jvalue *out)
{
    struct jjson o;
    struct jsink s;
    jsink_init(&s, r);
    return json_options(r, c, &o) || jjson_write(&s, &o, &v) || jsink_take(&s, out) ? -1 : 0;
}

const struct jnative jfilter_text_rows[] = {
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", text_tojson, 0},
    {"trim", "chars?", text_trim, 0},
    {"string", "", text_string, 0},
    {"join", "d? attribute?", text_join, 0},
    {"replace", "old new count?", text_replace, 0},
    {"upper", "", text_case, JCASE_UPPER},
    {"lower", "", text_case, JCASE_LOWER},
    {"capitalize", "", text_case, JCASE_CAPITAL},
    {"title", "", text_title, 0},
    {"safe", "", text_safe, 0},
    {"escape", "", text_escape, ESCAPE_ONCE},
    {"e", "", text_escape, ESCAPE_ONCE},
    {"forceescape", "", text_escape, ESCAPE_AGAIN},
    {"format", "*", text_format, 0},
    {"indent", "width? first? blank?", text_indent, 0},
    {"truncate", "length? killwords? end? leeway?", text_truncate, 0},
    {"wordcount", "", text_wordcount, 0},
    {"center", "width?", text_center, 0},
    {"urlencode", "", text_urlencode, 0},
    {NULL, NULL, NULL, 0},
};
