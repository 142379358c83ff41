/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy in made-up time: a server that always has work, and a job that always has ops.
 */
#include "tests/lib/test.h"

#include <math.h>

#include "engine/base/gate_meter.h"

struct world {
    int64_t step_us, gap_us, op_us; /* a serving step, the time after it, an op of training */
    int64_t train_us, wait_max_us;  /* found: held by training, longest wait of a step */
    int64_t cycle_max_us;           /* found: from the end of a step to the end of the next */
    int64_t now_us;
};

/* A turn that begins after a step; the server waits for the gate from ask_us on. */
static void turn(struct gate_meter *m, struct world *w, int64_t ask_us)
{
    int64_t ignored, begin = w->now_us;
    if (!gate_meter_may_begin(m, w->now_us, &ignored))
        return;
    gate_meter_begin(m, w->now_us);
    do {
        w->now_us += w->op_us;
        gate_meter_op(m, w->now_us);
    } while (gate_meter_may_go_on(m, w->now_us >= ask_us));
    gate_meter_end(m, w->now_us);
    w->train_us += w->now_us - begin;
}

static double simulate(struct gate_meter *m, struct world *w, int64_t for_us)
{
    int64_t begin = w->now_us, last = 0;
    gate_meter_active(m, 1, w->now_us);
    while (w->now_us - begin < for_us) {
        int64_t ask = w->now_us + w->gap_us;
        turn(m, w, ask);
        if (w->now_us < ask)
            w->now_us = ask;
        int64_t take = w->now_us;
        w->now_us += w->step_us;
        gate_meter_served(m, ask, take, w->now_us);
        if (take - ask > w->wait_max_us)
            w->wait_max_us = take - ask;
        if (last && w->now_us - last > w->cycle_max_us)
            w->cycle_max_us = w->now_us - last;
        last = w->now_us;
    }
    gate_meter_active(m, -1, w->now_us);
    return (double)w->train_us / (double)(w->now_us - begin);
}

/* Fault: training gets more or less than its share, whatever the lengths of ops and steps. */
static void share_is_kept(void **state)
{
    (void)state;
    static const double share[] = {0, 0.02, 0.1, 0.2};
    static const int64_t op[] = {50, 300, 3000, 12000};
    for (size_t s = 0; s < 4; s++) {
        for (size_t o = 0; o < 4; o++) {
            struct gate_meter m;
            struct world w = {.step_us = 10000, .gap_us = 50, .op_us = op[o], .now_us = 1};
            gate_meter_init(&m, (struct gate_policy){.share = share[s]}, 0);
            double have = simulate(&m, &w, 20000000);
            assert_true(fabs(have - share[s]) < 0.01);
            assert_true(w.wait_max_us <= GATE_TURN_US + op[o]);
        }
    }
}

/* Fault: a share that cannot be had by one turn per step lets a turn last for ever. */
static void large_share_still_alternates(void **state)
{
    (void)state;
    struct gate_meter m;
    struct world w = {.step_us = 10000, .gap_us = 50, .op_us = 500, .now_us = 1};
    gate_meter_init(&m, (struct gate_policy){.share = 1}, 0);
    double have = simulate(&m, &w, 20000000);
    assert_true(w.wait_max_us <= GATE_TURN_US + 500);
    assert_true(have > 0.25 && have < 0.35);
}

/* Fault: a job that was quiet for long saves up, and then takes far more than its share. */
static void share_is_not_saved_up(void **state)
{
    (void)state;
    struct gate_meter m;
    struct world w = {.step_us = 1000, .gap_us = 50, .op_us = 300, .now_us = 60000000};
    gate_meter_init(&m, (struct gate_policy){.share = 0.1}, 0);
    gate_meter_active(&m, 1, 0); /* a minute of serving without an op of training */
    simulate(&m, &w, 100000);
    assert_true(w.train_us < 100000 / 10 + GATE_TURN_US + 300);
}

/* Fault: the target is passed, or what it leaves is not used. */
static void latency_target_is_filled_and_kept(void **state)
{
    (void)state;
    struct gate_meter m;
    struct world w = {.step_us = 10000, .gap_us = 50, .op_us = 3000, .now_us = 1};
    gate_meter_init(&m, (struct gate_policy){.latency_us = 50000}, 0);
    double have = simulate(&m, &w, 20000000);
    assert_true(w.cycle_max_us <= 50000);
    assert_true(have > 0.7);
}

/* Fault: a target that serving alone misses is made worse by training. */
static void missed_target_shuts_training_out(void **state)
{
    (void)state;
    struct gate_meter m;
    struct world w = {.step_us = 10000, .gap_us = 50, .op_us = 1000, .now_us = 1};
    gate_meter_init(&m, (struct gate_policy){.latency_us = 10500}, 0);
    assert_true(simulate(&m, &w, 20000000) < 0.001); /* the first turn does not know its op */
}

/* Faults: training held back while nobody is served; credit saved up in that time. */
static void idle_server_leaves_all(void **state)
{
    (void)state;
    struct gate_meter m;
    int64_t ask;
    gate_meter_init(&m, (struct gate_policy){.share = 0}, 0);
    assert_true(gate_meter_may_begin(&m, 10, &ask));
    gate_meter_begin(&m, 10);
    gate_meter_op(&m, 50000);
    assert_true(gate_meter_may_go_on(&m, false));
    gate_meter_active(&m, 1, 60000);
    gate_meter_op(&m, 70000);
    assert_false(gate_meter_may_go_on(&m, false));
    gate_meter_end(&m, 70000);
    assert_false(gate_meter_may_begin(&m, 80000, &ask));
    assert_int_equal(ask, -1);
}

/* Fault: training asks again too early, for ever, or never. */
static void tells_when_to_ask_again(void **state)
{
    (void)state;
    struct gate_meter m;
    int64_t ask;
    gate_meter_init(&m, (struct gate_policy){.share = 0.1}, 0);
    gate_meter_active(&m, 1, 0);
    gate_meter_begin(&m, 0);
    gate_meter_op(&m, 1000);
    gate_meter_end(&m, 1000);
    assert_false(gate_meter_may_begin(&m, 1000, &ask));
    assert_in_range(ask, 8990, 9010); /* owes 900 us and earns 0.1 per us */
    assert_true(gate_meter_may_begin(&m, 1000 + ask, &ask));
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(share_is_kept),
        cmocka_unit_test(large_share_still_alternates),
        cmocka_unit_test(share_is_not_saved_up),
        cmocka_unit_test(latency_target_is_filled_and_kept),
        cmocka_unit_test(missed_target_shuts_training_out),
        cmocka_unit_test(idle_server_leaves_all),
        cmocka_unit_test(tells_when_to_ask_again),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
