/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of constraints share: whether a text satisfies one, byte by byte.
 */
#ifndef TESTS_ENGINE_GRAMMAR_RUN_H
#define TESTS_ENGINE_GRAMMAR_RUN_H

#include <string.h>

#include "engine/grammar/grammar.h"
#include "engine/grammar/stack.h"
#include "tests/lib/test.h"

enum verdict { REFUSED, BEGINS, MATCHES };

static inline enum verdict verdict_of(const struct grammar *g, const char *text, size_t len)
{
    struct stack s;
    struct place_set here = {0}, next = {0};
    struct place start = {g->start, STACK_BOTTOM};
    stack_init(&s, g);
    stack_close(&s, &start, 1, &here);
    size_t i = 0;
    for (; i < len; i++) {
        stack_step(&s, &here, (uint8_t)text[i], &next);
        place_set_copy(&here, &next);
        if (!here.place.n && !here.ends)
            break;
    }
    enum verdict v = i < len ? REFUSED : here.ends ? MATCHES : BEGINS;
    place_set_release(&here);
    place_set_release(&next);
    stack_release(&s);
    return v;
}

static inline bool matches(const struct grammar *g, const char *text)
{
    return verdict_of(g, text, strlen(text)) == MATCHES;
}

/* xorshift: the same in every run */
static inline uint32_t draw(uint64_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)((*state >> 32) * below >> 32);
}

#endif
