/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a program: the places that are possible after the bytes so far. A place is an
 * instruction that reads a byte and a stack. Stacks are chains of frames that are never changed
 * and lie in one array, equal ones once; so a place is two numbers, a set of places is copied by
 * its bytes, and going back to an earlier set is cutting the array off where it ended then.
 *
 * A frame is where to go on when a rule ends or, with `room`, how often a repetition may still
 * come: `need` more times at least, `room` at most, the running one included.
 *
 * Nothing recurses; a set of more than STACK_MAX_PLACES places, or more frames than
 * STACK_MAX_FRAMES, is a dead end like any byte that does not match.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_GRAMMAR_STACK_H
#define ENGINE_GRAMMAR_STACK_H

#include <stdbool.h>

#include "engine/base/vec.h"
#include "engine/grammar/program.h"

enum { STACK_BOTTOM = 0, STACK_MAX_PLACES = 4096, STACK_MAX_FRAMES = 1 << 20 };

#define FRAME_FREE UINT32_MAX /* as need: never met in this walk; as room: without end */

struct frame {
    uint32_t below, pc;  /* pc: where to go on, or the CODE_REPEAT */
    uint32_t need, room; /* room 0: a call */
};

struct place {
    uint32_t pc, stack;
};

struct place_set {
    VEC(struct place) place; /* sorted, each once */
    bool ends;               /* the text may end here */
    bool overflowed;         /* ways were left out for want of room */
};

struct stack {
    const struct grammar *g; /* borrowed */
    VEC(struct frame) frame; /* frame[0] is the bottom */
    uint32_t *slot;          /* owned; by content, number; 0 is empty */
    uint32_t n_slot;
    VEC(struct place) todo, found; /* of a closure */
    uint64_t *seen;                /* owned; of a closure: place and round */
    uint32_t *seen_round, n_seen, round;
};

void stack_init(struct stack *s, const struct grammar *g);
void stack_release(struct stack *s);
void stack_cut(struct stack *s, uint32_t n_frame); /* those made later are forgotten */

void stack_copy(struct stack *to, const struct stack *from); /* of one program, `to` fresh */

/* Frames are numbered anew: frame i becomes number[i], or goes where that has STACK_DROP. */
#define STACK_DROP 0x80000000u
void stack_keep(struct stack *s, const uint32_t *number);

/* The number of a frame; STACK_BOTTOM with *overflowed when there are too many. */
uint32_t stack_push(struct stack *s, struct frame f, bool *overflowed);

void place_set_release(struct place_set *p);
void place_set_copy(struct place_set *to, const struct place_set *from);

/* All places that are reached from these without a byte; `out` may not be what `from` lies in. */
void stack_close(struct stack *s, const struct place *from, size_t n, struct place_set *out);
/* The places behind a byte; none: it does not match. */
void stack_step(struct stack *s, const struct place_set *from, uint8_t byte, struct place_set *out);

#endif
