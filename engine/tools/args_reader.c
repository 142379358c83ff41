/* SPDX-License-Identifier: Apache-2.0
 *
 * What the forms share.
 */
#include "engine/tools/args_reader.h"

#include <string.h>

void args_reader_init(struct args_reader *r)
{
    *r = (struct args_reader){.format = NULL};
    buf_init(&r->name, ARGS_NAME_MAX);
    buf_init(&r->held, ARGS_VALUE_MAX);
}

void args_reader_release(struct args_reader *r)
{
    buf_release(&r->name);
    buf_release(&r->held);
}

void args_reader_begin(struct args_reader *r, const struct tool_format *f,
                       const struct tool_spec *tool)
{
    r->format = f;
    r->schema = tool->parameters;
    r->state = 0;
    r->depth = 0;
    r->has_some = r->needs_comma = false;
    buf_clear(&r->name);
    buf_clear(&r->held);
}

enum json_scan_is args_reader_byte(struct args_reader *r, char c, struct buf *out)
{
    return r->format->shape == TOOL_PYTHON ? args_python_byte(r, c, out)
           : r->format->shape == TOOL_BARE ? args_bare_byte(r, c, out)
                                           : args_marked_byte(r, c, out);
}

bool args_in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '+' || c == '-' || c == '.';
}

static enum json_scan_is tell_word(const struct args_reader *r, struct buf *out)
{
    static const char *const word[][2] = {{"None", "null"}, {"True", "true"}, {"False", "false"}};
    const char *p = r->held.data;
    size_t n = r->held.len;
    for (size_t i = 0; i < 3; i++)
        if (strlen(word[i][0]) == n && !memcmp(word[i][0], p, n))
            return buf_str(out, word[i][1]) ? JSON_SCAN_BAD : JSON_SCAN_DONE;
    if (!args_is_json(p, n))
        return JSON_SCAN_BAD;
    buf_add(out, p, n);
    return JSON_SCAN_DONE;
}

enum json_scan_is args_word_byte(struct args_reader *r, char c, struct buf *out)
{
    if (!args_in_word(c))
        return tell_word(r, out);
    buf_char(&r->held, c);
    return r->held.failed ? JSON_SCAN_BAD : JSON_SCAN_MORE;
}

void args_json_char(struct buf *out, char c)
{
    if (c == '"' || c == '\\')
        buf_char(out, '\\');
    if (c == '\n')
        buf_str(out, "\\n");
    else if (c == '\t')
        buf_str(out, "\\t");
    else if ((unsigned char)c < 0x20)
        buf_printf(out, "\\u%04x", (unsigned)c);
    else
        buf_char(out, c);
}

void args_json_name(struct args_reader *r, struct buf *out)
{
    buf_str(out, r->has_some ? ", " : "{");
    r->has_some = true;
    args_json_key(r, out);
}

void args_json_key(const struct args_reader *r, struct buf *out)
{
    buf_char(out, '"');
    for (size_t i = 0; i < r->name.len; i++)
        args_json_char(out, r->name.data[i]);
    buf_str(out, "\": ");
}

bool args_is_json(const char *text, size_t n)
{
    struct json_scan s;
    enum json_scan_is is = JSON_SCAN_MORE;
    json_scan_init(&s);
    for (size_t i = 0; i < n && is == JSON_SCAN_MORE; i++) {
        is = json_scan_byte(&s, text[i]);
        if (is != JSON_SCAN_MORE)
            return is == JSON_SCAN_DONE && i + 1 == n;
    }
    return n && json_scan_byte(&s, ' ') == JSON_SCAN_BEFORE;
}
