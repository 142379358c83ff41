/* SPDX-License-Identifier: Apache-2.0
 *
 * What carries collectives. A driver fills one table, and its own struct begins with struct comm;
 * engine/comm/comm.c is the face in front of it: it checks, counts, keeps the order, and remembers
 * what broke.
 *
 * Thread: as engine/comm/comm.h.
 */
#ifndef ENGINE_COMM_DRIVER_H
#define ENGINE_COMM_DRIVER_H

#include <stdatomic.h>

#include "engine/comm/comm.h"

struct comm_driver {
    const char *name;

    /* j is number `at` of those started at this end; a fault is what breaks the group. */
    int (*start)(struct comm *c, const struct comm_job *j, uint64_t at, struct err *e);
    int (*finish)(struct comm *c, const struct comm_job *j, uint64_t at, struct err *e);

    /* The group of the ranks member[n], of which this one is number `own`. */
    struct comm *(*split)(struct comm *c, const int *member, int n, int own, struct err *e);
    /* Tells the others; NULL: there is no way but to end. */
    void (*abort)(struct comm *c, const char *why);
    /* Behind a break, by any thread: from here on nobody touches what is under way, so that its
     * memory may go. NULL: nobody does, or there is no way. */
    void (*drop)(struct comm *c);
    /* What broke the group elsewhere; NULL: only this end would know. */
    int (*check)(const struct comm *c, struct err *e);
    void (*free)(struct comm *c);
};

struct comm {
    const struct comm_driver *driver; /* constant */
    int rank, size;
    int64_t deadline_ns;
    struct comm_job flight[COMM_FLIGHT]; /* of those under way */
    uint64_t n_start, n_finish;
    struct comm_stat stat;
    bool is_patient; /* every wait */
    void (*leave)(void *ctx), (*back)(void *ctx);
    void *around_ctx;
    int n_away;            /* calls within calls */
    atomic_int broken;     /* enum comm_broken */
    struct err why;        /* of what broke it, once it is told */
    struct fabric *fabric; /* owned (engine/comm/fabric.c); NULL: none */
};

/* Who breaks a group first, of any thread, says why; the others read that once it stands. */
enum comm_broken { COMM_WHOLE, COMM_BREAKS, COMM_BROKEN };

static inline bool comm_is_broken(const struct comm *c)
{
    return atomic_load_explicit(&c->broken, memory_order_acquire) == COMM_BROKEN;
}

void comm_init(struct comm *c, const struct comm_driver *d, int rank, int size,
               const struct comm_options *o);

/* How long a wait of a job may take. */
static inline int64_t comm_patience_ns(const struct comm *c, const struct comm_job *j)
{
    return j->is_patient || c->is_patient ? INT64_MAX / 2 : c->deadline_ns + j->longer_ms * 1000000;
}

/* "rank 1 of 4: all-reduce 17: " and the text. */
int comm_fault(const struct comm *c, const struct comm_job *j, uint64_t at, struct err *e,
               const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* y[n] = ((x[0] + x[1]) + x[2]) + ..., of n_x vectors; y may be any of them. */
void comm_sum(float *y, const float *const *x, int n_x, size_t n);

/* Elements [lo, hi) of n that rank r of `size` takes care of: nearly equal parts. */
static inline size_t comm_part(size_t n, int r, int size)
{
    return n / (size_t)size * (size_t)r + n % (size_t)size * (size_t)r / (size_t)size;
}

#endif
