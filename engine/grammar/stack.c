/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames by content, closures by a list of what is to be looked at.
 */
#include "engine/grammar/stack.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { FIRST_SLOTS = 64, FIRST_SEEN = 64 };

void stack_init(struct stack *s, const struct grammar *g)
{
    *s = (struct stack){.g = g, .n_slot = FIRST_SLOTS, .n_seen = FIRST_SEEN};
    s->slot = xcalloc(s->n_slot, sizeof *s->slot);
    s->seen = xcalloc(s->n_seen, sizeof *s->seen);
    s->seen_round = xcalloc(s->n_seen, sizeof *s->seen_round);
    vec_push(&s->frame, (struct frame){0});
}

void stack_release(struct stack *s)
{
    vec_release(&s->frame);
    vec_release(&s->todo);
    vec_release(&s->found);
    free(s->slot);
    free(s->seen);
    free(s->seen_round);
}

static uint64_t mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static uint32_t frame_hash(const struct frame *f)
{
    uint64_t h = mix((uint64_t)f->below << 32 | f->pc);
    return (uint32_t)mix(h ^ ((uint64_t)f->need << 32 | f->room));
}

static uint32_t slot_of(const struct stack *s, const struct frame *f)
{
    uint32_t i = frame_hash(f) & (s->n_slot - 1);
    while (s->slot[i] && memcmp(&s->frame.at[s->slot[i]], f, sizeof *f) != 0)
        i = (i + 1) & (s->n_slot - 1);
    return i;
}

static void fill_slots(struct stack *s)
{
    memset(s->slot, 0, s->n_slot * sizeof *s->slot);
    for (uint32_t i = 1; i < s->frame.n; i++)
        s->slot[slot_of(s, &s->frame.at[i])] = i;
}

static void grow_slots(struct stack *s)
{
    s->n_slot *= 2;
    s->slot = xrealloc(s->slot, s->n_slot * sizeof *s->slot);
    fill_slots(s);
}

uint32_t stack_push(struct stack *s, struct frame f, bool *overflowed)
{
    uint32_t i = slot_of(s, &f);
    if (s->slot[i])
        return s->slot[i];
    if (s->frame.n >= STACK_MAX_FRAMES) {
        *overflowed = true;
        return STACK_BOTTOM;
    }
    s->slot[i] = (uint32_t)s->frame.n;
    vec_push(&s->frame, f);
    if (s->frame.n * 2 > s->n_slot)
        grow_slots(s);
    return (uint32_t)s->frame.n - 1;
}

/* What came last lies at the end of its run of slots, so taking away from the end leaves no gap
 * that a search would stop at. */
void stack_cut(struct stack *s, uint32_t n_frame)
{
    while (s->frame.n > n_frame) {
        s->slot[slot_of(s, &s->frame.at[s->frame.n - 1])] = 0;
        s->frame.n--;
    }
}

void stack_copy(struct stack *to, const struct stack *from)
{
    vec_reserve(&to->frame, from->frame.n);
    memcpy(to->frame.at, from->frame.at, from->frame.n * sizeof *to->frame.at);
    to->frame.n = from->frame.n;
    to->n_slot = from->n_slot;
    to->slot = xrealloc(to->slot, to->n_slot * sizeof *to->slot);
    fill_slots(to);
}

void stack_keep(struct stack *s, const uint32_t *number)
{
    uint32_t n = 1;
    for (uint32_t i = 1; i < s->frame.n; i++)
        if (!(number[i] & STACK_DROP)) {
            s->frame.at[n] = s->frame.at[i];
            s->frame.at[n].below = number[s->frame.at[n].below];
            n++;
        }
    s->frame.n = n;
    fill_slots(s);
}

void place_set_release(struct place_set *p)
{
    vec_release(&p->place);
}

void place_set_copy(struct place_set *to, const struct place_set *from)
{
    vec_reserve(&to->place, from->place.n);
    if (from->place.n)
        memcpy(to->place.at, from->place.at, from->place.n * sizeof *to->place.at);
    to->place.n = from->place.n;
    to->ends = from->ends;
    to->overflowed = from->overflowed;
}

/* ---- closures ---- */

static void grow_seen(struct stack *s)
{
    free(s->seen);
    free(s->seen_round);
    s->n_seen *= 2;
    s->seen = xcalloc(s->n_seen, sizeof *s->seen);
    s->seen_round = xcalloc(s->n_seen, sizeof *s->seen_round);
    for (size_t i = 0; i < s->found.n; i++) {
        uint64_t key = (uint64_t)s->found.at[i].pc << 32 | s->found.at[i].stack;
        uint32_t at = (uint32_t)mix(key) & (s->n_seen - 1);
        while (s->seen_round[at] == s->round)
            at = (at + 1) & (s->n_seen - 1);
        s->seen[at] = key;
        s->seen_round[at] = s->round;
    }
}

/* Whether it is new in this closure; then it is to be looked at. */
static void meet(struct stack *s, uint32_t pc, uint32_t stack, bool *overflowed)
{
    uint64_t key = (uint64_t)pc << 32 | stack;
    uint32_t at = (uint32_t)mix(key) & (s->n_seen - 1);
    for (; s->seen_round[at] == s->round; at = (at + 1) & (s->n_seen - 1))
        if (s->seen[at] == key)
            return;
    if (s->found.n >= 4 * STACK_MAX_PLACES) {
        *overflowed = true;
        return;
    }
    s->seen[at] = key;
    s->seen_round[at] = s->round;
    vec_push(&s->found, (struct place){pc, stack});
    vec_push(&s->todo, (struct place){pc, stack});
    if (s->found.n * 2 > s->n_seen)
        grow_seen(s);
}

static void begin_body(struct stack *s, struct frame f, bool *overflowed)
{
    uint32_t body = s->g->repeat[s->g->code[f.pc].a].body;
    bool full = false;
    uint32_t top = stack_push(s, f, &full);
    if (full)
        *overflowed = true;
    else
        meet(s, body, top, overflowed);
}

static void end_rule(struct stack *s, uint32_t stack, struct place_set *out)
{
    if (stack == STACK_BOTTOM) {
        out->ends = true;
        return;
    }
    struct frame f = s->frame.at[stack];
    if (f.room == 0) {
        meet(s, f.pc, f.below, &out->overflowed);
        return;
    }
    f.need -= f.need != 0 && f.need != FRAME_FREE;
    f.room -= f.room != FRAME_FREE;
    if (f.need == 0)
        meet(s, s->g->repeat[s->g->code[f.pc].a].next, f.below, &out->overflowed);
    if (f.room > 0)
        begin_body(s, f, &out->overflowed);
}

static void look_at(struct stack *s, struct place p, struct place_set *out)
{
    const struct code *c = &s->g->code[p.pc];
    const struct code_repeat *r;
    uint32_t top = p.stack;
    bool full = false;
    switch ((enum code_kind)c->kind) {
    case CODE_END:
        end_rule(s, p.stack, out);
        break;
    case CODE_FAIL:
        break;
    case CODE_BYTE:
    case CODE_RANGES:
        if (out->place.n < STACK_MAX_PLACES)
            vec_push(&out->place, p);
        else
            out->overflowed = true;
        break;
    case CODE_ALT:
        for (uint32_t i = 0; i < c->n; i++)
            meet(s, s->g->target[c->a + i], p.stack, &out->overflowed);
        break;
    case CODE_CALL: /* a call with nothing behind it needs no frame */
        if (c->n != PROGRAM_END)
            top = stack_push(s, (struct frame){.below = p.stack, .pc = c->n}, &full);
        if (full)
            out->overflowed = true;
        else
            meet(s, c->a, top, &out->overflowed);
        break;
    case CODE_REPEAT:
        r = &s->g->repeat[c->a];
        if (r->min == 0)
            meet(s, r->next, p.stack, &out->overflowed);
        if (r->max > 0)
            begin_body(s, (struct frame){p.stack, p.pc, r->min, r->max}, &out->overflowed);
        break;
    }
}

static int by_place(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    return a->pc != b->pc ? (a->pc > b->pc) - (a->pc < b->pc)
                          : (a->stack > b->stack) - (a->stack < b->stack);
}

static void begin_closure(struct stack *s, struct place_set *out)
{
    s->found.n = s->todo.n = 0;
    if (++s->round == 0) {
        memset(s->seen_round, 0, s->n_seen * sizeof *s->seen_round);
        s->round = 1;
    }
    out->place.n = 0;
    out->ends = out->overflowed = false;
}

static void end_closure(struct stack *s, struct place_set *out)
{
    while (s->todo.n > 0)
        look_at(s, vec_pop(&s->todo), out);
    if (out->place.n > 1)
        qsort(out->place.at, out->place.n, sizeof *out->place.at, by_place);
}

void stack_close(struct stack *s, const struct place *from, size_t n, struct place_set *out)
{
    begin_closure(s, out);
    for (size_t i = 0; i < n; i++)
        meet(s, from[i].pc, from[i].stack, &out->overflowed);
    end_closure(s, out);
}

void stack_step(struct stack *s, const struct place_set *from, uint8_t byte, struct place_set *out)
{
    begin_closure(s, out);
    for (size_t i = 0; i < from->place.n; i++) {
        struct place p = from->place.at[i];
        const struct code *c = &s->g->code[p.pc];
        if (c->kind == CODE_BYTE) {
            if (c->lo <= byte && byte <= c->hi)
                meet(s, c->a, p.stack, &out->overflowed);
            continue;
        }
        const struct code_range *r = s->g->range + c->a;
        for (uint32_t k = 0; k < c->n && r[k].lo <= byte; k++)
            if (byte <= r[k].hi)
                meet(s, r[k].to, p.stack, &out->overflowed);
    }
    end_closure(s, out);
}
