/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate between real threads; its policy is tested in test_gate_meter.c.
 */
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/gate.h"

enum { LONG = 300000 }; /* rounds of a tenth of a millisecond, or more, for a thread to come */

struct scene {
    struct gate *g;
    _Atomic int n_inside, n_bad, n_served;
    _Atomic bool stop;
    _Atomic int64_t n_op;
    int64_t op_us;
};

static void inside(struct scene *s, int64_t us)
{
    if (atomic_fetch_add(&s->n_inside, 1))
        atomic_fetch_add(&s->n_bad, 1);
    s->n_op++;
    for (int64_t end = clock_us() + us; clock_us() < end;)
        ;
    atomic_fetch_sub(&s->n_inside, 1);
}

static void *trainer(void *arg)
{
    struct scene *s = arg;
    while (!atomic_load(&s->stop)) {
        gate_enter(s->g, GATE_TRAIN);
        for (int i = 0; i < 20 && !atomic_load(&s->stop); i++) {
            inside(s, s->op_us);
            gate_go_on(s->g);
        }
        gate_leave(s->g, GATE_TRAIN);
    }
    return NULL;
}

static void *server(void *arg)
{
    struct scene *s = arg;
    gate_active(s->g, 1);
    for (int i = 0; i < 300 || (gate_stat(s->g).of[GATE_TRAIN].n_take < 2 && i < LONG); i++) {
        gate_enter(s->g, GATE_SERVE);
        inside(s, 100);
        gate_leave(s->g, GATE_SERVE);
        s->n_served++;
    }
    gate_active(s->g, -1);
    return NULL;
}

/* Faults: two holders at once; a waiter that nobody wakes; one class shutting the other out. */
static void two_servers_and_a_trainer(void **state)
{
    (void)state;
    struct scene s = {.g = gate_new((struct gate_policy){.share = 0.3}), .op_us = 30};
    pthread_t t, a, b;
    pthread_create(&t, NULL, trainer, &s);
    pthread_create(&a, NULL, server, &s);
    pthread_create(&b, NULL, server, &s);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    struct gate_stat stat = gate_stat(s.g);
    assert_int_equal(stat.of[GATE_SERVE].n_take, s.n_served);
    assert_true(stat.of[GATE_SERVE].held_us >= 600 * 100);
    assert_true(stat.of[GATE_TRAIN].n_take > 1);
    atomic_store(&s.stop, true);
    pthread_join(t, NULL);
    assert_int_equal(s.n_bad, 0);
    gate_free(s.g);
}

struct guest {
    struct gate *g;
    enum gate_class class;
    char name, *order; /* the gate orders who writes */
};

static void *visit(void *arg)
{
    struct guest *v = arg;
    gate_enter(v->g, v->class);
    v->order[strlen(v->order)] = v->name;
    gate_leave(v->g, v->class);
    return NULL;
}

/* Two wait while this thread holds the gate, for twice as long as the step before, by which
 * training earns its turn; the order in which they come in. */
static void who_is_next(enum gate_class holder, int n_active, const char *want)
{
    char order[4] = "";
    struct gate *g = gate_new((struct gate_policy){.latency_us = INT64_C(1) << 40});
    struct guest guest[2] = {{g, GATE_SERVE, 'S', order}, {g, GATE_TRAIN, 'T', order}};
    pthread_t t[2];
    gate_active(g, n_active);
    gate_enter(g, GATE_SERVE); /* how long is a step? */
    gate_leave(g, GATE_SERVE);
    gate_enter(g, holder);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, visit, &guest[i]);
    while (!gate_stat(g).of[GATE_SERVE].n_wait || !gate_stat(g).of[GATE_TRAIN].n_wait)
        usleep(100);
    gate_leave(g, holder);
    pthread_join(t[0], NULL);
    gate_active(g, -n_active); /* without a step behind it, training might wait for ever */
    pthread_join(t[1], NULL);
    assert_string_equal(order, want);
    gate_free(g);
}

/* Faults: busy servers shut training out of its share; training goes twice before a step. */
static void classes_alternate(void **state)
{
    (void)state;
    who_is_next(GATE_SERVE, 1, "TS");
    who_is_next(GATE_TRAIN, 0, "ST"); /* the policy bounds nothing, the order holds */
}

static int64_t n_waiting(struct gate *g)
{
    return gate_stat(g).of[GATE_TRAIN].n_wait;
}

/* Faults: a training of long steps has the gate to the end of one, whoever waits; it comes back
 * before all who waited had their turn, or never. */
static void trainings_take_turns(void **state)
{
    (void)state;
    char order[4] = "";
    struct gate *g = gate_new((struct gate_policy){.share = 0});
    struct guest guest[2] = {{g, GATE_TRAIN, 'A', order}, {g, GATE_TRAIN, 'B', order}};
    pthread_t t[2];
    gate_enter(g, GATE_TRAIN);
    for (int i = 0; i < 2; i++) {
        pthread_create(&t[i], NULL, visit, &guest[i]);
        while (n_waiting(g) <= i)
            usleep(100);
    }
    for (int i = 0; n_waiting(g) && i < LONG; i++) {
        usleep(100);
        gate_go_on(g); /* the long step's next piece */
    }
    assert_string_equal(order, "AB");
    assert_int_equal(gate_stat(g).n_yield, 0); /* nobody was served */
    gate_leave(g, GATE_TRAIN);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    gate_free(g);
}

/* Fault: training whose share is zero goes on while a server has work, or never comes back. */
static void zero_share_waits_for_idle(void **state)
{
    (void)state;
    struct scene s = {.g = gate_new((struct gate_policy){.share = 0}), .op_us = 50};
    pthread_t t;
    gate_active(s.g, 1);
    pthread_create(&t, NULL, trainer, &s);
    usleep(20000);
    gate_enter(s.g, GATE_SERVE);
    int64_t n_op = s.n_op;
    gate_leave(s.g, GATE_SERVE);
    assert_int_equal(n_op, 0);
    gate_active(s.g, -1);
    for (int i = 0; i < LONG && !n_op; i++) {
        usleep(1000);
        gate_enter(s.g, GATE_SERVE);
        n_op = s.n_op;
        gate_leave(s.g, GATE_SERVE);
    }
    assert_true(n_op > 0);
    atomic_store(&s.stop, true);
    pthread_join(t, NULL);
    gate_free(s.g);
}

/* Fault: a long turn is not cut short when a server comes: it waits for more than the piece at
 * hand, which may not have begun yet. */
static void serving_waits_for_one_piece(void **state)
{
    (void)state;
    struct scene s = {.g = gate_new((struct gate_policy){.share = 0}), .op_us = 200};
    pthread_t t;
    pthread_create(&t, NULL, trainer, &s); /* turns of 20 pieces while nobody is served */
    for (int i = 0; i < 20; i++) {
        int64_t seen = s.n_op;
        while (s.n_op < seen + 3)
            usleep(100);
        gate_active(s.g, 1);
        seen = s.n_op;
        gate_enter(s.g, GATE_SERVE);
        assert_true(s.n_op <= seen + 1);
        gate_leave(s.g, GATE_SERVE);
        gate_active(s.g, -1);
    }
    atomic_store(&s.stop, true);
    pthread_join(t, NULL);
    gate_free(s.g);
}

/* Fault: a changed policy is not seen. */
static void policy_can_change(void **state)
{
    (void)state;
    struct scene s = {.g = gate_new((struct gate_policy){.share = 0}), .op_us = 10};
    pthread_t t;
    gate_active(s.g, 1);
    pthread_create(&t, NULL, trainer, &s);
    usleep(5000);
    gate_policy_set(s.g, (struct gate_policy){.share = 0.5});
    for (int i = 0; i < LONG && !gate_stat(s.g).of[GATE_TRAIN].n_take; i++) {
        gate_enter(s.g, GATE_SERVE);
        usleep(1000); /* which earns it a turn */
        gate_leave(s.g, GATE_SERVE);
    }
    assert_true(gate_stat(s.g).of[GATE_TRAIN].n_take > 0);
    atomic_store(&s.stop, true);
    gate_active(s.g, -1);
    pthread_join(t, NULL);
    gate_free(s.g);
}

/* Faults: a hold that shows in the figures only when it is over; idle time that is not told from
 * busy time; a yield or a piece that nobody counts. */
static void figures_add_up(void **state)
{
    (void)state;
    int64_t begin = clock_us();
    struct gate *g = gate_new((struct gate_policy){.share = 0.2, .latency_us = 5000});
    gate_enter(g, GATE_TRAIN);
    usleep(2000);
    gate_go_on(g);
    usleep(1000);
    struct gate_stat s = gate_stat(g);
    assert_true(s.of[GATE_TRAIN].held_us >= 3000 && s.of[GATE_TRAIN].n_take == 0);
    assert_true(s.idle_used_us >= 3000 && s.idle_used_us <= s.idle_us);
    assert_true(s.piece_max_us >= 2000 && s.n_yield == 0 && s.busy_us == 0);
    assert_true(s.policy.share == 0.2 && s.policy.latency_us == 5000);
    gate_leave(g, GATE_TRAIN);
    gate_enter(g, GATE_SERVE);
    usleep(1000);
    gate_leave(g, GATE_SERVE);
    s = gate_stat(g);
    assert_true(s.busy_us >= 1000 && s.busy_us >= s.of[GATE_SERVE].held_us);
    assert_int_equal(s.busy_used_us, 0);
    assert_true(s.idle_us + s.busy_us <= clock_us() - begin + 1000);
    gate_free(g);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(two_servers_and_a_trainer),
        cmocka_unit_test(classes_alternate),
        cmocka_unit_test(trainings_take_turns),
        cmocka_unit_test(zero_share_waits_for_idle),
        cmocka_unit_test(serving_waits_for_one_piece),
        cmocka_unit_test(policy_can_change),
        cmocka_unit_test(figures_add_up),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
