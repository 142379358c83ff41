/* SPDX-License-Identifier: Apache-2.0
 *
 * A state for each place of JSON's grammar (RFC 8259); brackets are bits.
 */
#include "engine/tools/json_scan.h"

#include <string.h>

enum state {
    VALUE,
    ITEM_OR_END, /* behind [ */
    KEY_OR_END,  /* behind { */
    KEY,
    COLON,
    BEHIND, /* a value of an array or an object */
    STRING,
    ESCAPE,
    HEX,
    LITERAL,
    MINUS,
    ZERO,
    DIGITS,
    POINT,
    FRACTION,
    EXP,
    EXP_SIGN,
    EXP_DIGITS
};

void json_scan_init(struct json_scan *s)
{
    *s = (struct json_scan){.state = VALUE};
}

static enum json_scan_is value_ends(struct json_scan *s)
{
    s->state = BEHIND;
    return s->depth ? JSON_SCAN_MORE : JSON_SCAN_DONE;
}

static enum json_scan_is go(struct json_scan *s, enum state to)
{
    s->state = (uint8_t)to;
    return JSON_SCAN_MORE;
}

static enum json_scan_is opens(struct json_scan *s, bool is_object)
{
    if (s->depth == JSON_SCAN_DEPTH_MAX)
        return JSON_SCAN_BAD;
    uint64_t bit = (uint64_t)1 << s->depth++;
    s->is_object = is_object ? s->is_object | bit : s->is_object & ~bit;
    return go(s, is_object ? KEY_OR_END : ITEM_OR_END);
}

static bool in_object(const struct json_scan *s)
{
    return s->depth && (s->is_object >> (s->depth - 1) & 1);
}

static enum json_scan_is closes(struct json_scan *s, char c)
{
    if (!s->depth || (c == '}') != in_object(s))
        return JSON_SCAN_BAD;
    s->depth--;
    return value_ends(s);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum json_scan_is begins(struct json_scan *s, char c)
{
    if (json_scan_is_space(c))
        return JSON_SCAN_MORE;
    if (c == '{' || c == '[')
        return opens(s, c == '{');
    if (c == '"') {
        s->is_key = false;
        return go(s, STRING);
    }
    if (c == '-')
        return go(s, MINUS);
    if (is_digit(c))
        return go(s, c == '0' ? ZERO : DIGITS);
    s->literal = c == 't' ? "rue" : c == 'f' ? "alse" : c == 'n' ? "ull" : NULL;
    return s->literal ? go(s, LITERAL) : JSON_SCAN_BAD;
}

static enum json_scan_is key(struct json_scan *s, char c, bool may_end)
{
    if (json_scan_is_space(c))
        return JSON_SCAN_MORE;
    if (may_end && c == '}')
        return closes(s, c);
    s->is_key = true;
    return c == '"' ? go(s, STRING) : JSON_SCAN_BAD;
}

static enum json_scan_is string(struct json_scan *s, char c)
{
    if (c == '\\')
        return go(s, ESCAPE);
    if (c != '"')
        return (unsigned char)c < 0x20 ? JSON_SCAN_BAD : JSON_SCAN_MORE;
    return s->is_key ? go(s, COLON) : value_ends(s);
}

static enum json_scan_is escape(struct json_scan *s, char c)
{
    s->n_hex = 4;
    if (c == 'u')
        return go(s, HEX);
    return c && strchr("\"\\/bfnrt", c) ? go(s, STRING) : JSON_SCAN_BAD;
}

static enum json_scan_is hex(struct json_scan *s, char c)
{
    bool is_hex = is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!is_hex)
        return JSON_SCAN_BAD;
    return --s->n_hex ? JSON_SCAN_MORE : go(s, STRING);
}

static enum json_scan_is behind(struct json_scan *s, char c)
{
    if (json_scan_is_space(c))
        return JSON_SCAN_MORE;
    if (c == ',')
        return go(s, in_object(s) ? KEY : VALUE);
    return c == ']' || c == '}' ? closes(s, c) : JSON_SCAN_BAD;
}

/* The byte behind a number belongs to what the number stands in. */
static enum json_scan_is number_ends(struct json_scan *s, char c)
{
    s->state = BEHIND;
    return s->depth ? behind(s, c) : JSON_SCAN_BEFORE;
}

static enum json_scan_is number(struct json_scan *s, char c)
{
    enum state at = s->state;
    bool has_exp = c == 'e' || c == 'E';
    if (is_digit(c)) {
        if (at == MINUS)
            return go(s, c == '0' ? ZERO : DIGITS);
        if (at == ZERO)
            return JSON_SCAN_BAD;
        return go(s, at == POINT ? FRACTION : at == EXP || at == EXP_SIGN ? EXP_DIGITS : at);
    }
    if (c == '.' && (at == ZERO || at == DIGITS))
        return go(s, POINT);
    if (has_exp && (at == ZERO || at == DIGITS || at == FRACTION))
        return go(s, EXP);
    if ((c == '+' || c == '-') && at == EXP)
        return go(s, EXP_SIGN);
    bool may_end = at == ZERO || at == DIGITS || at == FRACTION || at == EXP_DIGITS;
    return may_end ? number_ends(s, c) : JSON_SCAN_BAD;
}

static enum json_scan_is literal(struct json_scan *s, char c)
{
    if (c != *s->literal)
        return JSON_SCAN_BAD;
    return *++s->literal ? JSON_SCAN_MORE : value_ends(s);
}

enum json_scan_is json_scan_byte(struct json_scan *s, char c)
{
    switch ((enum state)s->state) {
    case VALUE:
        return begins(s, c);
    case ITEM_OR_END:
        return c == ']' ? closes(s, c) : begins(s, c);
    case KEY_OR_END:
    case KEY:
        return key(s, c, s->state == KEY_OR_END);
    case COLON:
        return json_scan_is_space(c) ? JSON_SCAN_MORE : c == ':' ? go(s, VALUE) : JSON_SCAN_BAD;
    case BEHIND:
        return behind(s, c);
    case STRING:
        return string(s, c);
    case ESCAPE:
        return escape(s, c);
    case HEX:
        return hex(s, c);
    case LITERAL:
        return literal(s, c);
    default:
        return number(s, c);
    }
}
