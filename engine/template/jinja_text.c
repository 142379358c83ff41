/* SPDX-License-Identifier: Apache-2.0
 *
 * Sinks, views and searches. Spans are kept sorted by their end, each piece of text having exactly
 * one; neighbours of one origin are joined as they are written. A text of a single origin has no
 * spans: the origin of its value says it all.
 */
#include "engine/template/jinja_text.h"

#include <string.h>

#include "engine/template/jinja_uni.h"

void jsink_init(struct jsink *s, struct jrun *r)
{
    *s = (struct jsink){.r = r};
}

int jsink_fail(struct jsink *s)
{
    s->failed = true;
    return -1;
}

static int sink_reserve(struct jsink *s, size_t more)
{
    struct jrun *r = s->r;
    if (s->failed)
        return -1;
    if (more > r->text_max - s->len) {
        jrun_limit(r, "a text is longer than %zu bytes", r->text_max);
        return jsink_fail(s);
    }
    if (jrun_pay_bytes(r, more))
        return jsink_fail(s);
    if (more <= s->cap - s->len)
        return 0;
    size_t cap = s->cap * 2 > s->len + more ? s->cap * 2 : s->len + more;
    cap = cap < 64 ? 64 : cap;
    char *data = jrun_alloc(r, cap, 1);
    if (!data)
        return jsink_fail(s);
    if (s->len)
        memcpy(data, s->data, s->len);
    s->data = data;
    s->cap = cap;
    return 0;
}

/* The text now ends at s->len and its last bytes are of `origin`. */
static void sink_span(struct jsink *s, uint32_t origin)
{
    if (s->n_span && s->span[s->n_span - 1].origin == origin) {
        s->span[s->n_span - 1].end = s->len;
        return;
    }
    if (s->n_span == s->cap_span) {
        size_t cap = s->cap_span ? s->cap_span * 2 : 4;
        struct jspan *span = jrun_alloc(s->r, cap, sizeof *span);
        if (!span) {
            s->failed = true;
            return;
        }
        if (s->n_span)
            memcpy(span, s->span, s->n_span * sizeof *span);
        s->span = span;
        s->cap_span = cap;
    }
    s->span[s->n_span++] = (struct jspan){.end = s->len, .origin = origin};
}

void jsink_add(struct jsink *s, const char *p, size_t n, uint32_t origin)
{
    if (n == 0 || sink_reserve(s, n))
        return;
    memcpy(s->data + s->len, p, n);
    s->len += n;
    sink_span(s, origin | s->mark);
}

void jsink_char(struct jsink *s, uint32_t c, uint32_t origin)
{
    char b[4];
    jsink_add(s, b, juni_put(c, b), origin);
}

void jsink_text(struct jsink *s, const char *text, uint32_t origin)
{
    jsink_add(s, text, strlen(text), origin);
}

void jsink_fill(struct jsink *s, char c, size_t n, uint32_t origin)
{
    if (n == 0 || sink_reserve(s, n))
        return;
    memset(s->data + s->len, c, n);
    s->len += n;
    sink_span(s, origin | s->mark);
}

/* The span that byte `at` of the string lies in. */
static size_t span_of(const struct jstr *s, size_t at)
{
    size_t lo = 0, hi = s->n_span - 1;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (s->span[mid].end > s->base + at)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

void jsink_part(struct jsink *s, const struct jvalue *str, size_t from, size_t to)
{
    const struct jstr *t = str->s;
    if (from >= to)
        return;
    if (!t->span) {
        jsink_add(s, t->p + from, to - from, str->origin);
        return;
    }
    for (size_t i = span_of(t, from); from < to; i++) {
        size_t end = t->span[i].end - t->base < to ? t->span[i].end - t->base : to;
        jsink_add(s, t->p + from, end - from, t->span[i].origin);
        from = end;
    }
}

void jsink_value(struct jsink *s, const struct jvalue *str)
{
    jsink_part(s, str, 0, str->s->len);
}

static int sink_string(struct jsink *s, bool can_grow, struct jvalue *out)
{
    if (s->failed)
        return -1;
    struct jstr *str = jrun_alloc(s->r, 1, sizeof *str);
    if (!str)
        return -1;
    if (s->counted < s->len) /* what has grown: a long text is not counted anew for each line */
        s->n_cp += jutf8_count(s->data + s->counted, s->len - s->counted);
    s->counted = s->len;
    *str = (struct jstr){.p = s->data ? s->data : "",
                         .len = s->len,
                         .n_cp = s->n_cp,
                         .span = s->n_span > 1 ? s->span : NULL,
                         .n_span = s->n_span > 1 ? s->n_span : 0,
                         .sink = can_grow ? s : NULL};
    *out = (struct jvalue){
        .type = JT_STR, .origin = s->n_span ? s->span[0].origin : JORIGIN_TEMPLATE, .s = str};
    return 0;
}

int jsink_take(struct jsink *s, struct jvalue *out)
{
    return sink_string(s, false, out);
}

void jwalk_begin(struct jwalk *w, const struct jvalue *str)
{
    *w = (struct jwalk){.str = str, .origin = str->origin};
    if (str->s->span && str->s->len)
        w->i_span = span_of(str->s, 0);
}

bool jwalk_next(struct jwalk *w)
{
    const struct jstr *s = w->str->s;
    if (w->pos >= s->len)
        return false;
    w->at = w->pos;
    w->c = juni_get(s->p + w->pos, s->p + s->len, &w->n);
    w->pos += w->n;
    if (s->span) {
        while (s->span[w->i_span].end <= s->base + w->at)
            w->i_span++;
        w->origin = s->span[w->i_span].origin;
    }
    return true;
}

int jtext_new(struct jrun *r, const char *p, size_t n, uint32_t origin, struct jvalue *out)
{
    struct jsink s;
    jsink_init(&s, r);
    jsink_add(&s, p, n, origin);
    if (jsink_take(&s, out))
        return -1;
    out->origin = origin;
    return 0;
}

int jtext_view(struct jrun *r, const struct jvalue *str, size_t from, size_t to, struct jvalue *out)
{
    const struct jstr *t = str->s;
    if (from == 0 && to == t->len) {
        *out = *str;
        return 0;
    }
    struct jstr *s = jrun_alloc(r, 1, sizeof *s);
    if (!s || jrun_pay_bytes(r, t->n_cp == t->len ? 0 : to - from))
        return -1;
    *s = (struct jstr){.p = t->p + from,
                       .len = to - from,
                       .n_cp = t->n_cp == t->len ? to - from : jutf8_count(t->p + from, to - from)};
    *out = *str;
    out->s = s;
    if (t->span && from < to) {
        size_t first = span_of(t, from), last = span_of(t, to - 1);
        out->origin = t->span[first].origin;
        if (first != last) {
            s->span = t->span + first;
            s->n_span = last - first + 1;
            s->base = t->base + from;
        }
    }
    return 0;
}

int jtext_concat(struct jrun *r, const struct jvalue *a, const struct jvalue *b, struct jvalue *out)
{
    if (b->s->len == 0 && a->s->len) {
        *out = *a;
        out->is_marked = false;
        return 0;
    }
    if (a->s->len == 0) {
        *out = *b;
        out->is_marked = false;
        return 0;
    }
    struct jsink *s = a->s->sink;
    if (!s || s->data + s->len != a->s->p + a->s->len || s->data != a->s->p) {
        s = jrun_alloc(r, 1, sizeof *s);
        if (!s)
            return -1;
        jsink_init(s, r);
        jsink_value(s, a);
    }
    jsink_value(s, b);
    if (s->failed)
        return -1;
    struct jvalue joined;
    if (sink_string(s, true, &joined))
        return -1;
    *out = joined;
    return 0;
}

size_t jtext_offset(const struct jvalue *str, size_t cp)
{
    const struct jstr *s = str->s;
    if (cp >= s->n_cp)
        return s->len;
    if (s->n_cp == s->len)
        return cp;
    size_t i = 0;
    for (;; i++)
        if (((unsigned char)s->p[i] & 0xC0) != 0x80 && cp-- == 0)
            return i;
}

size_t jtext_index(const struct jvalue *str, size_t byte)
{
    return str->s->n_cp == str->s->len ? byte : jutf8_count(str->s->p, byte);
}

uint32_t jtext_origin_at(const struct jvalue *str, size_t byte)
{
    const struct jstr *s = str->s;
    return s->span && byte < s->len ? s->span[span_of(s, byte)].origin : str->origin;
}

bool jtext_is(const struct jvalue *str, const char *text)
{
    return str->type == JT_STR && str->s->len == strlen(text) &&
           memcmp(str->s->p, text, str->s->len) == 0;
}

size_t jtext_find(const struct jvalue *a, const struct jvalue *b, size_t from)
{
    if (from > a->s->len)
        return SIZE_MAX;
    if (b->s->len == 0)
        return from;
    const char *p = memmem(a->s->p + from, a->s->len - from, b->s->p, b->s->len);
    return p ? (size_t)(p - a->s->p) : SIZE_MAX;
}

int jtext_rfind(struct jrun *r, const struct jvalue *a, const struct jvalue *b, size_t before,
                size_t *hit)
{
    size_t n = b->s->len, work;
    *hit = SIZE_MAX;
    if (before > a->s->len)
        before = a->s->len;
    if (n > before)
        return 0;
    if (__builtin_mul_overflow(before - n + 1, n + 1, &work))
        work = SIZE_MAX / 2;
    if (jrun_pay_bytes(r, work))
        return -1;
    for (size_t i = before - n + 1; i-- > 0;)
        if (memcmp(a->s->p + i, b->s->p, n) == 0) {
            *hit = i;
            break;
        }
    return 0;
}

int jtext_escape(struct jrun *r, const struct jvalue *a, struct jvalue *out)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    *out = *a;
    if (a->is_marked)
        return 0;
    struct jsink s;
    struct jwalk w;
    jsink_init(&s, r);
    for (jwalk_begin(&w, a); jwalk_next(&w);) {
        const char *at = w.c && w.c < 0x80 ? strchr(from, (int)w.c) : NULL;
        if (at)
            jsink_text(&s, to[at - from], w.origin);
        else
            jsink_add(&s, a->s->p + w.at, w.n, w.origin);
    }
    if (jsink_take(&s, out))
        return -1;
    out->is_marked = true;
    return 0;
}
