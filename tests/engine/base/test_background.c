/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults it can catch: a task that runs twice, never, or beside its neighbour in a lane of one;
 * work that outlives its owner, or that is neither run nor dropped at a stop; room that is never
 * given back, or taken past its bound; a stop that waits for a task's next turn; a tenant whose
 * many tasks make others wait, by their place in the line or by the lane's room; a weight that is
 * nobody's; a task that loses its turn because what it waits for was not there.
 */
#include "engine/base/background.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/base/clock.h"
#include "tests/lib/test.h"

enum { ONE, MANY };

static const struct background_lane lanes[] = {{"one", 1, 4, 0}, {"many", 3, 0, 100}};

struct probe {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int n_run, n_drop, n_now, most_now, turns;
    bool is_open; /* tasks may end */
};

static struct background *b;
static struct probe p;

static int setup(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    p = (struct probe){.is_open = true};
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.moved, NULL);
    b = background_new(lanes, 2, &e);
    assert_non_null(b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    background_free(b);
    pthread_cond_destroy(&p.moved);
    pthread_mutex_destroy(&p.lock);
    return 0;
}

static int64_t run(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&p.lock);
    p.n_now++;
    p.most_now = p.n_now > p.most_now ? p.n_now : p.most_now;
    pthread_cond_broadcast(&p.moved);
    while (!p.is_open)
        pthread_cond_wait(&p.moved, &p.lock);
    p.n_now--;
    p.n_run++;
    bool again = p.turns > 0 && p.turns-- > 0;
    pthread_cond_broadcast(&p.moved);
    pthread_mutex_unlock(&p.lock);
    return again ? clock_us() : BACKGROUND_DONE;
}

static int64_t run_late(void *ctx)
{
    run(ctx);
    return clock_us() + (int64_t)3600 * 1000 * 1000;
}

static void drop(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&p.lock);
    p.n_drop++;
    pthread_mutex_unlock(&p.lock);
}

static void hold(bool is_open)
{
    pthread_mutex_lock(&p.lock);
    p.is_open = is_open;
    pthread_cond_broadcast(&p.moved);
    pthread_mutex_unlock(&p.lock);
}

static void until(const int *what, int n)
{
    pthread_mutex_lock(&p.lock);
    while (*what < n)
        pthread_cond_wait(&p.moved, &p.lock);
    pthread_mutex_unlock(&p.lock);
}

static int give(size_t lane, size_t bytes, struct err *e)
{
    return background_give(b, lane,
                           &(struct background_task){.run = run, .drop = drop, .bytes = bytes}, e);
}

static void each_runs_once(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    hold(false);
    for (int i = 0; i < 4; i++)
        assert_good(give(ONE, 0, &e), &e);
    until(&p.n_now, 1);
    assert_err(give(ONE, 0, &e), &e, ERR_BUSY, "one");
    hold(true);
    until(&p.n_run, 4);
    background_stop(b);
    assert_int_equal(p.n_run, 4);
    assert_int_equal(p.most_now, 1);
    assert_int_equal(p.n_drop, 0);
}

static void bytes_are_counted(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    hold(false);
    assert_good(give(MANY, 1000, &e), &e); /* alone anything may come */
    assert_err(give(MANY, 1, &e), &e, ERR_BUSY, "many");
    hold(true);
    until(&p.n_run, 1);
    while (give(MANY, 60, &e)) /* the room comes back behind the run */
        e = (struct err)ERR_INIT;
    hold(false);
    until(&p.n_run, 1);
    hold(true);
    background_stop(b);
    assert_int_equal(p.n_run + p.n_drop, 2);
}

static void lanes_run_side_by_side(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    hold(false);
    for (int i = 0; i < 3; i++)
        assert_good(give(MANY, 1, &e), &e);
    assert_good(give(ONE, 0, &e), &e);
    until(&p.most_now, 4);
    hold(true);
    until(&p.n_run, 4);
}

static void runs_again(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    p.turns = 5;
    assert_good(give(ONE, 0, &e), &e);
    until(&p.n_run, 6);
    const struct background_task late = {.run = run_late, .drop = drop};
    assert_good(background_give(b, ONE, &late, &e), &e);
    until(&p.n_run, 7);
    background_stop(b); /* does not wait an hour */
    assert_int_equal(p.n_run, 7);
    assert_int_equal(p.n_drop, 1);
}

static void *let_go(void *ctx)
{
    (void)ctx;
    until(&p.n_now, 1);
    hold(true);
    return NULL;
}

/* What runs comes to its end before the stop returns; what waits is dropped; nothing is taken. */
static void stop_joins(void **state)
{
    struct err e = ERR_INIT;
    pthread_t other;
    (void)state;
    hold(false);
    for (int i = 0; i < 3; i++)
        assert_good(give(ONE, 0, &e), &e);
    until(&p.n_now, 1);
    assert_int_equal(pthread_create(&other, NULL, let_go, NULL), 0);
    background_stop(b);
    pthread_join(other, NULL);
    assert_true(p.n_run >= 1);
    assert_int_equal(p.n_now, 0);
    assert_int_equal(p.n_run + p.n_drop, 3);
    assert_err(give(ONE, 0, &e), &e, ERR_BUSY, "stopping");
    background_stop(b);
}

/* ---- turns -------------------------------------------------------------------------------------
 */

enum { MARKS = 64 };

static char order[MARKS]; /* under p.lock: whose tasks ran */

struct mark {
    char of;
    int refusals; /* so often it finds nothing */
};

static int64_t run_mark(void *ctx)
{
    struct mark *m = ctx;
    if (m->refusals > 0) {
        m->refusals--;
        return clock_us();
    }
    pthread_mutex_lock(&p.lock);
    order[p.n_run++] = m->of;
    pthread_cond_broadcast(&p.moved);
    pthread_mutex_unlock(&p.lock);
    return BACKGROUND_DONE;
}

static void give_mark(struct mark *m, int32_t weight, bool keeps_turn)
{
    struct err e = ERR_INIT;
    const struct background_task t = {.run = run_mark,
                                      .drop = drop,
                                      .ctx = m,
                                      .tenant = (uint64_t)m->of,
                                      .weight = weight,
                                      .keeps_turn = keeps_turn};
    assert_good(background_give(b, MANY, &t, &e), &e);
}

/* Lanes of one thread each, of which one is held by a task of nobody's. */
static void lanes_of_one(void **state)
{
    const struct background_lane one[] = {{"one", 1, 0, 0}, {"many", 1, 0, 0}};
    struct err e = ERR_INIT;
    (void)state;
    background_free(b);
    b = background_new(one, 2, &e);
    assert_non_null(b);
    hold(false);
    assert_good(give(MANY, 1, &e), &e);
    until(&p.n_now, 1);
}

static void let_run(int n)
{
    pthread_mutex_lock(&p.lock);
    p.n_run = -1; /* the one that held it */
    memset(order, 0, sizeof order);
    pthread_mutex_unlock(&p.lock);
    hold(true);
    until(&p.n_run, n);
}

/* Of two tenants each has every other turn, whoever came first with however many. */
static void tenants_take_turns(void **state)
{
    struct mark a = {.of = 'a'}, c = {.of = 'c'};
    lanes_of_one(state);
    for (int i = 0; i < 8; i++)
        give_mark(&a, 1, false);
    for (int i = 0; i < 3; i++)
        give_mark(&c, 1, false);
    let_run(11);
    assert_string_equal(order, "acacacaaaaa");
}

static void turns_are_by_weight(void **state)
{
    struct mark a = {.of = 'a'}, c = {.of = 'c'};
    lanes_of_one(state);
    for (int i = 0; i < 3; i++)
        give_mark(&a, 1, false);
    for (int i = 0; i < 8; i++)
        give_mark(&c, 4, false);
    let_run(11);
    assert_string_equal(order, "cccaccccaca");
}

/* What is asked again and again keeps its place, and its tenant the turn, until there is something.
 */
static void who_gets_nothing_is_next(void **state)
{
    struct mark a = {.of = 'a'}, c = {.of = 'c'}, late = {.of = 'a', .refusals = 3};
    lanes_of_one(state);
    give_mark(&late, 1, true);
    for (int i = 0; i < 2; i++)
        give_mark(&a, 1, true);
    for (int i = 0; i < 3; i++)
        give_mark(&c, 1, true);
    let_run(6);
    assert_string_equal(order, "acacac");
}

/* Nobody's tasks may have all of the room, a tenant's half. */
static void room_is_shared(void **state)
{
    struct err e = ERR_INIT;
    struct background_task t = {.run = run, .drop = drop, .tenant = 1};
    (void)state;
    hold(false);
    assert_good(background_give(b, ONE, &t, &e), &e);
    assert_good(background_give(b, ONE, &t, &e), &e);
    assert_err(background_give(b, ONE, &t, &e), &e, ERR_BUSY, "yours");
    e = (struct err)ERR_INIT;
    t.tenant = 2;
    assert_good(background_give(b, ONE, &t, &e), &e);
    assert_good(background_give(b, ONE, &t, &e), &e);
    t.tenant = 3;
    assert_err(background_give(b, ONE, &t, &e), &e, ERR_BUSY, "4 tasks");
    e = (struct err)ERR_INIT;
    hold(true);
    until(&p.n_run, 4);
    t.tenant = 1;
    while (background_give(b, ONE, &t, &e)) /* the room comes back behind the run */
        e = (struct err)ERR_INIT;
    until(&p.n_run, 5);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(each_runs_once),
                                       CASE(bytes_are_counted),
                                       CASE(lanes_run_side_by_side),
                                       CASE(runs_again),
                                       CASE(stop_joins),
                                       CASE(tenants_take_turns),
                                       CASE(turns_are_by_weight),
                                       CASE(who_gets_nothing_is_next),
                                       CASE(room_is_shared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
