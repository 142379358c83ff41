/* SPDX-License-Identifier: Apache-2.0
 *
 * What the targets of constraints share: what was compiled is run over bytes, its own input among
 * them, and must hold to what it promises.
 */
#ifndef TESTS_FUZZ_FUZZ_GRAMMAR_H
#define TESTS_FUZZ_FUZZ_GRAMMAR_H

#include "engine/grammar/grammar.h"
#include "engine/grammar/stack.h"
#include "tests/fuzz/fuzz.h"

/* Small, so that the fuzzer meets the limits and spends its time on many inputs. */
static const struct grammar_limits fuzz_limits = {5000, 16 << 20, 100};

static inline uint8_t first_byte(const struct grammar *g, struct place p)
{
    const struct code *c = &g->code[p.pc];
    return c->kind == CODE_BYTE ? c->lo : g->range[c->a].lo;
}

/* Some bytes of a text that matches: never a dead end that is no end. Then bytes of the input. */
static inline void fuzz_run(struct grammar *g, const struct err *e, const uint8_t *data, size_t n)
{
    struct stack s;
    struct place_set set = {0}, next = {0};
    struct place start = {g ? g->start : 0, STACK_BOTTOM};
    if (!g) {
        ASSERT(e->code != ERR_NONE && e->msg[0]);
        return;
    }
    stack_init(&s, g);
    stack_close(&s, &start, 1, &set);
    for (size_t i = 0; i < 200 && !set.overflowed; i++) {
        ASSERT(set.place.n || set.ends);
        if (!set.place.n)
            break;
        size_t which = n ? data[i % n] % set.place.n : 0;
        stack_step(&s, &set, first_byte(g, set.place.at[which]), &next);
        place_set_copy(&set, &next);
    }
    stack_cut(&s, 1);
    stack_close(&s, &start, 1, &set);
    for (size_t i = 0; i < n && i < 200 && set.place.n; i++) {
        stack_step(&s, &set, data[i], &next);
        place_set_copy(&set, &next);
    }
    place_set_release(&set);
    place_set_release(&next);
    stack_release(&s);
    grammar_unref(g);
}

#endif
