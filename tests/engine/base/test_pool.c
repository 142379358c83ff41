/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs over compute threads: each unit once, no lost wake, no work when idle.
 */
#include "tests/lib/test.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/machine.h"
#include "engine/base/pool.h"

struct job {
    int64_t n_unit, grain;
    int n_thread;
    _Atomic int *hits;
    _Atomic int n_bad;
};

static void mark(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct job *j = ctx;
    if (lo < 0 || lo >= hi || hi > j->n_unit || thread < 0 || thread >= j->n_thread)
        atomic_fetch_add(&j->n_bad, 1);
    else if (hi - lo < j->grain && hi - lo < j->n_unit)
        atomic_fetch_add(&j->n_bad, 1);
    else
        for (int64_t i = lo; i < hi; i++)
            atomic_fetch_add_explicit(&j->hits[i], 1, memory_order_relaxed);
}

/* Faults: a unit run twice or never; a piece smaller than a grain; a thread index outside the
 * pool. With more threads than CPUs the same holds. */
static void each_unit_once(void **state)
{
    (void)state;
    static const int size[] = {1, 2, 3, 8, 33};
    static const int64_t unit[] = {0, 1, 2, 15, 16, 17, 100, 1000}, grain[] = {1, 2, 7, 64, 5000};
    static _Atomic int hits[1000];
    for (size_t s = 0; s < sizeof size / sizeof *size; s++) {
        struct err e = ERR_INIT;
        struct pool *p = pool_new(size[s], false, &e);
        assert_non_null(p);
        assert_int_equal(pool_size(p), size[s]);
        for (size_t u = 0; u < sizeof unit / sizeof *unit; u++) {
            for (size_t g = 0; g < sizeof grain / sizeof *grain; g++) {
                memset(hits, 0, sizeof hits);
                struct job j = {unit[u], grain[g], size[s], hits, 0};
                pool_run(p, mark, &j, j.n_unit, j.grain);
                assert_int_equal(j.n_bad, 0);
                for (int64_t i = 0; i < 1000; i++)
                    assert_int_equal(hits[i], i < j.n_unit);
            }
        }
        pool_free(p);
    }
}

struct sizes {
    _Atomic int64_t least, most;
    _Atomic int n;
};

static void measure(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct sizes *s = ctx;
    int64_t n = hi - lo;
    (void)thread;
    for (int64_t x = s->least; n < x && !atomic_compare_exchange_weak(&s->least, &x, n);)
        ;
    for (int64_t x = s->most; n > x && !atomic_compare_exchange_weak(&s->most, &x, n);)
        ;
    atomic_fetch_add(&s->n, 1);
}

/* Faults: pieces that differ by more than a unit; one thread with a piece more than the others
 * though the units would do for all. Both hold up every product of a narrow weight. */
static void pieces_are_alike(void **state)
{
    (void)state;
    struct pool *p = pool_new(4, false, NULL);
    for (int64_t n = 4; n < 200; n++) {
        struct sizes s = {INT64_MAX, 0, 0};
        pool_run(p, measure, &s, n, 1);
        assert_true(s.most - s.least <= 1);
        assert_int_equal(s.n % 4, 0);
    }
    pool_free(p);
}

static void add(void *ctx, int64_t lo, int64_t hi, int thread)
{
    int64_t *at = ctx; /* plain memory: the pool alone orders the jobs */
    (void)thread;
    for (int64_t i = lo; i < hi; i++)
        at[i]++;
}

/* Faults: a job that returns before its last piece is done, or a late thread that runs a piece of
 * the job before: under many short jobs, with pauses in which the threads fall asleep. */
static void jobs_follow_each_other(void **state)
{
    (void)state;
    enum { N = 64, N_JOB = 5000 };
    int64_t at[N] = {0};
    struct pool *p = pool_new(4, false, NULL);
    for (int i = 0; i < N_JOB; i++) {
        pool_run(p, add, at, N, 1);
        assert_int_equal(at[i % N], i + 1);
        if (i % 500 == 0)
            usleep(2000);
    }
    pool_free(p);
}

struct count {
    _Atomic int n, n_other;
};

static void nap(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct count *c = ctx;
    (void)lo, (void)hi;
    usleep(thread ? 20000 : 1000);
    atomic_fetch_add(&c->n, 1);
    if (thread)
        atomic_fetch_add(&c->n_other, 1);
}

/* Fault: the caller that went to sleep is not woken by the last piece. */
static void caller_sleeps_until_the_last_piece(void **state)
{
    (void)state;
    struct pool *p = pool_new(2, true, NULL);
    for (int i = 0; i < 5; i++) {
        struct count c = {0};
        pool_run(p, nap, &c, 16, 1);
        assert_int_equal(c.n, 16);
    }
    pool_free(p);
}

/* Fault: a thread that fell asleep is not woken by the next job, and the caller works alone. */
static void sleepers_are_woken(void **state)
{
    (void)state;
    struct pool *p = pool_new(2, false, NULL);
    struct count c = {0};
    int n_job = 0;
    for (; n_job < 5 || (!c.n_other && n_job < 2000); n_job++) {
        usleep(5000); /* far longer than a thread spins */
        pool_run(p, nap, &c, 16, 1);
    }
    assert_int_equal(c.n, n_job * 16);
    assert_true(c.n_other > 0);
    pool_free(p);
}

struct places {
    _Atomic int n_worker, n_beside;
    int caller;
};

static void where(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct places *at = ctx;
    (void)lo, (void)hi;
    if (!thread) {
        usleep(1000);
        return;
    }
    atomic_fetch_add(&at->n_worker, 1);
    atomic_fetch_add(&at->n_beside, sched_getcpu() == at->caller);
}

/* Whether the thread took part in most of some jobs, and shared the caller's CPU in few. */
static bool makes_way(struct pool *p, const int cpu[2])
{
    enum { JOBS = 12 };
    int n_worker = 0, n_shared = 0;
    cpu_set_t one;
    for (int i = 0; i < JOBS; i++) {
        struct places at = {.caller = cpu[i % 2]};
        CPU_ZERO(&one);
        CPU_SET(at.caller, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        pool_run(p, where, &at, 16, 1);
        n_worker += at.n_worker > 0;
        n_shared += at.n_beside > 0;
        usleep(2000);
    }
    return n_worker > JOBS / 2 && n_shared <= JOBS / 4;
}

/* Fault: a pinned thread and the caller share a CPU while another is free for it: in half of these
 * jobs. A thread that has not yet left one job when the next is there keeps its CPU for that, as
 * happens again and again where the machine is busy. */
static void threads_make_way_for_the_caller(void **state)
{
    (void)state;
    int cpu[2], n_try = 0;
    cpu_set_t before;
    if (machine_cpu_list(cpu, 2) < 2) {
        print_message("skipped: with one CPU there is none to make way to\n");
        skip();
    }
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    struct pool *p = pool_new(2, true, NULL);
    while (!makes_way(p, cpu))
        assert_true(++n_try < 200);
    sched_setaffinity(0, sizeof before, &before);
    pool_free(p);
}

/* Fault: an idle pool that keeps a CPU busy. */
static void idle_costs_nothing(void **state)
{
    (void)state;
    int64_t at[64] = {0};
    struct pool *p = pool_new(2, false, NULL);
    pool_run(p, add, at, 64, 1);
    clock_t used = CLOCKS_PER_SEC;
    for (int i = 0; i < 100 && used >= CLOCKS_PER_SEC / 100; i++) {
        usleep(20000); /* a thread that the machine held up still spins */
        clock_t before = clock();
        usleep(100000);
        used = clock() - before;
    }
    assert_true(used < CLOCKS_PER_SEC / 100);
    pool_free(p);
}

/* Fault: a wrong number of threads is not refused, or zero does not mean the CPUs. */
static void counts(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    assert_null(pool_new(-1, false, &e));
    assert_err(-1, &e, ERR_BAD_INPUT, "-1");
    assert_null(pool_new(100000, false, &e));
    struct pool *p = pool_new(0, true, &e);
    assert_non_null(p);
    assert_int_equal(pool_size(p), machine_cores());
    pool_free(p);
    pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(each_unit_once),
        cmocka_unit_test(pieces_are_alike),
        cmocka_unit_test(jobs_follow_each_other),
        cmocka_unit_test(caller_sleeps_until_the_last_piece),
        cmocka_unit_test(sleepers_are_woken),
        cmocka_unit_test(threads_make_way_for_the_caller),
        cmocka_unit_test(idle_costs_nothing),
        cmocka_unit_test(counts),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
