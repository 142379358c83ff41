/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions, and the program that comes of them.
 */
#include "engine/grammar/build.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/grammar/grammar.h"

void build_init(struct build *d, struct budget *b)
{
    *d = (struct build){.b = b};
    map_init(&d->known);
    list_push(b, &d->code, (struct code){.kind = CODE_END});
    list_push(b, &d->code, (struct code){.kind = CODE_FAIL});
}

void build_release(struct build *d)
{
    map_release(&d->known);
}

static uint32_t code_add(struct build *d, struct code c)
{
    if (d->code.n >= d->b->max_states) {
        budget_too_many_states(d->b);
        return PROGRAM_FAIL;
    }
    budget_tick(d->b, 1);
    return list_push(d->b, &d->code, c) ? d->code.n - 1 : PROGRAM_FAIL;
}

uint32_t build_byte(struct build *d, uint8_t lo, uint8_t hi, uint32_t next)
{
    struct code c;
    memset(&c, 0, sizeof c);
    c.kind = CODE_BYTE;
    c.lo = lo;
    c.hi = hi;
    c.a = next;
    uintptr_t known = (uintptr_t)map_get(&d->known, &c, sizeof c);
    if (known)
        return (uint32_t)(known - 1);
    uint32_t at = code_add(d, c);
    if (at != PROGRAM_FAIL) {
        budget_charge(d->b, 64);
        map_put(&d->known, &c, sizeof c, (void *)(uintptr_t)(at + 1));
    }
    return at;
}

uint32_t build_text(struct build *d, const char *text, size_t len, uint32_t next)
{
    for (size_t i = len; i-- > 0 && !d->b->failed;)
        next = build_byte(d, (uint8_t)text[i], (uint8_t)text[i], next);
    return next;
}

uint32_t build_loop(struct build *d)
{
    return code_add(d, (struct code){.kind = CODE_ALT});
}

void build_loop_is(struct build *d, uint32_t loop, const uint32_t *target, uint32_t n)
{
    if (d->b->failed)
        return;
    d->code.at[loop].a = d->target.n;
    d->code.at[loop].n = n;
    for (uint32_t i = 0; i < n; i++)
        if (!list_push(d->b, &d->target, target[i]))
            return;
}

uint32_t build_alt(struct build *d, const uint32_t *target, uint32_t n)
{
    if (n == 0)
        return PROGRAM_FAIL;
    if (n == 1)
        return target[0];
    uint32_t at = build_loop(d);
    build_loop_is(d, at, target, n);
    return at;
}

uint32_t build_either(struct build *d, uint32_t x, uint32_t y)
{
    uint32_t target[2] = {x, y};
    if (x == PROGRAM_FAIL || y == PROGRAM_FAIL)
        return x == PROGRAM_FAIL ? y : x;
    return build_alt(d, target, 2);
}

uint32_t build_repeat(struct build *d, uint32_t body, uint32_t min, uint32_t max, uint32_t next)
{
    if (max == 0)
        return next;
    if (!list_push(d->b, &d->repeat, (struct code_repeat){body, next, min, max}))
        return PROGRAM_FAIL;
    return code_add(d, (struct code){.kind = CODE_REPEAT, .a = d->repeat.n - 1});
}

uint32_t build_rule(struct build *d, const char *name)
{
    return list_push(d->b, &d->rule, (struct rule){PROGRAM_FAIL, name}) ? d->rule.n - 1 : 0;
}

void build_rule_is(struct build *d, uint32_t rule, uint32_t entry)
{
    if (!d->b->failed)
        d->rule.at[rule].entry = entry;
}

/* The rule's number stands in `a` until the end. */
uint32_t build_call(struct build *d, uint32_t rule, uint32_t next)
{
    return code_add(d, (struct code){.kind = CODE_CALL, .a = rule, .n = next});
}

void fan_add(struct build *d, struct fan *f, uint8_t lo, uint8_t hi, uint32_t to)
{
    list_push(d->b, &f->range, (struct code_range){lo, hi, to});
}

static int by_byte(const void *x, const void *y)
{
    const struct code_range *a = x, *b = y;
    return a->lo != b->lo ? a->lo - b->lo : (a->to > b->to) - (a->to < b->to);
}

uint32_t fan_end(struct build *d, struct fan *f)
{
    uint32_t n = f->range.n, first = d->range.n;
    if (n == 0)
        return PROGRAM_FAIL;
    if (n == 1)
        return build_byte(d, f->range.at[0].lo, f->range.at[0].hi, f->range.at[0].to);
    qsort(f->range.at, n, sizeof *f->range.at, by_byte);
    for (uint32_t i = 0; i < n; i++)
        if (!list_push(d->b, &d->range, f->range.at[i]))
            return PROGRAM_FAIL;
    return code_add(d, (struct code){.kind = CODE_RANGES, .a = first, .n = n});
}

static void *copy_of(const void *at, uint32_t n, size_t size, struct err *e)
{
    void *p = try_alloc(n + 1, size, "constraint", e);
    if (p && n)
        memcpy(p, at, n * size);
    return p;
}

struct grammar *build_end(struct build *d, uint32_t rule)
{
    struct grammar *g;
    uint32_t start = d->b->failed ? 0 : d->rule.at[rule].entry;
    for (uint32_t i = 0; i < d->code.n && !d->b->failed; i++)
        if (d->code.at[i].kind == CODE_CALL)
            d->code.at[i].a = d->rule.at[d->code.at[i].a].entry;
    if (d->b->failed || build_check(d, start))
        return NULL;
    g = xcalloc(1, sizeof *g);
    atomic_init(&g->n_ref, 1);
    g->n_code = d->code.n;
    g->n_range = d->range.n;
    g->n_target = d->target.n;
    g->n_repeat = d->repeat.n;
    g->start = start;
    struct err *e = &d->b->err;
    if (!(g->code = copy_of(d->code.at, g->n_code, sizeof *g->code, e)) ||
        !(g->range = copy_of(d->range.at, g->n_range, sizeof *g->range, e)) ||
        !(g->target = copy_of(d->target.at, g->n_target, sizeof *g->target, e)) ||
        !(g->repeat = copy_of(d->repeat.at, g->n_repeat, sizeof *g->repeat, e))) {
        d->b->failed = true;
        grammar_unref(g);
        return NULL;
    }
    return g;
}
