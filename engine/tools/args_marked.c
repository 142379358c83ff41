/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters between marks: key NAME value TEXT stop, as often as there are such, then the call's
 * end. Spaces around marks are the model's to write; within a value each byte counts, but for a
 * newline behind `value` and before `stop` where the format has them.
 *
 * An object or an array is followed as JSON, so that a mark in one of its strings ends nothing.
 */
#include <string.h>

#include "engine/grammar/schema_types.h"
#include "engine/tools/args_reader.h"

enum state { NEXT, NAME, MARK, TEXT, VALUE };

static bool is_end(const struct buf *held, const char *text, size_t n)
{
    return held->len >= n && !memcmp(held->data + held->len - n, text, n);
}

/* Its length without the spaces at its end. */
static size_t bare(const char *text)
{
    size_t n = strlen(text);
    while (n && json_scan_is_space(text[n - 1]))
        n--;
    return n;
}

/* ---- between parameters -------------------------------------------------------------------- */

static bool is_or_begins(const struct buf *held, const char *text, size_t n)
{
    return held->len <= n && !memcmp(held->data, text, held->len);
}

static enum json_scan_is next(struct args_reader *r, char c, struct buf *out)
{
    const struct tool_format *f = r->format;
    size_t n_key = strlen(f->key), n_end = bare(f->end);
    if (!r->held.len && json_scan_is_space(c))
        return JSON_SCAN_MORE;
    buf_char(&r->held, c);
    bool is_key = is_or_begins(&r->held, f->key, n_key);
    bool is_last = is_or_begins(&r->held, f->end, n_end);
    if (is_last && r->held.len == n_end) {
        buf_str(out, r->has_some ? "}" : "{}");
        return JSON_SCAN_DONE;
    }
    if (is_key && r->held.len == n_key) {
        buf_clear(&r->held);
        buf_clear(&r->name);
        r->state = NAME;
    }
    return is_key || is_last ? JSON_SCAN_MORE : JSON_SCAN_BAD;
}

/* ---- a name, and what stands behind it ----------------------------------------------------- */

static void begin_value(struct args_reader *r, bool is_json, struct buf *out)
{
    const struct tool_format *f = r->format;
    const char *mark = is_json ? f->value_json : f->value;
    r->types = f->value_json ? (is_json ? TYPE_ALL & ~TYPE_STRING : TYPE_STRING)
                             : schema_types_of_member(r->schema, r->name.data, r->name.len);
    r->drops_line = mark[strlen(mark) - 1] == '\n';
    r->is_nested = r->is_begun = false;
    r->state = r->types == TYPE_STRING ? TEXT : VALUE;
    args_json_name(r, out);
    if (r->state == TEXT)
        buf_char(out, '"');
}

/* A byte of one of the marks; spaces may be more or fewer than it has. */
static void match(const char *mark, char c, size_t *n)
{
    if (!mark || *n == SIZE_MAX)
        return;
    while (mark[*n] != c && json_scan_is_space(mark[*n]) && !json_scan_is_space(c))
        ++*n;
    if (mark[*n] == c)
        ++*n;
    else if (!json_scan_is_space(c))
        *n = SIZE_MAX;
}

static enum json_scan_is mark(struct args_reader *r, char c, struct buf *out)
{
    const char *const text[2] = {r->format->value, r->format->value_json};
    bool goes_on = false;
    for (int i = 0; i < 2; i++) {
        match(text[i], c, &r->n_match[i]);
        if (!text[i] || r->n_match[i] == SIZE_MAX)
            continue;
        goes_on = true;
        if (r->n_match[i] >= bare(text[i])) {
            begin_value(r, i == 1, out);
            return JSON_SCAN_MORE;
        }
    }
    return goes_on ? JSON_SCAN_MORE : JSON_SCAN_BAD;
}

static enum json_scan_is name(struct args_reader *r, char c, struct buf *out)
{
    if (c != *r->format->value) {
        buf_char(&r->name, c);
        return r->name.failed || (unsigned char)c < 0x20 ? JSON_SCAN_BAD : JSON_SCAN_MORE;
    }
    r->state = MARK;
    r->n_match[0] = 0;
    r->n_match[1] = r->format->value_json ? 0 : SIZE_MAX;
    return r->name.len ? mark(r, c, out) : JSON_SCAN_BAD;
}

/* ---- values -------------------------------------------------------------------------------- */

/* The newline that the format has before `stop` is not the value's. */
static void cut_stop(struct args_reader *r)
{
    const struct tool_format *f = r->format;
    r->held.len -= strlen(f->stop);
    if (*f->value_end == '\n' && r->held.len && r->held.data[r->held.len - 1] == '\n')
        r->held.len--;
}

/* Of what is held, the bytes at its end that may belong to `stop`, or to the newline before it. */
static size_t may_stop(const struct args_reader *r)
{
    const char *stop = r->format->stop;
    size_t n = strlen(stop) - 1, has_line = *r->format->value_end == '\n';
    for (n = n < r->held.len ? n : r->held.len; n; n--)
        if (is_end(&r->held, stop, n))
            break;
    return n + (has_line && r->held.len > n && r->held.data[r->held.len - n - 1] == '\n');
}

static enum json_scan_is text(struct args_reader *r, char c, struct buf *out)
{
    buf_char(&r->held, c);
    bool is_over = is_end(&r->held, r->format->stop, strlen(r->format->stop));
    if (is_over)
        cut_stop(r);
    size_t n = is_over ? r->held.len : r->held.len - may_stop(r);
    for (size_t i = 0; i < n; i++)
        args_json_char(out, r->held.data[i]);
    r->held.len -= n;
    memmove(r->held.data, r->held.data + n, r->held.len + 1);
    if (is_over) {
        buf_char(out, '"');
        r->state = NEXT;
    }
    return JSON_SCAN_MORE;
}

/* A word of JSON, or of Python, as JSON has it; NULL: it is neither, or of no type that may be. */
static const char *word_of(const struct args_reader *r, const char *p, size_t n)
{
    static const struct {
        const char *text, *json;
        uint32_t type;
    } word[] = {{"null", "null", TYPE_NULL},   {"None", "null", TYPE_NULL},
                {"true", "true", TYPE_BOOL},   {"True", "true", TYPE_BOOL},
                {"false", "false", TYPE_BOOL}, {"False", "false", TYPE_BOOL}};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if ((r->types & word[i].type) && strlen(word[i].text) == n && !memcmp(word[i].text, p, n))
            return word[i].json;
    return NULL;
}

static uint32_t type_of(char first)
{
    return first == '{'                                     ? TYPE_OBJECT
           : first == '['                                   ? TYPE_ARRAY
           : first == '-' || (first >= '0' && first <= '9') ? TYPE_NUMBER
                                                            : 0;
}

static void tell_value(struct args_reader *r, struct buf *out)
{
    const char *p = r->held.len ? r->held.data : "";
    size_t n = r->held.len;
    while (n && json_scan_is_space(*p))
        p++, n--;
    while (n && json_scan_is_space(p[n - 1]))
        n--;
    const char *word = word_of(r, p, n);
    if (word) {
        buf_str(out, word);
    } else if (n && (type_of(*p) & r->types) && args_is_json(p, n)) {
        buf_add(out, p, n);
    } else {
        buf_char(out, '"');
        for (size_t i = 0; i < r->held.len; i++)
            args_json_char(out, r->held.data[i]);
        buf_char(out, '"');
    }
}

static enum json_scan_is value(struct args_reader *r, char c, struct buf *out)
{
    size_t n_stop = strlen(r->format->stop);
    buf_char(&r->held, c);
    if (!r->is_begun && !json_scan_is_space(c)) {
        r->is_begun = true;
        r->is_nested = type_of(c) & r->types & (TYPE_OBJECT | TYPE_ARRAY);
        json_scan_init(&r->scan);
    }
    if (r->is_nested) {
        r->is_nested = json_scan_byte(&r->scan, c) == JSON_SCAN_MORE;
        return JSON_SCAN_MORE;
    }
    if (!is_end(&r->held, r->format->stop, n_stop))
        return JSON_SCAN_MORE;
    cut_stop(r);
    tell_value(r, out);
    buf_clear(&r->held);
    r->state = NEXT;
    return JSON_SCAN_MORE;
}

enum json_scan_is args_marked_byte(struct args_reader *r, char c, struct buf *out)
{
    switch (r->state) {
    case NEXT:
        return next(r, c, out);
    case NAME:
        return name(r, c, out);
    case MARK:
        return mark(r, c, out);
    default:
        break;
    }
    if (r->drops_line) {
        r->drops_line = false;
        if (c == '\n')
            return JSON_SCAN_MORE;
    }
    return r->state == TEXT ? text(r, c, out) : value(r, c, out);
}
