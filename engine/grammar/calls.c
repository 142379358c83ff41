/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts with calls of tools, in whatever form a model writes them: what stands before, between and
 * behind calls is given, the arguments are JSON of each tool's schema.
 */
#include <string.h>

#include "engine/grammar/compile.h"
#include "engine/grammar/json_text.h"

static uint32_t add_text(struct build *d, struct grammar_text t, uint32_t next)
{
    return t.len ? build_text(d, t.at, t.len, next) : next;
}

static uint32_t arguments(struct build *d, const struct grammar_call *c, uint32_t next)
{
    struct json_text any = {.d = d};
    if (c->is_bare)
        return c->marks ? next : build_text(d, "{}", 2, next);
    if (c->marks)
        return compile_params(d, c->schema, c->types, c->marks, next);
    return c->schema ? compile_schema(d, c->schema, false, next) : json_text_any_object(&any, next);
}

/* One to three digits. */
static uint32_t number(struct build *d, uint32_t next)
{
    uint32_t at = next;
    for (int i = 0; i < 2; i++)
        at = build_either(d, build_byte(d, '0', '9', at), next);
    return build_byte(d, '0', '9', at);
}

/* Any of the calls, as a rule. */
static uint32_t one_call(struct build *d, const struct grammar_calls *ask)
{
    LIST(uint32_t) way = {0};
    uint32_t rule = build_rule(d, "a call of a tool");
    for (size_t i = 0; i < ask->n_call && budget_tick(d->b, 1); i++) {
        const struct grammar_call *c = &ask->call[i];
        uint32_t end = add_text(d, c->end, PROGRAM_END), entry = arguments(d, c, end);
        if (d->b->failed)
            err_wrap(&d->b->err, "tool '%s'", c->name);
        if (c->behind_number.len)
            entry = number(d, add_text(d, c->behind_number, entry));
        list_push(d->b, &way, add_text(d, c->begin, entry));
    }
    build_rule_is(d, rule, build_alt(d, way.at, way.n));
    return rule;
}

/* From behind `start` to the end of the text. */
static uint32_t all_calls(struct build *d, const struct grammar_calls *ask)
{
    uint32_t one = one_call(d, ask), end = add_text(d, ask->close, PROGRAM_END);
    if (!ask->may_repeat)
        return add_text(d, ask->open, build_call(d, one, end));
    uint32_t more = build_loop(d);
    uint32_t way[2] = {add_text(d, ask->between, build_call(d, one, more)), end};
    build_loop_is(d, more, way, 2);
    return add_text(d, ask->open, build_call(d, one, more));
}

static bool is_first(const struct grammar_calls *ask, int c)
{
    return c && !strchr(" \n\r\t", c) && !strchr(ask->not_first, c);
}

/* Any text that does not look like a call from its first byte on. */
static uint32_t other_text(struct build *d, const struct grammar_calls *ask)
{
    struct fan first = {0};
    uint32_t any = build_loop(d);
    uint32_t way[2] = {build_byte(d, 0, 255, any), PROGRAM_END};
    build_loop_is(d, any, way, 2);
    for (int lo = 0; lo < 256; lo++)
        if (is_first(ask, lo))
            fan_add(d, &first, (uint8_t)lo, (uint8_t)lo, any);
    return build_either(d, fan_end(d, &first), PROGRAM_END);
}

static uint32_t compile_calls(struct build *d, const void *what)
{
    const struct grammar_calls *ask = what;
    struct json_text any = {.d = d};
    if (!ask->n_call)
        budget_fail(d->b, ERR_BAD_INPUT, "there is no tool to call");
    uint32_t calls = all_calls(d, ask);
    if (d->b->failed)
        return PROGRAM_FAIL;
    if (ask->is_asked)
        return add_text(d, ask->start, calls);
    if (ask->has_form) {
        uint32_t form = ask->form ? compile_schema(d, ask->form, false, PROGRAM_END)
                                  : json_text_any_object(&any, PROGRAM_END);
        return build_either(d, add_text(d, ask->start, calls), add_text(d, ask->say, form));
    }
    return ask->start.len ? compile_until(d, ask->start, calls, true)
                          : build_either(d, calls, other_text(d, ask));
}

struct grammar *grammar_calls(const struct grammar_calls *ask, const struct grammar_limits *limits,
                              struct err *e)
{
    return compile(limits, compile_calls, ask, e);
}
