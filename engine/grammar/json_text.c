/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of JSON.
 */
#include "engine/grammar/json_text.h"

#include <string.h>

#include "engine/grammar/compile.h"
#include "engine/grammar/regex_parse.h"

static uint32_t rule_new(struct json_text *j, uint32_t *rule, const char *name)
{
    *rule = build_rule(j->d, name) + 1;
    return *rule - 1;
}

uint32_t json_text_space(struct json_text *j, uint32_t next)
{
    struct build *d = j->d;
    if (j->is_compact)
        return next;
    if (!j->space) {
        uint32_t rule = rule_new(j, &j->space, "white space");
        struct fan tab = {0};
        fan_add(d, &tab, ' ', ' ', PROGRAM_END);
        fan_add(d, &tab, '\t', '\t', PROGRAM_END);
        uint32_t indent = build_repeat(d, fan_end(d, &tab), 0, JSON_MAX_INDENT, PROGRAM_END);
        uint32_t second = build_either(d, build_byte(d, '\n', '\n', indent), indent);
        uint32_t some[3] = {PROGRAM_END, build_byte(d, ' ', ' ', PROGRAM_END),
                            build_byte(d, '\n', '\n', second)};
        build_rule_is(d, rule, build_alt(d, some, 3));
    }
    return build_call(d, j->space - 1, next);
}

/* ---- a quote of its own ---- */

struct dfa *json_text_plain(struct json_text *j)
{
    struct budget *b = j->d->b;
    if (!j->plain) {
        struct node *quote = node_text(b, j->quote, strlen(j->quote));
        struct dfa *any = dfa_any(b), *no = quote ? dfa_of(b, quote, false) : NULL;
        j->plain = any && no ? dfa_combine(b, DFA_BUT_NOT, any, no) : NULL;
    }
    return j->plain;
}

struct dfa *json_text_names(struct json_text *j)
{
    static const char bare[] = "[^:,{}\\[\\]<>\"\\s]([^:,{}\\[\\]<>\"\\r\\n]{0,126}"
                               "[^:,{}\\[\\]<>\"\\s])?";
    struct budget *b = j->d->b;
    if (!j->names) {
        struct node *n = regex_parse(b, bare, strlen(bare), REGEX_ECMA);
        j->names = n ? dfa_of(b, n, true) : NULL;
    }
    return j->names;
}

uint32_t json_text_quote(struct json_text *j, uint32_t next)
{
    const char *quote = j->quote ? j->quote : "\"";
    return next == PROGRAM_FAIL ? next : build_text(j->d, quote, strlen(quote), next);
}

/* ---- members ---- */

uint32_t json_text_key_of(struct json_text *j, const struct dfa *names, uint32_t next)
{
    if (j->quote)
        return build_dfa(j->d, SPELL_PLAIN, names, build_byte(j->d, ':', ':', next));
    uint32_t colon = build_text(j->d, "\":", 2, json_text_space(j, next));
    return build_byte(j->d, '"', '"', build_dfa(j->d, SPELL_JSON, names, colon));
}

uint32_t json_text_key(struct json_text *j, const char *key, size_t len, uint32_t next)
{
    if (j->quote)
        return build_text(j->d, key, len, build_byte(j->d, ':', ':', next));
    uint32_t colon = build_text(j->d, "\":", 2, json_text_space(j, next));
    return build_byte(j->d, '"', '"', build_spelt(j->d, SPELL_JSON, key, len, colon));
}

uint32_t json_text_comma(struct json_text *j, uint32_t next)
{
    return build_byte(j->d, ',', ',', json_text_space(j, next));
}

uint32_t json_text_close(struct json_text *j, char bracket, uint32_t next)
{
    return json_text_space(j, build_byte(j->d, (uint8_t)bracket, (uint8_t)bracket, next));
}

/* ---- strings ---- */

static uint32_t character(struct json_text *j)
{
    if (!j->character) {
        uint32_t rule = rule_new(j, &j->character, "a character");
        struct charset any = charset_any(j->d->b);
        build_rule_is(j->d, rule, build_set(j->d, SPELL_JSON, &any, NULL, PROGRAM_END));
    }
    return j->character - 1;
}

static uint32_t any_string(struct json_text *j)
{
    if (!j->string) {
        struct build *d = j->d;
        uint32_t rule = rule_new(j, &j->string, "a string");
        if (j->quote) {
            struct dfa *plain = json_text_plain(j);
            uint32_t close = json_text_quote(j, PROGRAM_END);
            uint32_t inside = plain ? build_dfa(d, SPELL_PLAIN, plain, close) : PROGRAM_FAIL;
            build_rule_is(d, rule, json_text_quote(j, inside));
            return rule;
        }
        struct charset any = charset_any(d->b);
        uint32_t loop = build_loop(d);
        uint32_t way[2] = {build_set(d, SPELL_JSON, &any, NULL, loop),
                           build_byte(d, '"', '"', PROGRAM_END)};
        build_loop_is(d, loop, way, 2);
        build_rule_is(d, rule, build_byte(d, '"', '"', loop));
    }
    return j->string - 1;
}

uint32_t json_text_string(struct json_text *j, uint32_t min, uint32_t max, uint32_t next)
{
    struct build *d = j->d;
    if (min == 0 && max == UINT32_MAX)
        return build_call(d, any_string(j), next);
    uint32_t body = build_call(d, character(j), PROGRAM_END);
    uint32_t close = build_byte(d, '"', '"', next);
    return build_byte(d, '"', '"',
                      build_repeat(d, body, min, max == UINT32_MAX ? REPEAT_NO_MAX : max, close));
}

/* ---- numbers ---- */

static uint32_t digits(struct build *d, uint32_t min, uint32_t max, uint32_t next)
{
    uint32_t at = next;
    for (uint32_t i = min; i < max; i++)
        at = build_either(d, build_byte(d, '0', '9', at), next);
    for (uint32_t i = 0; i < min; i++)
        at = build_byte(d, '0', '9', at);
    return at;
}

uint32_t json_text_number(struct json_text *j, bool is_integer, uint32_t next)
{
    struct build *d = j->d;
    uint32_t end = next;
    if (!is_integer) {
        struct fan sign = {0}, e = {0};
        uint32_t power = digits(d, 1, 2, next);
        fan_add(d, &sign, '+', '+', power);
        fan_add(d, &sign, '-', '-', power);
        uint32_t signed_power = build_either(d, fan_end(d, &sign), power);
        fan_add(d, &e, 'e', 'e', signed_power);
        fan_add(d, &e, 'E', 'E', signed_power);
        end = build_either(d, fan_end(d, &e), next);
        end = build_either(d, build_byte(d, '.', '.', digits(d, 1, JSON_MAX_DIGITS, end)), end);
    }
    struct fan first = {0};
    fan_add(d, &first, '0', '0', end);
    fan_add(d, &first, '1', '9', digits(d, 0, JSON_MAX_DIGITS - 1, end));
    uint32_t number = fan_end(d, &first);
    return build_either(d, build_byte(d, '-', '-', number), number);
}

/* ---- values ---- */

static uint32_t word(struct json_text *j, const char *json, const char *python, uint32_t next)
{
    const char *text = j->is_python ? python : json;
    return build_text(j->d, text, strlen(text), next);
}

uint32_t json_text_null(struct json_text *j, uint32_t next)
{
    return word(j, "null", "None", next);
}

uint32_t json_text_bool(struct json_text *j, bool b, uint32_t next)
{
    return b ? word(j, "true", "True", next) : word(j, "false", "False", next);
}

static uint32_t members(struct json_text *j, char open, char shut, uint32_t member)
{
    struct build *d = j->d;
    uint32_t close = json_text_close(j, shut, PROGRAM_END), more = build_loop(d);
    uint32_t way[2] = {json_text_comma(j, build_call(d, member, more)), close};
    build_loop_is(d, more, way, 2);
    uint32_t first = json_text_space(j, build_call(d, member, more));
    return build_byte(d, (uint8_t)open, (uint8_t)open, build_either(d, first, close));
}

static uint32_t value_rule(struct json_text *j)
{
    struct build *d = j->d;
    if (j->value)
        return j->value - 1;
    uint32_t rule = rule_new(j, &j->value, "a value"), member = build_rule(d, "a member");
    uint32_t object = rule_new(j, &j->object, "an object");
    uint32_t array = rule_new(j, &j->array, "an array");
    uint32_t to_value = build_call(d, rule, PROGRAM_END);
    uint32_t colon = build_byte(d, ':', ':', json_text_space(j, to_value));
    struct dfa *names = j->quote ? json_text_names(j) : NULL;
    build_rule_is(d, member,
                  !j->quote ? build_call(d, any_string(j), colon)
                  : names   ? build_dfa(d, SPELL_PLAIN, names, colon)
                            : PROGRAM_FAIL);
    build_rule_is(d, object, members(j, '{', '}', member));
    build_rule_is(d, array, members(j, '[', ']', rule));
    uint32_t way[] = {build_call(d, object, PROGRAM_END),
                      build_call(d, array, PROGRAM_END),
                      build_call(d, any_string(j), PROGRAM_END),
                      json_text_number(j, false, PROGRAM_END),
                      json_text_bool(j, true, PROGRAM_END),
                      json_text_bool(j, false, PROGRAM_END),
                      json_text_null(j, PROGRAM_END)};
    build_rule_is(d, rule, build_alt(d, way, sizeof way / sizeof *way));
    return rule;
}

uint32_t json_text_any(struct json_text *j, uint32_t next)
{
    return build_call(j->d, value_rule(j), next);
}

uint32_t json_text_any_object(struct json_text *j, uint32_t next)
{
    value_rule(j);
    return build_call(j->d, j->object - 1, next);
}

uint32_t json_text_any_array(struct json_text *j, uint32_t next)
{
    value_rule(j);
    return build_call(j->d, j->array - 1, next);
}
