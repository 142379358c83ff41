/* SPDX-License-Identifier: Apache-2.0
 *
 * The share is an integral: every call first settles what has passed since the one before.
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

static void settle(struct gate_meter *m, int64_t now_us)
{
    double passed = (double)(now_us - m->now_us);
    m->now_us = now_us;
    if (!m->n_active)
        return;
    m->credit_us += passed * m->policy.share;
    if (m->is_training)
        m->credit_us -= passed;
    m->credit_us = at_most(m->credit_us, GATE_TURN_US);
}

void gate_meter_init(struct gate_meter *m, struct gate_policy policy, int64_t now_us)
{
    *m = (struct gate_meter){.policy = policy, .now_us = now_us};
}

void gate_meter_active(struct gate_meter *m, int change, int64_t now_us)
{
    settle(m, now_us);
    m->n_active += change;
    if (!m->n_active)
        m->give_us = 0;
}

void gate_meter_served(struct gate_meter *m, int64_t ask_us, int64_t take_us, int64_t now_us)
{
    settle(m, now_us);
    int64_t begin_us = m->give_us ? m->give_us : take_us;
    int64_t wait_us = take_us - (ask_us > begin_us ? ask_us : begin_us);
    double step = (double)(now_us - begin_us - wait_us);
    m->step_us = at_least(step, m->step_us + (step - m->step_us) / 8);
    m->give_us = now_us;
}

/* How long a turn may last while serving waits. */
static double allowance(const struct gate_meter *m)
{
    if (!m->policy.latency_us)
        return m->credit_us;
    int n = m->n_active ? m->n_active : 1; /* each server's next step waits for all the others */
    return (double)m->policy.latency_us / n - m->step_us;
}

bool gate_meter_may_begin(struct gate_meter *m, int64_t now_us, int64_t *ask_us)
{
    settle(m, now_us);
    *ask_us = -1;
    if (!m->n_active)
        return true;
    if (m->policy.latency_us) /* without a step there is nothing to go by yet */
        return m->give_us && allowance(m) >= at_least(m->op_us, 1);
    if (m->credit_us > 0)
        return true;
    if (m->policy.share > 0)
        *ask_us = (int64_t)(-m->credit_us / m->policy.share) + 1;
    return false;
}

void gate_meter_begin(struct gate_meter *m, int64_t now_us)
{
    settle(m, now_us);
    m->is_training = true;
    m->turn_us = m->mark_us = now_us;
}

void gate_meter_op(struct gate_meter *m, int64_t now_us)
{
    settle(m, now_us);
    m->op_us = at_least((double)(now_us - m->mark_us), m->op_us * 0.98);
    m->mark_us = now_us;
}

bool gate_meter_may_go_on(const struct gate_meter *m, bool is_waited_for)
{
    if (!m->n_active)
        return true;
    double turn = (double)(m->now_us - m->turn_us);
    if (m->policy.latency_us)
        return !is_waited_for || turn + m->op_us <= allowance(m);
    return m->credit_us > 0 && (!is_waited_for || turn < GATE_TURN_US);
}

void gate_meter_end(struct gate_meter *m, int64_t now_us)
{
    settle(m, now_us);
    m->is_training = false;
}
