/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled constraint: a pushdown automaton over bytes, as a flat program. A place is an index
 * into `code` and a stack of where to go on. Several places may be possible at once; which ones is
 * kept by engine/grammar/stack.h.
 *
 * Every instruction leads to the end of its rule: what has begun legally can be ended. No rule
 * comes to itself again without reading a byte under a stack that has grown (left recursion).
 *
 * Thread: any; immutable and counted.
 */
#ifndef ENGINE_GRAMMAR_PROGRAM_H
#define ENGINE_GRAMMAR_PROGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum code_kind {
    CODE_END,    /* the rule ends: on with the top of the stack */
    CODE_FAIL,   /* nothing matches */
    CODE_BYTE,   /* a byte of lo to hi, then a */
    CODE_RANGES, /* ranges a to a + n: each with where to go on */
    CODE_ALT,    /* targets a to a + n: any of them */
    CODE_CALL,   /* the rule at a, then n */
    CODE_REPEAT  /* repeats[a] */
};

struct code {
    uint8_t kind, lo, hi;
    uint32_t a, n;
};

struct code_range {
    uint8_t lo, hi;
    uint32_t to;
};

#define REPEAT_NO_MAX UINT32_MAX

/* The body min to max times, each ended by CODE_END; then `next`. The body is never empty. */
struct code_repeat {
    uint32_t body, next, min, max;
};

enum { PROGRAM_END = 0, PROGRAM_FAIL = 1 };

struct grammar {
    atomic_uint n_ref;
    struct code *code;          /* owned */
    struct code_range *range;   /* owned */
    uint32_t *target;           /* owned */
    struct code_repeat *repeat; /* owned */
    uint32_t n_code, n_range, n_target, n_repeat, start;
};

#endif
