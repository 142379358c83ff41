/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives over one rank and over threads: the suite at several sizes, whatever order ranks come
 * in; and what becomes of a group whose rank leaves, stands still, gives up, or does another thing.
 * Processes have test_mpi.py.
 */
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/comm/plug_open.h"
#include "tests/lib/comm_suite.h"

enum { SUITE_DEADLINE_MS = 60000, SIZE_MAX_ = 8 };

struct act; /* what the ranks of a group do */

typedef int act_fn(struct comm *c, void *ctx, struct err *e);

struct act {
    struct comm *end;
    act_fn *fn;
    void *ctx;
    int rc;
    struct err err;
};

static void *play(void *arg)
{
    struct act *a = arg;
    a->rc = a->fn(a->end, a->ctx, &a->err);
    comm_free(a->end);
    return NULL;
}

/* Runs fn as each of n threads. */
static void play_all(struct act *a, int n, int64_t deadline_ms, act_fn *fn, void *ctx)
{
    struct comm_options o = {.deadline_ms = deadline_ms};
    struct comm *end[SIZE_MAX_];
    pthread_t thread[SIZE_MAX_];
    struct err e = ERR_INIT;
    assert_good(comm_local_new(n, &o, end, &e), &e);
    for (int r = 0; r < n; r++) {
        a[r] = (struct act){.end = end[r], .fn = fn, .ctx = ctx, .err = ERR_INIT};
        assert_int_equal(pthread_create(&thread[r], NULL, play, &a[r]), 0);
    }
    for (int r = 0; r < n; r++)
        pthread_join(thread[r], NULL);
}

static int run_suite(struct comm *c, void *ctx, struct err *e)
{
    return comm_suite(c, *(const bool *)ctx, e);
}

/* Faults: those of the suite where there is nobody else. */
static void one_rank(void **state)
{
    struct comm *c = comm_self_new();
    struct err e = ERR_INIT;
    (void)state;
    assert_good(comm_suite(c, false, &e), &e);
    assert_string_equal(comm_name(c), "self");
    comm_free(c);
}

/* Faults: those of the suite; a slot that is written while others read it. */
static void threads(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 8};
    struct act a[SIZE_MAX_];
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int lag = 0; lag < 2; lag++) {
            bool lags = lag;
            play_all(a, sizes[i], SUITE_DEADLINE_MS, run_suite, &lags);
            for (int r = 0; r < sizes[i]; r++)
                assert_good(a[r].rc, &a[r].err);
        }
    }
}

struct fall {
    int who, at; /* rank, round */
    atomic_int n_over;
    int n;
    enum { FALL_LEAVES, FALL_STALLS, FALL_GIVES_UP } how;
};

static int fall_at_round(struct comm *c, void *ctx, struct err *e)
{
    struct fall *f = ctx;
    bool is_it = comm_rank(c) == f->who;
    int rc = comm_suite_rounds(c, is_it ? f->at : 1000, e);
    if (is_it && f->how == FALL_GIVES_UP)
        comm_abort(c, "no more room");
    atomic_fetch_add(&f->n_over, 1);
    while (is_it && f->how == FALL_STALLS && atomic_load(&f->n_over) < f->n)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (is_it && f->how == FALL_STALLS)
        return comm_barrier(c, e);
    return is_it && !rc && f->how == FALL_LEAVES ? -1 : rc;
}

/* Runs n ranks of which one falls; all others end with the same words. */
static void fall(int n, struct fall *f, int64_t deadline_ms, const char *words)
{
    struct act a[SIZE_MAX_];
    f->n = n;
    atomic_init(&f->n_over, 0);
    play_all(a, n, deadline_ms, fall_at_round, f);
    for (int r = 0; r < n; r++) {
        if (r == f->who && f->how != FALL_STALLS)
            continue;
        assert_err(a[r].rc, &a[r].err, ERR_DEVICE, words);
        assert_string_equal(a[r].err.msg, a[(f->who + 1) % n].err.msg);
    }
}

/* Faults: a rank that is waited for though it is gone; one that dies while others read its memory;
 * words that do not name it. At 50 moments. */
static void a_rank_leaves(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 50; i++) {
        int n = 2 + (int)rng_below(3, 0, i, 3);
        struct fall f = {.who = (int)rng_below(3, 1, i, (uint64_t)n),
                         .at = (int)rng_below(3, 2, i, 40),
                         .how = FALL_LEAVES};
        char words[64];
        snprintf(words, sizeof words, "rank %d has left", f.who);
        fall(n, &f, SUITE_DEADLINE_MS, words);
    }
}

/* Faults: a wait without a deadline; a rank that comes after all and goes on alone. On a busy
 * machine another rank may be late before this one is. */
static void a_rank_stands_still(void **state)
{
    (void)state;
    for (int at = 0; at < 12; at += 4) {
        struct fall f = {.who = 1, .at = at, .how = FALL_STALLS};
        fall(3, &f, 300, " did not come within 0.3 s");
    }
}

/* Faults: an abort that wakes nobody, or says nothing. */
static void a_rank_gives_up(void **state)
{
    (void)state;
    for (int at = 0; at < 12; at++) {
        struct fall f = {.who = 2, .at = at, .how = FALL_GIVES_UP};
        fall(4, &f, SUITE_DEADLINE_MS, "rank 2 gave up: no more room");
    }
}

/* Rank 1 gives up with a long sum under way, a while behind its start, and its memory goes. */
static int leave_under_way(struct comm *c, void *ctx, struct err *e)
{
    const size_t n = 1 << 21;
    float *x = try_alloc(n, sizeof *x, "a vector", e);
    struct comm_job j = {.kind = COMM_ALL_REDUCE, .in = x, .out = x, .n = n};
    int rc = x ? comm_start(c, &j, e) : -1;
    if (!rc && comm_rank(c) == 1) {
        nanosleep(&(struct timespec){.tv_nsec = *(const long *)ctx}, NULL);
        comm_abort(c, "no more room");
    } else if (!rc) {
        rc = comm_finish(c, e);
    }
    mem_free(x);
    return rc;
}

/* Faults: one whose memory is read and written by others when it has given up. */
static void a_rank_gives_up_under_way(void **state)
{
    struct act a[3];
    (void)state;
    for (long ns = 0; ns < 3000000; ns += 100000) {
        play_all(a, 3, SUITE_DEADLINE_MS, leave_under_way, &ns);
        for (int r = 0; r < 3; r += 2)
            assert_err(a[r].rc, &a[r].err, ERR_DEVICE, "rank 1 gave up: no more room");
    }
}

/* Rank 1 says its colour and gives up instead of coming to its group, or just behind it. */
static int give_up_at_split(struct comm *c, void *ctx, struct err *e)
{
    int colour = 0, of[SIZE_MAX_], rc;
    struct comm *group = NULL;
    if (comm_rank(c) == 1 && *(const bool *)ctx)
        rc = comm_all_gather(c, &colour, of, sizeof colour, e);
    else
        rc = comm_split(c, colour, &group, e);
    if (comm_rank(c) == 1)
        comm_abort(c, "no more room");
    else if (!rc)
        rc = comm_barrier(group, e);
    comm_free(group);
    return rc;
}

/* Faults: a group that its maker frees under those who have come to it; a member that waits for who
 * never comes; what is left of a group that only some came to (a leak, under ASan). */
static void a_rank_gives_up_at_a_split(void **state)
{
    struct act a[4];
    (void)state;
    for (int i = 0; i < 400; i++) {
        bool is_before = i % 2;
        play_all(a, 4, SUITE_DEADLINE_MS, give_up_at_split, &is_before);
        for (int r = 0; r < 4; r++)
            if (r != 1)
                assert_err(a[r].rc, &a[r].err, ERR_DEVICE, "rank ");
    }
}

static int differ(struct comm *c, void *ctx, struct err *e)
{
    float x[64] = {0}, y[256];
    const int kind = *(const int *)ctx;
    if (comm_rank(c) != 1)
        return comm_all_reduce(c, x, 64, e);
    return kind == 0   ? comm_all_reduce(c, x, 63, e)
           : kind == 1 ? comm_all_gather(c, x, y, sizeof x, e)
                       : comm_barrier(c, e);
}

/* Faults: ranks that do different things and get numbers all the same. */
static void ranks_that_differ(void **state)
{
    struct act a[4];
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        play_all(a, 4, SUITE_DEADLINE_MS, differ, &kind);
        for (int r = 0; r < 4; r++)
            assert_err(a[r].rc, &a[r].err, ERR_DEVICE, " of 64");
    }
}

/* Faults: what a broken group answers later; ranks beyond what there is room for. */
static void bounds_and_counts(void **state)
{
    struct comm *end[COMM_RANK_MAX + 1];
    struct err e = ERR_INIT;
    float x[8] = {0};
    (void)state;
    assert_err(comm_local_new(COMM_RANK_MAX + 1, NULL, end, &e), &e, ERR_BAD_INPUT, "1 to 64");
    assert_err(comm_local_new(0, NULL, end, &e), &e, ERR_BAD_INPUT, "1 to 64");
    assert_good(comm_local_new(2, NULL, end, &e), &e);
    comm_abort(end[0], "why not");
    for (int i = 0; i < 2; i++)
        assert_err(comm_all_reduce(end[1], x, 8, &e), &e, ERR_DEVICE, "rank 0 gave up: why not");
    assert_err(comm_check(end[0], &e), &e, ERR_DEVICE, "why not");
    comm_free(end[0]);
    comm_free(end[1]);
    struct comm_job j = {.kind = COMM_ALL_REDUCE, .n = 100};
    assert_float_equal(comm_job_bytes(&j, 4), 600, 0);
    for (int k = 0; k < COMM_KIND_COUNT; k++)
        assert_non_null(comm_kind_name((enum comm_kind)k));
}

/* ---- a plug with more ranks than there is room for ------------------------------------------ */

struct wire {
    int n_open;
};

static struct wire crowd;

static struct wire *crowd_open(char *text, size_t size)
{
    (void)text, (void)size;
    crowd.n_open++;
    return &crowd;
}

static void crowd_close(struct wire *w, int is_broken)
{
    assert_false(is_broken);
    w->n_open--;
}

static int crowd_rank(const struct wire *w)
{
    (void)w;
    return 0;
}

static int crowd_size(const struct wire *w)
{
    (void)w;
    return COMM_RANK_MAX + 1;
}

/* Fault: the network's end stays open for ever where the group is refused. */
static void a_refused_group_is_closed(void **state)
{
    const struct comm_plug plug = {.abi = COMM_PLUG_ABI,
                                   .name = "crowd",
                                   .open = crowd_open,
                                   .close = crowd_close,
                                   .rank = crowd_rank,
                                   .size = crowd_size};
    struct err e = ERR_INIT;
    (void)state;
    struct comm *c = comm_wired_over(&plug, NULL, &e);
    assert_err(c ? 0 : -1, &e, ERR_TOO_LARGE, "65 ranks: at most 64 there may be");
    assert_int_equal(crowd.n_open, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),
        cmocka_unit_test(threads),
        cmocka_unit_test(a_rank_gives_up_at_a_split),
        cmocka_unit_test(a_rank_leaves),
        cmocka_unit_test(a_rank_stands_still),
        cmocka_unit_test(a_rank_gives_up),
        cmocka_unit_test(a_rank_gives_up_under_way),
        cmocka_unit_test(ranks_that_differ),
        cmocka_unit_test(bounds_and_counts),
        cmocka_unit_test(a_refused_group_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
