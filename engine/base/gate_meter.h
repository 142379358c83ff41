/* SPDX-License-Identifier: Apache-2.0
 *
 * What the gate's policy knows and decides, as arithmetic on times that it is told: no lock, no
 * clock, so that it can be tested in made-up time.
 *
 * While no server is active, training may take all. While one is, either
 * - a share: training earns `share` of the time that passes, and spends what it holds the gate;
 *   what it has not spent is kept up to one turn (GATE_TURN_US), so that a quiet job cannot save
 *   up for a long stall; what it overspends it waits for. A turn that serving waits for ends with
 *   the first op past GATE_TURN_US even where the share would allow more; or
 * - a latency target: a turn of training lasts at most what a serving step leaves of latency_us,
 *   and does not begin, or go on, when the longest recent op would not fit.
 *
 * Thread: one at a time (the gate's lock).
 */
#ifndef ENGINE_BASE_GATE_METER_H
#define ENGINE_BASE_GATE_METER_H

#include <stdbool.h>
#include <stdint.h>

struct gate_policy {
    double share;       /* 0 to 1: the part of busy time that training may take */
    int64_t latency_us; /* above 0: the target between two serving steps, instead of the share */
};

enum { GATE_TURN_US = 4000 };

struct gate_meter {
    struct gate_policy policy;
    int64_t now_us;
    int n_active;     /* servers with work */
    bool is_training; /* training holds the gate */

    double credit_us;         /* share: what training may spend; below 0: owes */
    double step_us;           /* latency: from a serving step's end to the next's, without waits */
    double op_us;             /* longest recent op of training */
    int64_t turn_us, mark_us; /* begin of the turn, and of the op in it */
    int64_t give_us;          /* when serving last gave the gate back; 0: not since it is active */
};

void gate_meter_init(struct gate_meter *m, struct gate_policy policy, int64_t now_us);
void gate_meter_active(struct gate_meter *m, int change, int64_t now_us);

/* Serving asked for the gate at ask_us, had it at take_us, and gave it back now. */
void gate_meter_served(struct gate_meter *m, int64_t ask_us, int64_t take_us, int64_t now_us);

/* Whether training may begin a turn, and when not, after how many microseconds it should ask
 * again; -1: after the next serving step. */
bool gate_meter_may_begin(struct gate_meter *m, int64_t now_us, int64_t *ask_us);

void gate_meter_begin(struct gate_meter *m, int64_t now_us);
void gate_meter_op(struct gate_meter *m, int64_t now_us); /* an op of the turn ended */
bool gate_meter_may_go_on(const struct gate_meter *m, bool is_waited_for); /* after an op */
void gate_meter_end(struct gate_meter *m, int64_t now_us);

#endif
