/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults it can catch: a task that runs twice, never, or beside its neighbour in a lane of one;
 * work that outlives its owner, or that is neither run nor dropped at a stop; room that is never
 * given back, or taken past its bound; a stop that waits for a task's next turn.
 */
#include "engine/base/background.h"

#include <pthread.h>
#include <stdatomic.h>

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
    return background_give(b, lane, &(struct background_task){run, drop, NULL, bytes}, e);
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
    const struct background_task late = {run_late, drop, NULL, 0};
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

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(each_runs_once), CASE(bytes_are_counted),
                                       CASE(lanes_run_side_by_side), CASE(runs_again),
                                       CASE(stop_joins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
