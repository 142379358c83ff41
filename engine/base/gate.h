/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate: who has entered may use the compute threads. Serving enters it for a step. Training
 * enters it for pieces of work, and asks between two of them whether it may go on:
 *
 *     gate_enter(g, GATE_TRAIN);
 *     for each piece { run it; gate_go_on(g); }
 *     gate_leave(g, GATE_TRAIN);
 *
 * While a server waits, training goes on only as long as the policy (engine/base/gate_meter.h) lets
 * it, and does not begin again before that server's step: so a server waits for one turn at most,
 * and past the policy's bound for the piece at hand. Behind a step, training that is allowed a turn
 * goes before the next server, so that several busy servers do not shut it out. Within a class the
 * gate is first come, first served. Of several trainings each has it for GATE_EACH_US at most
 * before it is the next one's turn: so one of long steps does not hold up one of short steps.
 *
 * Thread: any. A thread that is in the gate must not enter it again.
 */
#ifndef ENGINE_BASE_GATE_H
#define ENGINE_BASE_GATE_H

#include <stdint.h>

#include "engine/base/gate_meter.h"

enum { GATE_EACH_US = 20000 }; /* long beside what a change of hands costs in caches */

struct gate_stat {
    struct {
        uint64_t n_take;
        int64_t held_us, wait_us, wait_max_us; /* held: with the present hold */
        int64_t n_wait;                        /* now */
    } of[GATE_CLASS_COUNT];
    uint64_t n_yield;     /* times that training had to give it to serving between two pieces */
    int64_t piece_max_us; /* training's longest piece */
    int64_t idle_us, idle_used_us, busy_us, busy_used_us; /* as the meter's */
    struct gate_policy policy;
};

struct gate;

struct gate *gate_new(struct gate_policy policy);
void gate_free(struct gate *g); /* nobody holds it or waits */

void gate_enter(struct gate *g, enum gate_class class);
void gate_leave(struct gate *g, enum gate_class class);

/* Training, behind a piece: stays in the gate, or leaves and enters it, where serving or another
 * training is to have it. Returns how many microseconds the next piece may take. */
int64_t gate_go_on(struct gate *g);

/* A server begins (+1) or ends (-1) having work; between, the policy bounds training. */
void gate_active(struct gate *g, int change);

void gate_policy_set(struct gate *g, struct gate_policy policy);
struct gate_stat gate_stat(struct gate *g);

#endif
