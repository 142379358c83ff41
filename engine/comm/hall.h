/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the threads of a local group meet: a part for each rank with counters that only rise, and
 * a way to wait until another's counter has passed a value, the group is broken, or time is up.
 *
 * Who waits spins for some microseconds where every rank can have a CPU, and then sleeps; who moves
 * a counter rings the bell only if somebody sleeps.
 *
 * Thread: a part's counters are moved by its rank alone; everything else by any.
 */
#ifndef ENGINE_COMM_HALL_H
#define ENGINE_COMM_HALL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/comm/comm.h"

/* What is given by less than this is copied into the hall when a collective starts, so that it
 * ends with one meeting instead of two. */
enum { HALL_STAGE_BYTES = 16384 };

struct hall_slot {
    struct comm_job job;
    char *stage; /* borrowed from the hall: [HALL_STAGE_BYTES] */
};

/* Numbers of collectives: started; met: has written what others wait for; ended: reads nothing of
 * others any more. */
struct hall_rank {
    _Alignas(64) atomic_uint_fast64_t started;
    atomic_uint_fast64_t met, ended;
    atomic_bool has_left, is_copying;
    bool is_taken; /* of a hall in another: under that one's lock */
    struct hall_slot slot[COMM_FLIGHT];
};

/* What one rank sends another, in order. */
struct hall_mail {
    atomic_uint_fast64_t sent, taken;
    const void *p[COMM_FLIGHT]; /* borrowed */
    size_t n[COMM_FLIGHT];
};

struct hall {
    int n;
    atomic_int n_end; /* ends that are not freed */
    int64_t spin_ns;
    pthread_mutex_t lock;
    pthread_cond_t bell;
    atomic_int n_asleep;
    atomic_bool is_broken;
    struct err why;           /* under lock */
    char *stage;              /* owned */
    struct hall_mail *mail;   /* owned: [n, n] from, to */
    struct hall_rank *member; /* owned: [n] */
    struct hall *inner;       /* owned, under lock: halls in this one that have free parts */
    struct hall *next;        /* of them */
    uint64_t number;          /* of an inner one: with which collective it was made, and for whom */
    int first;
};

struct hall *hall_new(int n, struct err *e);

/* Takes a part of the hall for n of this one's ranks that goes by that number and by the first of
 * them. Who comes first makes it. What breaks this hall, or frees it, leaves nobody waiting for
 * those who have not come by then. */
struct hall *hall_enter(struct hall *h, uint64_t number, int first, int n, int own, struct err *e);
void hall_leave(struct hall *h, int rank); /* the last one out frees it */

enum hall_wait { HALL_PASSED, HALL_BROKEN, HALL_LEFT, HALL_LATE };

/* Until *counter > value. who: whose counter it is. */
enum hall_wait hall_wait_past(struct hall *h, atomic_uint_fast64_t *counter, uint64_t value,
                              int who, int64_t deadline_ns);

void hall_move(struct hall *h, atomic_uint_fast64_t *counter, uint64_t value);

/* Around reads and writes of others' memory; false: the hall is broken, there is nothing to read.
 */
bool hall_copy_begin(struct hall *h, int rank);
void hall_copy_end(struct hall *h, int rank);

/* Breaks the hall unless it is broken; *e becomes what broke it. Returns -1. */
int hall_break(struct hall *h, struct err *e);

/* Behind a break: until no other rank reads this one's memory. */
void hall_quiet(struct hall *h, int rank);
int hall_check(struct hall *h, struct err *e);

#endif
