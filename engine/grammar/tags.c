/* SPDX-License-Identifier: Apache-2.0
 *
 * Free text with parts that are held to something: as soon as the free text has come to a trigger,
 * what follows is the rest of the beginning of one of the tags with that trigger, what the tag
 * holds, its end, and free text again.
 *
 * The free text is an automaton over bytes that knows the longest beginning of a trigger that it
 * has just read (Aho and Corasick). Like text without a constraint it may be any bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/compile.h"
#include "engine/token/utf8.h"

enum { MAX_TAGS = 1024, MAX_TRIGGER_BYTES = 16 << 10 };

struct tags {
    struct build *d;
    const struct grammar_tags *ask;
    /* of the automaton, by state: where each byte leads, and the trigger that has just been read */
    uint32_t (*next)[256];
    uint32_t *fail, *trigger; /* trigger: number + 1 */
    uint32_t n_state, n_rule;
    uint32_t *rule; /* by trigger: its tags, from behind the trigger to their ends */
};

static bool begins_with(struct grammar_text text, struct grammar_text start)
{
    return text.len >= start.len && !memcmp(text.at, start.at, start.len);
}

static int check(struct budget *b, const struct grammar_tags *ask)
{
    size_t bytes = 0;
    if (ask->n_tag == 0 || ask->n_trigger == 0 || ask->n_tag > MAX_TAGS ||
        ask->n_trigger > MAX_TAGS)
        return budget_fail(b, ERR_BAD_INPUT, "structural tags: 1 to %d tags and triggers",
                           MAX_TAGS);
    for (size_t i = 0; i < ask->n_trigger; i++) {
        struct grammar_text t = ask->trigger[i];
        bytes += t.len;
        if (t.len == 0 || utf8_valid((const uint8_t *)t.at, t.len) != t.len)
            return budget_fail(b, ERR_BAD_INPUT, "trigger %zu must be a text that is not empty", i);
        for (size_t k = 0; k < ask->n_trigger; k++)
            if (k != i && memmem(ask->trigger[k].at, ask->trigger[k].len, t.at, t.len))
                return budget_fail(b, ERR_BAD_INPUT,
                                   "trigger %zu lies within trigger %zu: they cannot be told apart",
                                   i, k);
    }
    if (bytes > MAX_TRIGGER_BYTES)
        return budget_fail(b, ERR_TOO_LARGE, "the triggers have more than %d bytes",
                           MAX_TRIGGER_BYTES);
    for (size_t i = 0; i < ask->n_tag; i++) {
        const struct grammar_tag *t = &ask->tag[i];
        bool found = false;
        for (size_t k = 0; k < ask->n_trigger; k++)
            found |= begins_with(t->begin, ask->trigger[k]);
        if (!found)
            return budget_fail(b, ERR_BAD_INPUT, "tag %zu begins with none of the triggers", i);
        if (utf8_valid((const uint8_t *)t->begin.at, t->begin.len) != t->begin.len ||
            utf8_valid((const uint8_t *)t->end.at, t->end.len) != t->end.len)
            return budget_fail(b, ERR_BAD_INPUT, "tag %zu is not UTF-8", i);
    }
    return 0;
}

/* ---- the automaton of triggers ---- */

static void plant(struct tags *t)
{
    for (size_t i = 0; i < t->ask->n_trigger; i++) {
        uint32_t at = 0;
        for (size_t k = 0; k < t->ask->trigger[i].len; k++) {
            uint32_t *to = &t->next[at][(uint8_t)t->ask->trigger[i].at[k]];
            if (!*to)
                *to = t->n_state++;
            at = *to;
        }
        t->trigger[at] = (uint32_t)i + 1;
    }
}

/* Where no edge was planted, the way of the longest ending that is a beginning too. */
static void link_states(struct tags *t)
{
    uint32_t *queue = budget_alloc(t->d->b, t->n_state + 1, sizeof *queue), head = 0, n = 0;
    for (int c = 0; c < 256; c++)
        if (t->next[0][c])
            queue[n++] = t->next[0][c];
    while (head < n && budget_tick(t->d->b, 256)) {
        uint32_t at = queue[head++];
        for (int c = 0; c < 256; c++) {
            uint32_t to = t->next[at][c], other = t->next[t->fail[at]][c];
            if (!to) {
                t->next[at][c] = other;
                continue;
            }
            t->fail[to] = other;
            queue[n++] = to;
        }
    }
}

/* ---- what stands in a tag ---- */

static uint32_t tag_content(struct tags *t, const struct grammar_tag *tag, uint32_t next)
{
    struct build *d = t->d;
    switch (tag->kind) {
    case GRAMMAR_SCHEMA:
        return compile_schema(d, tag->schema, t->ask->is_compact, next);
    case GRAMMAR_REGEX:
        return compile_regex_text(d, &tag->text, next);
    case GRAMMAR_GBNF:
        return compile_gbnf_text(d, &tag->text, next);
    }
    return PROGRAM_FAIL;
}

/* One rule for each trigger: any of its tags, without the trigger itself. */
static void make_rules(struct tags *t)
{
    struct build *d = t->d;
    uint32_t *content = budget_alloc(d->b, t->ask->n_tag, sizeof *content);
    for (size_t i = 0; i < t->ask->n_tag && !d->b->failed; i++) {
        const struct grammar_tag *tag = &t->ask->tag[i];
        content[i] = build_rule(d, "a tag");
        uint32_t end = build_text(d, tag->end.at, tag->end.len, PROGRAM_END);
        uint32_t entry = tag_content(t, tag, end);
        if (d->b->failed)
            err_wrap(&d->b->err, "tag %zu", i);
        build_rule_is(d, content[i], entry);
    }
    for (size_t k = 0; k < t->ask->n_trigger && !d->b->failed; k++) {
        LIST(uint32_t) way = {0};
        struct grammar_text start = t->ask->trigger[k];
        for (size_t i = 0; i < t->ask->n_tag; i++) {
            const struct grammar_tag *tag = &t->ask->tag[i];
            if (begins_with(tag->begin, start))
                list_push(d->b, &way,
                          build_text(d, tag->begin.at + start.len, tag->begin.len - start.len,
                                     build_call(d, content[i], PROGRAM_END)));
        }
        t->rule[k] = build_rule(d, "a trigger");
        build_rule_is(d, t->rule[k], build_alt(d, way.at, way.n));
    }
}

/* ---- free text ---- */

/* The bytes of a state's edges, as few ranges as they make. At a trigger its tags follow. */
static uint32_t edges(struct tags *t, uint32_t at, const uint32_t *pc, uint32_t after)
{
    struct build *d = t->d;
    struct fan f = {0};
    for (int lo = 0, hi; lo < 256; lo = hi + 1) {
        uint32_t to = t->next[at][lo];
        for (hi = lo; hi < 255 && t->next[at][hi + 1] == to; hi++)
            ;
        uint32_t target = pc[to];
        if (t->trigger[to])
            target = build_call(d, t->rule[t->trigger[to] - 1], after);
        fan_add(d, &f, (uint8_t)lo, (uint8_t)hi, target);
    }
    return fan_end(d, &f);
}

/* Free text from its beginning. may_end: the text may end in it; `after`: where a tag's end leads.
 */
static uint32_t free_text(struct tags *t, bool may_end, uint32_t root, uint32_t after)
{
    struct build *d = t->d;
    uint32_t *pc = budget_alloc(d->b, t->n_state, sizeof *pc);
    pc[0] = root;
    for (uint32_t i = 1; i < t->n_state; i++)
        pc[i] = t->trigger[i] ? PROGRAM_FAIL : build_loop(d);
    for (uint32_t i = 0; i < t->n_state && !d->b->failed; i++) {
        if (t->trigger[i])
            continue;
        uint32_t way[2] = {edges(t, i, pc, after), PROGRAM_END};
        build_loop_is(d, pc[i], way, may_end ? 2 : 1);
    }
    return root;
}

static void make_automaton(struct tags *t)
{
    size_t n = 1;
    for (size_t i = 0; i < t->ask->n_trigger; i++)
        n += t->ask->trigger[i].len;
    t->next = budget_alloc(t->d->b, n, sizeof *t->next);
    t->fail = budget_alloc(t->d->b, n, sizeof *t->fail);
    t->trigger = budget_alloc(t->d->b, n, sizeof *t->trigger);
    t->rule = budget_alloc(t->d->b, t->ask->n_trigger, sizeof *t->rule);
    plant(t);
    link_states(t);
}

uint32_t compile_until(struct build *d, struct grammar_text trigger, uint32_t then, bool may_end)
{
    const struct grammar_tags ask = {.trigger = &trigger, .n_trigger = 1};
    struct tags t = {.d = d, .ask = &ask, .n_state = 1};
    make_automaton(&t);
    t.rule[0] = build_rule(d, "behind a trigger");
    build_rule_is(d, t.rule[0], then);
    return d->b->failed ? PROGRAM_FAIL : free_text(&t, may_end, build_loop(d), PROGRAM_END);
}

static uint32_t compile_tags(struct build *d, const void *what)
{
    struct tags t = {.d = d, .ask = what, .n_state = 1};
    if (check(d->b, t.ask))
        return PROGRAM_FAIL;
    make_automaton(&t);
    make_rules(&t);
    if (d->b->failed)
        return PROGRAM_FAIL;
    if (t.ask->stops_after_first)
        return free_text(&t, !t.ask->needs_one, build_loop(d), PROGRAM_END);
    uint32_t later = build_loop(d);
    free_text(&t, true, later, later);
    return t.ask->needs_one ? free_text(&t, false, build_loop(d), later) : later;
}

struct grammar *grammar_tags(const struct grammar_tags *ask, const struct grammar_limits *limits,
                             struct err *e)
{
    return compile(limits, compile_tags, ask, e);
}
