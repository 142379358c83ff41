/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults: a sum in the order of arrival, parts at the wrong place, a room that is used again too
 * early, groups that hear each other, results that depend on the length's way.
 */
#include "tests/lib/comm_suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/rng.h"

enum { N_MOST = 40000 };

/* Lengths about every bound: of what is staged, of what is gathered, of a run of sums. */
static const size_t lengths[] = {0, 1, 2, 7, 255, 256, 257, 4095, 4096, 4097, 16385, N_MOST};
enum { N_LENGTH = sizeof lengths / sizeof *lengths };

/* Numbers of very different sizes, so that another order of summation shows. */
static float number(int rank, uint64_t set, size_t i)
{
    static const float scale[] = {1.0f, 1e4f, 1e-4f, 3e7f};
    uint64_t h = (set * 64 + (uint64_t)rank + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 29) * 0x94d049bb133111ebu;
    return scale[(i + (size_t)rank) % 4] * ((float)(h >> 40) * 0x1p-23f - 1.0f);
}

static float sum_of(int size, uint64_t set, size_t i)
{
    float sum = number(0, set, i);
    for (int r = 1; r < size; r++)
        sum += number(r, set, i);
    return sum;
}

static void lag_behind(bool lag, int rank, uint64_t set)
{
    int64_t us = lag ? (int64_t)rng_below(5, (uint64_t)rank, set, 3000) : 0;
    if (us > 1500)
        nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static int differs(const struct comm *c, const char *what, size_t n, size_t i, struct err *e)
{
    return err_set(e, ERR_CORRUPT, "rank %d of %d: %s of %zu differs at %zu", comm_rank(c),
                   comm_size(c), what, n, i);
}

struct suite {
    struct comm *c;
    bool lag;
    float *x, *y; /* owned: [COMM_RANK_MAX or so, N_MOST] */
};

static int check_reduce(struct suite *s, size_t n, uint64_t set, bool in_place, struct err *e)
{
    struct comm_job j = {
        .kind = COMM_ALL_REDUCE, .in = s->x, .out = in_place ? s->x : s->y, .n = n};
    const float *got = j.out;
    for (size_t i = 0; i < n; i++)
        s->x[i] = number(comm_rank(s->c), set, i);
    lag_behind(s->lag, comm_rank(s->c), set);
    if (comm_run(s->c, &j, e))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (got[i] != sum_of(comm_size(s->c), set, i))
            return differs(s->c, "all-reduce", n, i, e);
    return 0;
}

static int check_scatter(struct suite *s, size_t n, uint64_t set, struct err *e)
{
    int rank = comm_rank(s->c), size = comm_size(s->c);
    struct comm_job j = {.kind = COMM_REDUCE_SCATTER, .in = s->x, .out = s->y, .n = n};
    for (size_t i = 0; i < n * (size_t)size; i++)
        s->x[i] = number(rank, set, i);
    lag_behind(s->lag, rank, set);
    if (comm_run(s->c, &j, e))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (s->y[i] != sum_of(size, set, (size_t)rank * n + i))
            return differs(s->c, "reduce-scatter", n, i, e);
    return 0;
}

static int check_gather(struct suite *s, size_t n, uint64_t set, bool in_place, struct err *e)
{
    int rank = comm_rank(s->c), size = comm_size(s->c);
    float *in = in_place ? s->y + (size_t)rank * n : s->x;
    for (size_t i = 0; i < n; i++)
        in[i] = number(rank, set, i);
    lag_behind(s->lag, rank, set);
    if (comm_all_gather(s->c, in, s->y, n * sizeof *in, e))
        return -1;
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < n; i++)
            if (s->y[(size_t)r * n + i] != number(r, set, i))
                return differs(s->c, "all-gather", n, (size_t)r * n + i, e);
    return 0;
}

static int check_broadcast(struct suite *s, size_t n, uint64_t set, int from, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        s->x[i] = number(comm_rank(s->c), set, i);
    lag_behind(s->lag, comm_rank(s->c), set);
    if (comm_broadcast(s->c, s->x, n * sizeof *s->x, from, e))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (s->x[i] != number(from, set, i))
            return differs(s->c, "broadcast", n, i, e);
    return 0;
}

/* Everybody sends to the next and receives from the one before, both under way at once. */
static int check_ring(struct suite *s, size_t n, uint64_t set, struct err *e)
{
    int rank = comm_rank(s->c), size = comm_size(s->c), before = (rank + size - 1) % size;
    struct comm_job give = {.kind = COMM_SEND, .peer = (rank + 1) % size, .in = s->x};
    struct comm_job take = {.kind = COMM_RECEIVE, .peer = before, .out = s->y};
    give.n = take.n = n * sizeof *s->x;
    for (size_t i = 0; i < n; i++)
        s->x[i] = number(rank, set, i);
    lag_behind(s->lag, rank, set);
    if (size > 1 && (comm_start(s->c, &take, e) || comm_start(s->c, &give, e) ||
                     comm_finish(s->c, e) || comm_finish(s->c, e)))
        return -1;
    for (size_t i = 0; i < n && size > 1; i++)
        if (s->y[i] != number(before, set, i))
            return differs(s->c, "receive", n, i, e);
    return 0;
}

/* As many all-reduces under way as there may be, in vectors of their own, three times around. */
static int check_flight(struct suite *s, struct err *e)
{
    enum { N = 1000, ROUNDS = 3 * COMM_FLIGHT };
    int rank = comm_rank(s->c), size = comm_size(s->c);
    for (int k = 0; k < ROUNDS + COMM_FLIGHT; k++) {
        float *x = s->x + (size_t)(k % COMM_FLIGHT) * N;
        if (k >= COMM_FLIGHT) {
            if (comm_finish(s->c, e))
                return -1;
            for (size_t i = 0; i < N; i++)
                if (x[i] != sum_of(size, (uint64_t)(900 + k - COMM_FLIGHT), i))
                    return differs(s->c, "all-reduce under way", N, i, e);
        }
        for (size_t i = 0; i < N && k < ROUNDS; i++)
            x[i] = number(rank, (uint64_t)(900 + k), i);
        lag_behind(s->lag, rank, (uint64_t)(900 + k));
        struct comm_job j = {.kind = COMM_ALL_REDUCE, .in = x, .out = x, .n = N};
        if (k < ROUNDS && comm_start(s->c, &j, e))
            return -1;
    }
    return 0;
}

static int check_all(struct suite *s, struct err *e)
{
    int size = comm_size(s->c);
    uint64_t set = 0;
    for (int k = 0; k < N_LENGTH; k++, set += 4) {
        size_t n = lengths[k];
        if (check_reduce(s, n, set, false, e) || check_reduce(s, n, set + 1, true, e) ||
            check_gather(s, n, set, false, e) || check_gather(s, n, set + 1, true, e) ||
            check_scatter(s, n, set, e) || check_ring(s, n, set, e) || comm_barrier(s->c, e) ||
            check_broadcast(s, n, set, k % size, e))
            return -1;
    }
    return check_flight(s, e);
}

static int suite_init(struct suite *s, struct comm *c, bool lag, struct err *e)
{
    *s = (struct suite){.c = c, .lag = lag};
    s->x = malloc((size_t)comm_size(c) * N_MOST * sizeof *s->x);
    s->y = malloc((size_t)comm_size(c) * N_MOST * sizeof *s->y);
    return s->x && s->y ? 0 : err_set(e, ERR_NO_MEMORY, "no memory");
}

static void suite_release(struct suite *s)
{
    free(s->x);
    free(s->y);
}

/* Even and odd ranks, each a group, of which the odd one's last rank keeps out. */
static int check_groups(struct suite *s, struct err *e)
{
    int rank = comm_rank(s->c), size = comm_size(s->c);
    bool is_out = rank == size - 1 && rank % 2;
    struct suite half = *s;
    int rc = comm_split(s->c, is_out ? -1 : rank % 2, &half.c, e);
    if (!rc && (half.c == NULL) != is_out)
        rc = err_set(e, ERR_CORRUPT, "rank %d: a group where none was wanted, or none", rank);
    if (!rc && half.c && (comm_rank(half.c) != rank / 2))
        rc = err_set(e, ERR_CORRUPT, "rank %d is %d of its group", rank, comm_rank(half.c));
    if (!rc && half.c)
        rc = check_all(&half, e);
    comm_free(half.c);
    return rc;
}

/* A group of the same ranks, used by a thread of its own beside the first. */
struct beside {
    struct suite suite;
    int rc, n_left, n_back, n_wrong;
    struct err err;
};

static void count_leave(void *ctx)
{
    struct beside *b = ctx;
    b->n_wrong += b->n_left++ != b->n_back;
}

static void count_back(void *ctx)
{
    struct beside *b = ctx;
    b->n_wrong += ++b->n_back != b->n_left;
}

static int check_some(struct suite *s, struct err *e)
{
    for (int k = 0; k < N_LENGTH; k++)
        if (check_reduce(s, lengths[k], (uint64_t)k, k % 2, e) ||
            check_broadcast(s, lengths[k], (uint64_t)k, k % comm_size(s->c), e))
            return -1;
    return check_flight(s, e);
}

static void *run_beside(void *arg)
{
    struct beside *b = arg;
    b->rc = check_some(&b->suite, &b->err);
    return NULL;
}

static int check_beside(struct suite *s, struct err *e)
{
    struct beside b = {.err = ERR_INIT};
    struct comm *c;
    pthread_t thread;
    if (comm_split(s->c, 0, &c, e))
        return -1;
    comm_be_patient(c);
    comm_around(c, count_leave, count_back, &b);
    int rc = suite_init(&b.suite, c, !s->lag, e);
    if (!rc && pthread_create(&thread, NULL, run_beside, &b))
        rc = err_set(e, ERR_NO_MEMORY, "no thread");
    if (!rc) {
        rc = check_some(s, e);
        pthread_join(thread, NULL);
        if (!rc && b.rc)
            rc = err_set(e, b.err.code, "beside: %s", b.err.msg);
        if (!rc && (b.n_wrong || b.n_back < N_LENGTH))
            rc = err_set(e, ERR_CORRUPT, "%d waits begun, %d ended", b.n_left, b.n_back);
    }
    suite_release(&b.suite);
    comm_free(c);
    return rc;
}

int comm_suite(struct comm *c, bool lag, struct err *e)
{
    struct suite s;
    int rc = suite_init(&s, c, lag, e);
    if (!rc)
        rc = check_all(&s, e) || check_groups(&s, e) || check_beside(&s, e) || comm_barrier(c, e)
                 ? -1
                 : 0;
    suite_release(&s);
    return rc;
}

int comm_suite_rounds(struct comm *c, int n_round, struct err *e)
{
    struct suite s;
    int rc = suite_init(&s, c, false, e);
    for (int i = 0; i < n_round && !rc; i++)
        rc = check_reduce(&s, lengths[i % N_LENGTH], (uint64_t)i, true, e);
    suite_release(&s);
    return rc;
}
