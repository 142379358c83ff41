/* SPDX-License-Identifier: Apache-2.0
 *
 * A constraint that holds behind a model's thoughts: a compiled program taken over into a new one,
 * with free text up to the end of the thoughts in front of it.
 */
#include "engine/grammar/compile.h"

struct behind {
    const struct grammar *g;
    const struct grammar_part *part;
};

/* The same instructions at the same places, which begin behind END and FAIL in both. What is called
 * becomes rules again, as build_end expects. */
static void take_over(struct build *d, const struct grammar *g)
{
    for (uint32_t i = 0; i < g->n_range; i++)
        list_push(d->b, &d->range, g->range[i]);
    for (uint32_t i = 0; i < g->n_target; i++)
        list_push(d->b, &d->target, g->target[i]);
    for (uint32_t i = 0; i < g->n_repeat; i++)
        list_push(d->b, &d->repeat, g->repeat[i]);
    for (uint32_t i = d->code.n; i < g->n_code && budget_tick(d->b, 1); i++) {
        struct code c = g->code[i];
        if (c.kind == CODE_CALL) {
            uint32_t entry = c.a;
            c.a = build_rule(d, "a part of the constraint");
            build_rule_is(d, c.a, entry);
        }
        list_push(d->b, &d->code, c);
    }
}

static uint32_t compile_behind(struct build *d, const void *what)
{
    const struct behind *b = what;
    const struct grammar_part *p = b->part;
    take_over(d, b->g);
    uint32_t start = b->g->start;
    if (p->say.len)
        start = build_text(d, p->say.at, p->say.len, start);
    if (!p->close.len)
        return start;
    uint32_t line = build_byte(d, '\n', '\n', start);
    uint32_t spaced =
        build_either(d, build_either(d, start, line), build_byte(d, '\n', '\n', line));
    uint32_t thoughts = compile_until(d, p->close, spaced, false);
    if (p->is_open)
        return thoughts;
    return build_either(d, start, build_text(d, p->open.at, p->open.len, thoughts));
}

struct grammar *grammar_behind(const struct grammar *g, const struct grammar_part *part,
                               const struct grammar_limits *limits, struct err *e)
{
    const struct behind b = {.g = g, .part = part};
    return compile(limits, compile_behind, &b, e);
}
