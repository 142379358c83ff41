/* SPDX-License-Identifier: Apache-2.0
 *
 * The face: checks, order, counting, and the memory of what broke.
 */
#include "engine/comm/comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/comm/driver.h"

static const char *const kind_names[COMM_KIND_COUNT] = {
    "all-reduce", "reduce-scatter", "all-gather", "broadcast", "send", "receive", "barrier"};

void comm_init(struct comm *c, const struct comm_driver *d, int rank, int size,
               const struct comm_options *o)
{
    int64_t ms = o && o->deadline_ms ? o->deadline_ms : COMM_DEADLINE_MS;
    *c = (struct comm){
        .driver = d, .rank = rank, .size = size, .deadline_ns = ms * 1000000, .why = ERR_INIT};
}

void comm_free(struct comm *c)
{
    ASSERT(!c || !c->fabric); /* it goes with the device: fabric_leave */
    if (c)
        c->driver->free(c);
}

int comm_rank(const struct comm *c)
{
    return c->rank;
}

int comm_size(const struct comm *c)
{
    return c->size;
}

const char *comm_name(const struct comm *c)
{
    return c->driver->name;
}

const char *comm_kind_name(enum comm_kind k)
{
    ASSERT(k < COMM_KIND_COUNT);
    return kind_names[k];
}

int comm_fault(const struct comm *c, const struct comm_job *j, uint64_t at, struct err *e,
               const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(e, ERR_DEVICE, "rank %d of %d: %s %llu: %s", c->rank, c->size,
                   kind_names[j->kind], (unsigned long long)at, text);
}

enum { RUN = 256 };

/* A length that the compiler knows. */
static void add_run(float *restrict sum, const float *restrict x)
{
    for (int i = 0; i < RUN; i++)
        sum[i] += x[i];
}

void comm_sum(float *y, const float *const *x, int n_x, size_t n)
{
    float sum[RUN];
    for (size_t lo = 0; lo < n; lo += RUN) {
        size_t m = n - lo < RUN ? n - lo : RUN;
        memcpy(sum, x[0] + lo, m * sizeof *sum);
        for (int r = 1; r < n_x; r++) {
            if (m == RUN)
                add_run(sum, x[r] + lo);
            else
                for (size_t i = 0; i < m; i++)
                    sum[i] += x[r][lo + i];
        }
        memcpy(y + lo, sum, m * sizeof *sum);
    }
}

double comm_job_bytes(const struct comm_job *j, int size)
{
    double n = (double)j->n, others = size - 1;
    switch (j->kind) {
    case COMM_ALL_REDUCE:
        return 2 * others / size * n * (double)sizeof(float);
    case COMM_REDUCE_SCATTER:
        return others * n * (double)sizeof(float);
    case COMM_ALL_GATHER:
        return others * n;
    case COMM_BROADCAST:
        return others / size * n;
    case COMM_SEND:
        return n;
    default:
        return 0;
    }
}

int comm_check(const struct comm *c, struct err *e)
{
    if (comm_is_broken(c))
        return err_set(e, c->why.code, "%s", c->why.msg);
    return c->driver->check ? c->driver->check(c, e) : 0;
}

/* Of a broken group: what is under way is its caller's again. */
static int fails(struct comm *c)
{
    if (c->driver->drop)
        c->driver->drop(c);
    return -1;
}

/* Keeps the first fault. */
static int broke(struct comm *c, struct err *e)
{
    int whole = COMM_WHOLE;
    if (atomic_compare_exchange_strong(&c->broken, &whole, COMM_BREAKS)) {
        c->why = *e;
        atomic_store_explicit(&c->broken, COMM_BROKEN, memory_order_release);
    }
    return fails(c);
}

/* A call that may wait begins or ends; those that it is made of do not count. */
static void go_away(struct comm *c)
{
    if (c->n_away++ == 0 && c->leave)
        c->leave(c->around_ctx);
}

static void come_back(struct comm *c)
{
    if (--c->n_away == 0 && c->back)
        c->back(c->around_ctx);
}

void comm_around(struct comm *c, void (*leave)(void *ctx), void (*back)(void *ctx), void *ctx)
{
    ASSERT(c->n_away == 0);
    c->leave = leave;
    c->back = back;
    c->around_ctx = ctx;
}

void comm_be_patient(struct comm *c)
{
    c->is_patient = true;
}

static bool has_peer(const struct comm_job *j)
{
    return j->kind == COMM_BROADCAST || j->kind == COMM_SEND || j->kind == COMM_RECEIVE;
}

int comm_start(struct comm *c, const struct comm_job *j, struct err *e)
{
    struct err own = ERR_INIT;
    int64_t begin = clock_ns();
    if (comm_check(c, e))
        return fails(c);
    ASSERT(j->kind < COMM_KIND_COUNT && c->n_start - c->n_finish < COMM_FLIGHT);
    ASSERT(!has_peer(j) || (j->peer >= 0 && j->peer < c->size));
    c->flight[c->n_start % COMM_FLIGHT] = *j;
    go_away(c);
    int rc = c->driver->start(c, j, c->n_start, &own);
    come_back(c);
    if (rc) {
        broke(c, &own);
        return err_set(e, own.code, "%s", own.msg);
    }
    c->n_start++;
    c->stat.n_job[j->kind]++;
    c->stat.bytes += (uint64_t)comm_job_bytes(j, c->size);
    c->stat.wait_ns += clock_ns() - begin;
    return 0;
}

int comm_finish(struct comm *c, struct err *e)
{
    struct err own = ERR_INIT;
    int64_t begin = clock_ns();
    if (comm_check(c, e))
        return fails(c);
    ASSERT(c->n_finish < c->n_start);
    go_away(c);
    int rc = c->driver->finish(c, &c->flight[c->n_finish % COMM_FLIGHT], c->n_finish, &own);
    come_back(c);
    if (rc) {
        broke(c, &own);
        return err_set(e, own.code, "%s", own.msg);
    }
    c->n_finish++;
    c->stat.wait_ns += clock_ns() - begin;
    return 0;
}

static int start_and_finish(struct comm *c, const struct comm_job *j, struct err *e)
{
    if (c->n_start - c->n_finish == COMM_FLIGHT && comm_finish(c, e))
        return -1;
    if (comm_start(c, j, e))
        return -1;
    while (c->n_finish < c->n_start)
        if (comm_finish(c, e))
            return -1;
    return 0;
}

int comm_run(struct comm *c, const struct comm_job *j, struct err *e)
{
    go_away(c);
    int rc = start_and_finish(c, j, e);
    come_back(c);
    return rc;
}

int comm_all_reduce(struct comm *c, float *x, size_t n, struct err *e)
{
    return comm_run(c, &(struct comm_job){.kind = COMM_ALL_REDUCE, .in = x, .out = x, .n = n}, e);
}

int comm_all_gather(struct comm *c, const void *in, void *out, size_t bytes, struct err *e)
{
    struct comm_job j = {.kind = COMM_ALL_GATHER, .in = in, .out = out, .n = bytes};
    return comm_run(c, &j, e);
}

int comm_broadcast(struct comm *c, void *x, size_t bytes, int from, struct err *e)
{
    struct comm_job j = {.kind = COMM_BROADCAST, .peer = from, .out = x, .n = bytes};
    return comm_run(c, &j, e);
}

int comm_barrier(struct comm *c, struct err *e)
{
    return comm_run(c, &(struct comm_job){.kind = COMM_BARRIER}, e);
}

int comm_split(struct comm *c, int colour, struct comm **out, struct err *e)
{
    int of[COMM_RANK_MAX], member[COMM_RANK_MAX], n = 0, own = 0;
    *out = NULL;
    ASSERT(c->size <= COMM_RANK_MAX);
    if (comm_all_gather(c, &colour, of, sizeof colour, e))
        return -1;
    for (int r = 0; r < c->size; r++) {
        if (of[r] != colour || colour < 0)
            continue;
        if (r == c->rank)
            own = n;
        member[n++] = r;
    }
    *out = c->driver->split(c, member, n, own, e);
    if (!comm_check(c, e) && (!n || *out))
        return 0;
    comm_free(*out);
    *out = NULL;
    return -1;
}

void comm_abort(struct comm *c, const char *why)
{
    struct err e = ERR_INIT;
    if (c->driver->abort) {
        c->driver->abort(c, why);
        fails(c);
        return;
    }
    err_set(&e, ERR_DEVICE, "rank %d gave up: %s", c->rank, why);
    broke(c, &e); /* the others see that the process ends */
}

struct comm_stat comm_stat(const struct comm *c)
{
    return c->stat;
}
