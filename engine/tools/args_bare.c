/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments as Gemma's calls have them, from behind { to }: NAME:VALUE with a comma between two,
 * names without quotes, in objects too, and texts as they are between two of the form's quotes.
 */
#include <string.h>

#include "engine/tools/args_reader.h"

enum state { NEXT, NAME, VALUE, QUOTE, TEXT, WORD, BEHIND };

static enum json_scan_is go(struct args_reader *r, enum state to)
{
    r->state = (uint8_t)to;
    return JSON_SCAN_MORE;
}

/* ---- objects and arrays -------------------------------------------------------------------- */

static bool in_object(const struct args_reader *r)
{
    return !r->depth || (r->kind[0] >> (r->depth - 1) & 1);
}

static enum json_scan_is opens(struct args_reader *r, char c, struct buf *out)
{
    if (r->depth == JSON_SCAN_DEPTH_MAX)
        return JSON_SCAN_BAD;
    uint64_t bit = (uint64_t)1 << r->depth++;
    r->kind[0] = c == '{' ? r->kind[0] | bit : r->kind[0] & ~bit;
    r->needs_comma = false;
    buf_char(out, c);
    return go(r, c == '{' ? NEXT : VALUE);
}

static enum json_scan_is closes(struct args_reader *r, struct buf *out)
{
    if (!r->depth) {
        buf_str(out, r->has_some ? "}" : "{}");
        return JSON_SCAN_DONE;
    }
    buf_char(out, in_object(r) ? '}' : ']');
    r->depth--;
    return go(r, BEHIND);
}

static enum json_scan_is behind(struct args_reader *r, char c, struct buf *out)
{
    if (c == (in_object(r) ? '}' : ']'))
        return closes(r, out);
    r->needs_comma = r->depth > 0;
    return c == ',' ? go(r, in_object(r) ? NEXT : VALUE) : JSON_SCAN_BAD;
}

static void tell_comma(struct args_reader *r, struct buf *out)
{
    if (r->needs_comma)
        buf_str(out, ", ");
    r->needs_comma = false;
}

/* ---- names --------------------------------------------------------------------------------- */

static enum json_scan_is name(struct args_reader *r, char c, struct buf *out)
{
    if (c != ':') {
        buf_char(&r->name, c);
        bool is_bad = (unsigned char)c < 0x20 || strchr("{}[],<>\"", c) || r->name.failed;
        return is_bad ? JSON_SCAN_BAD : JSON_SCAN_MORE;
    }
    if (!r->name.len)
        return JSON_SCAN_BAD;
    if (r->depth) {
        tell_comma(r, out);
        args_json_key(r, out);
    } else {
        args_json_name(r, out);
    }
    return go(r, VALUE);
}

static enum json_scan_is next(struct args_reader *r, char c, struct buf *out)
{
    if (c == '}')
        return closes(r, out);
    buf_clear(&r->name);
    r->state = NAME;
    return name(r, c, out);
}

/* ---- values -------------------------------------------------------------------------------- */

static enum json_scan_is value(struct args_reader *r, char c, struct buf *out)
{
    if (c == ']' && !in_object(r))
        return closes(r, out);
    tell_comma(r, out);
    if (c == '[' || c == '{')
        return opens(r, c, out);
    r->n_match[0] = 1;
    if (c == *r->format->quote)
        return go(r, QUOTE);
    buf_clear(&r->held);
    buf_char(&r->held, c);
    return args_in_word(c) ? go(r, WORD) : JSON_SCAN_BAD;
}

/* Of the quote before a text. */
static enum json_scan_is quote(struct args_reader *r, char c, struct buf *out)
{
    const char *mark = r->format->quote;
    if (c != mark[r->n_match[0]++])
        return JSON_SCAN_BAD;
    if (mark[r->n_match[0]])
        return JSON_SCAN_MORE;
    r->n_match[0] = 0;
    buf_char(out, '"');
    return go(r, TEXT);
}

/* What began like the quote and did not become it is the text's. */
static enum json_scan_is text(struct args_reader *r, char c, struct buf *out)
{
    const char *mark = r->format->quote;
    if (c != mark[r->n_match[0]]) {
        for (size_t i = 0; i < r->n_match[0]; i++)
            args_json_char(out, mark[i]);
        r->n_match[0] = 0;
    }
    if (c != mark[r->n_match[0]])
        args_json_char(out, c);
    else if (!mark[++r->n_match[0]]) {
        buf_char(out, '"');
        return go(r, BEHIND);
    }
    return JSON_SCAN_MORE;
}

/* Between two parts of what is written. */
static enum json_scan_is part(struct args_reader *r, char c, struct buf *out)
{
    if (json_scan_is_space(c))
        return JSON_SCAN_MORE;
    return r->state == NEXT     ? next(r, c, out)
           : r->state == BEHIND ? behind(r, c, out)
                                : value(r, c, out);
}

enum json_scan_is args_bare_byte(struct args_reader *r, char c, struct buf *out)
{
    enum json_scan_is word;
    switch (r->state) {
    case NAME:
        return name(r, c, out);
    case QUOTE:
        return quote(r, c, out);
    case TEXT:
        return text(r, c, out);
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
