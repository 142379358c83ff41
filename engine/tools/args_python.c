/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments as Python's calls have them, from behind ( to ): names with literals. Lists and tuples
 * become arrays, dicts objects, None, True and False what JSON has for them; of a text's escapes
 * those that JSON does not know become ones that it does.
 */
#include <string.h>

#include "engine/tools/args_reader.h"

enum state { NEXT, NAME, EQUALS, VALUE, KEY, COLON, BEHIND, WORD, TEXT, ESCAPE, HEX };

static enum json_scan_is go(struct args_reader *r, enum state to)
{
    r->state = (uint8_t)to;
    return JSON_SCAN_MORE;
}

/* ---- lists and dicts ----------------------------------------------------------------------- */

static bool in_dict(const struct args_reader *r)
{
    return r->kind[0] >> (r->depth - 1) & 1;
}

static enum json_scan_is opens(struct args_reader *r, char c, struct buf *out)
{
    if (r->depth == JSON_SCAN_DEPTH_MAX)
        return JSON_SCAN_BAD;
    uint64_t bit = (uint64_t)1 << r->depth++;
    r->kind[0] = c == '{' ? r->kind[0] | bit : r->kind[0] & ~bit;
    r->kind[1] = c == '(' ? r->kind[1] | bit : r->kind[1] & ~bit;
    r->needs_comma = false;
    buf_char(out, c == '{' ? '{' : '[');
    return go(r, c == '{' ? KEY : VALUE);
}

static bool is_close(const struct args_reader *r, char c)
{
    if (!r->depth)
        return c == ')';
    return c == (in_dict(r) ? '}' : r->kind[1] >> (r->depth - 1) & 1 ? ')' : ']');
}

static enum json_scan_is closes(struct args_reader *r, struct buf *out)
{
    if (!r->depth) {
        buf_str(out, r->has_some ? "}" : "{}");
        return JSON_SCAN_DONE;
    }
    buf_char(out, in_dict(r) ? '}' : ']');
    r->depth--;
    r->needs_comma = r->depth > 0;
    return go(r, BEHIND);
}

/* ---- texts --------------------------------------------------------------------------------- */

static enum json_scan_is begins_text(struct args_reader *r, char c, struct buf *out)
{
    r->quote = c;
    buf_char(out, '"');
    return go(r, TEXT);
}

static enum json_scan_is escaped(struct args_reader *r, char c, struct buf *out)
{
    static const char name[] = "abfnrtv0/'\"", json[] = "\a\b\f\n\r\t\v\0/'\"";
    const char *at = c ? memchr(name, c, sizeof name - 1) : NULL;
    r->n_hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    r->code = 0;
    if (r->n_hex)
        return go(r, HEX);
    if (at) {
        args_json_char(out, json[at - name]);
    } else if (c != '\n') {
        args_json_char(out, '\\');
        if (c != '\\')
            args_json_char(out, c);
    }
    return go(r, TEXT);
}

static enum json_scan_is hex(struct args_reader *r, char c, struct buf *out)
{
    static const char digit[] = "0123456789abcdef";
    const char *at = c ? strchr(digit, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
    if (!at)
        return JSON_SCAN_BAD;
    r->code = r->code << 4 | (uint32_t)(at - digit);
    if (--r->n_hex)
        return JSON_SCAN_MORE;
    if (r->code > 0x10ffff)
        return JSON_SCAN_BAD;
    if (r->code > 0xffff)
        buf_printf(out, "\\u%04x\\u%04x", 0xd7c0 + (r->code >> 10), 0xdc00 + (r->code & 0x3ff));
    else
        buf_printf(out, "\\u%04x", r->code);
    return go(r, TEXT);
}

static enum json_scan_is text(struct args_reader *r, char c, struct buf *out)
{
    if (c == '\\')
        return go(r, ESCAPE);
    if (c != r->quote) {
        args_json_char(out, c);
        return JSON_SCAN_MORE;
    }
    buf_char(out, '"');
    return go(r, r->is_key ? COLON : BEHIND);
}

/* ---- values -------------------------------------------------------------------------------- */

static enum json_scan_is value(struct args_reader *r, char c, struct buf *out)
{
    bool is_key = r->state == KEY;
    if (r->depth && is_close(r, c) && (is_key || !in_dict(r)))
        return closes(r, out);
    if (r->needs_comma)
        buf_str(out, ", ");
    r->needs_comma = false;
    r->is_key = is_key;
    if (c == '"' || c == '\'')
        return begins_text(r, c, out);
    if (is_key)
        return JSON_SCAN_BAD;
    if (c == '[' || c == '(' || c == '{')
        return opens(r, c, out);
    buf_clear(&r->held);
    buf_char(&r->held, c);
    return args_in_word(c) ? go(r, WORD) : JSON_SCAN_BAD;
}

static enum json_scan_is behind(struct args_reader *r, char c, struct buf *out)
{
    if (is_close(r, c))
        return closes(r, out);
    if (c != ',')
        return JSON_SCAN_BAD;
    r->needs_comma = r->depth > 0;
    return go(r, !r->depth ? NEXT : in_dict(r) ? KEY : VALUE);
}

static enum json_scan_is next(struct args_reader *r, char c, struct buf *out)
{
    if (c == ')')
        return closes(r, out);
    buf_clear(&r->name);
    buf_char(&r->name, c);
    return args_in_word(c) && (c < '0' || c > '9') ? go(r, NAME) : JSON_SCAN_BAD;
}

static enum json_scan_is name(struct args_reader *r, char c, struct buf *out)
{
    if (r->state == NAME && args_in_word(c)) {
        buf_char(&r->name, c);
        return r->name.failed ? JSON_SCAN_BAD : JSON_SCAN_MORE;
    }
    if (json_scan_is_space(c))
        return go(r, EQUALS);
    if (c != '=')
        return JSON_SCAN_BAD;
    args_json_name(r, out);
    return go(r, VALUE);
}

/* Between two parts of what is written. */
static enum json_scan_is part(struct args_reader *r, char c, struct buf *out)
{
    if (json_scan_is_space(c))
        return JSON_SCAN_MORE;
    switch (r->state) {
    case NEXT:
        return next(r, c, out);
    case COLON:
        buf_str(out, ": ");
        return c == ':' ? go(r, VALUE) : JSON_SCAN_BAD;
    case BEHIND:
        return behind(r, c, out);
    default:
        return value(r, c, out);
    }
}

enum json_scan_is args_python_byte(struct args_reader *r, char c, struct buf *out)
{
    enum json_scan_is word;
    switch (r->state) {
    case NAME:
    case EQUALS:
        return name(r, c, out);
    case TEXT:
        return text(r, c, out);
    case ESCAPE:
        return escaped(r, c, out);
    case HEX:
        return hex(r, c, out);
    case WORD:
        word = args_word_byte(r, c, out);
        if (word != JSON_SCAN_DONE)
            return word;
        r->state = BEHIND;
        return part(r, c, out);
    default:
        return part(r, c, out);
    }
}
