/* SPDX-License-Identifier: Apache-2.0
 *
 * Every figure is an integral: each call first settles what has passed since the one before. The
 * settled time belongs to one state, since each change of state is a call.
 */
#include "engine/base/gate_meter.h"

static double at_most(double a, double b)
{
    return a < b ? a : b;
}

static double at_least(double a, double b)
{
    return a > b ? a : b;
}

static bool has_target(const struct gate_meter *m)
{
    return m->policy.latency_us > 0;
}

static bool is_idle(const struct gate_meter *m)
{
    return !m->n_active && !m->n_want;
}

/* Of busy time, what training gets whatever a step takes. */
static double share_of(const struct gate_meter *m)
{
    double share = has_target(m) ? at_most(m->policy.share, GATE_SHARE_MISSED) : m->policy.share;
    return at_most(at_least(share, m->policy.floor), GATE_SHARE_MAX);
}

static double turn_of(const struct gate_meter *m, double share)
{
    return m->mean_us * share / (1 - share);
}

/* What a turn behind every step takes to come to the share; to the floor however long that is. */
static double share_turn(const struct gate_meter *m)
{
    double share = share_of(m), turn = at_most(turn_of(m, share), GATE_TURN_MAX_US);
    turn = at_least(turn, turn_of(m, at_most(m->policy.floor, GATE_SHARE_MAX)));
    return share > 0 ? at_least(turn, GATE_TURN_MIN_US) : 0;
}

/* What the target leaves. Each server's next step waits for the others'; without a step there is
 * nothing to go by yet. */
static double target_turn(const struct gate_meter *m)
{
    int n = m->n_active ? m->n_active : 1;
    return has_target(m) && m->give_us ? (double)m->policy.latency_us / n - m->long_us : 0;
}

void gate_meter_init(struct gate_meter *m, struct gate_policy policy, int64_t now_us)
{
    *m = (struct gate_meter){.policy = policy, .now_us = now_us};
}

void gate_meter_settle(struct gate_meter *m, int64_t now_us)
{
    int64_t passed = now_us - m->now_us;
    bool is_training = m->is_held && m->holder == GATE_TRAIN;
    bool is_serving = m->is_held && m->holder == GATE_SERVE;
    m->now_us = now_us;
    if (is_idle(m)) {
        m->idle_us += passed;
        m->idle_used_us += is_training ? passed : 0;
        return;
    }
    m->busy_us += passed;
    m->busy_used_us += is_training ? passed : 0;
    m->wait_us += m->n_want && !is_serving ? passed : 0;
    m->credit_us += (double)passed * share_of(m);
    if (is_training && (double)m->wait_us > target_turn(m))
        m->credit_us -= (double)passed;
    m->credit_us = at_most(m->credit_us, 2 * share_turn(m));
}

void gate_meter_active(struct gate_meter *m, int change, int64_t now_us)
{
    gate_meter_settle(m, now_us);
    m->n_active += change;
    if (!m->n_active)
        m->give_us = 0;
}

void gate_meter_want(struct gate_meter *m, int64_t now_us)
{
    gate_meter_settle(m, now_us);
    m->n_want++;
}

void gate_meter_begin(struct gate_meter *m, enum gate_class class, int64_t now_us)
{
    gate_meter_settle(m, now_us);
    m->is_held = true;
    m->holder = class;
    m->begin_us = now_us;
}

static void saw_step(struct gate_meter *m, int64_t now_us)
{
    double step = (double)(now_us - m->begin_us);
    double cycle = m->give_us ? (double)(now_us - m->give_us - m->wait_us) : step;
    m->mean_us += (cycle - m->mean_us) / (m->mean_us > 0 ? 8 : 1);
    m->long_us = at_least(cycle, m->long_us + (cycle - m->long_us) / 32);
    m->give_us = now_us;
    m->wait_us = 0;
}

void gate_meter_end(struct gate_meter *m, int64_t now_us)
{
    gate_meter_settle(m, now_us);
    m->is_held = false;
    if (m->holder == GATE_TRAIN)
        return;
    m->n_want--;
    saw_step(m, now_us);
}

bool gate_meter_may_begin(const struct gate_meter *m)
{
    double turn = share_turn(m);
    if (is_idle(m))
        return true;
    return m->n_want && (target_turn(m) >= GATE_PIECE_MIN_US ||
                         (turn > 0 && m->credit_us >= at_least(turn / 2, GATE_TURN_MIN_US)));
}

/* What is left of the present turn. It may be longer than its share for what others left unused. */
static double left(const struct gate_meter *m)
{
    double turn = share_turn(m), over = at_least(turn / 4, GATE_TURN_MIN_US);
    double by_share = turn > 0 ? at_most(turn + over - (double)m->wait_us, m->credit_us) : 0;
    return at_least(by_share, target_turn(m) - (double)m->wait_us);
}

bool gate_meter_may_go_on(const struct gate_meter *m)
{
    return is_idle(m) || left(m) >= GATE_PIECE_MIN_US;
}

int64_t gate_meter_piece_us(const struct gate_meter *m)
{
    if (is_idle(m))
        return GATE_PIECE_US;
    return (int64_t)at_least(at_most(left(m), GATE_PIECE_US), GATE_PIECE_MIN_US);
}
