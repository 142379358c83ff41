/* SPDX-License-Identifier: Apache-2.0
 *
 * What the gate's policy knows and decides, as arithmetic on times that it is told: no lock, no
 * clock, so that it can be tested in made-up time.
 *
 * Time in which no server has work is idle, and training's for nothing. Of the rest, the busy time,
 * training gets
 * - a share: it earns `share` of busy time and pays for busy time in which it holds the gate. When
 *   a server asks for its next step it may be let wait for a turn, so long that turns before every
 *   step come to the share: a stream's tokens all come later by the same part, instead of a few by
 *   much. Where that is too short to be worth a change of hands, turns of GATE_TURN_MIN_US come
 *   before some of the steps. What is earned and not spent is kept for two turns, so that a quiet
 *   job cannot save up; a turn may be longer by a quarter for it, so that what was too short for
 *   another piece is not lost; or
 * - with a latency target, what the longest recent step leaves of it, and where it leaves nothing
 *   the share, but no more than GATE_SHARE_MISSED of it: so that a job ends some day.
 *
 * The floor is the least that either may come to, earned and spent as a share is: so that a job
 * ends under load, too.
 *
 * Between two steps, while a server tells its answers and makes up the next step, training does
 * not begin: the server needs a core for that, and training would take it. A turn that begins when
 * the server asks keeps nobody from work but by the gate.
 *
 * Training is given its time in pieces, behind each of which it asks again. A piece is no longer
 * than what is left of the turn; without a server it is as long as a request that comes may wait.
 *
 * Thread: one at a time (the gate's lock).
 */
#ifndef ENGINE_BASE_GATE_METER_H
#define ENGINE_BASE_GATE_METER_H

#include <stdbool.h>
#include <stdint.h>

enum gate_class { GATE_SERVE, GATE_TRAIN, GATE_CLASS_COUNT };

struct gate_policy {
    double share;       /* 0 to GATE_SHARE_MAX: the part of busy time that training may take */
    int64_t latency_us; /* above 0: the target between two steps, instead of the share */
    double floor;       /* 0 to GATE_SHARE_MAX: the part that it gets whatever these come to */
};

#define GATE_SHARE_MAX    0.9
#define GATE_SHARE_MISSED 0.01

enum {
    GATE_PIECE_US = 1000,   /* the longest piece */
    GATE_PIECE_MIN_US = 60, /* shorter ones cost more than they bring */
    GATE_TURN_MIN_US = 100,
    GATE_TURN_MAX_US = 100000
};

struct gate_meter {
    struct gate_policy policy;
    int64_t now_us;
    int n_active, n_want; /* servers with work; of these, those that have the gate or ask for it */
    bool is_held;
    enum gate_class holder;

    double credit_us; /* what training has earned and not spent */
    double mean_us;   /* from one step's end to the next's, without waits, of late */
    double long_us;   /* the longest of these, of late */
    int64_t wait_us;  /* what servers have waited since the last step began */
    int64_t begin_us; /* of the present hold */
    int64_t give_us;  /* when serving last gave the gate back; 0: not since it is active */

    int64_t idle_us, idle_used_us, busy_us, busy_used_us; /* used: by training */
};

void gate_meter_init(struct gate_meter *m, struct gate_policy policy, int64_t now_us);
void gate_meter_settle(struct gate_meter *m, int64_t now_us); /* brings all figures up to now */

void gate_meter_active(struct gate_meter *m, int change, int64_t now_us);
void gate_meter_want(struct gate_meter *m, int64_t now_us); /* a server asks */
void gate_meter_begin(struct gate_meter *m, enum gate_class class, int64_t now_us);
void gate_meter_end(struct gate_meter *m, int64_t now_us); /* of the present hold */

/* Whether training may begin, while nobody holds the gate. No stays no until a server gives the
 * gate back, or is not active any more. */
bool gate_meter_may_begin(const struct gate_meter *m);

/* Whether training may keep the gate for another piece. */
bool gate_meter_may_go_on(const struct gate_meter *m);

int64_t gate_meter_piece_us(const struct gate_meter *m); /* how long the next piece may be */

#endif
