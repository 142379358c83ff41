/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting and waking.
 */
#include "engine/comm/hall.h"

#include <sched.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/machine.h"
#include "engine/base/mem.h"

enum { SPIN_NS = 20000, SPIN_LOOKS = 64, NAP_NS = 250000000 };

struct hall *hall_new(int n, struct err *e)
{
    struct hall *h = xcalloc(1, sizeof *h);
    h->n = n;
    h->why = (struct err)ERR_INIT;
    h->spin_ns = n <= machine_cpus() ? SPIN_NS : 0;
    atomic_init(&h->n_end, n);
    pthread_mutex_init(&h->lock, NULL);
    clock_cond_init(&h->bell);
    h->mail = xcalloc((size_t)(n * n), sizeof *h->mail);
    h->member = try_alloc((size_t)n, sizeof *h->member, "what ranks keep together", e);
    h->stage = try_lazy((size_t)n * COMM_FLIGHT, HALL_STAGE_BYTES, "what ranks keep together", e);
    for (int r = 0; r < n && h->member && h->stage; r++)
        for (int k = 0; k < COMM_FLIGHT; k++)
            h->member[r].slot[k].stage =
                h->stage + (size_t)(r * COMM_FLIGHT + k) * HALL_STAGE_BYTES;
    if (h->member && h->stage)
        return h;
    atomic_store(&h->n_end, 1);
    hall_leave(h, -1);
    return NULL;
}

static void ring(struct hall *h)
{
    pthread_mutex_lock(&h->lock);
    pthread_cond_broadcast(&h->bell);
    pthread_mutex_unlock(&h->lock);
}

static bool is_full(const struct hall *h)
{
    for (int r = 0; r < h->n; r++)
        if (!h->member[r].is_taken)
            return false;
    return true;
}

struct hall *hall_enter(struct hall *h, uint64_t number, int first, int n, int own, struct err *e)
{
    struct hall **at = &h->inner, *in = NULL;
    pthread_mutex_lock(&h->lock);
    while (*at && ((*at)->number != number || (*at)->first != first))
        at = &(*at)->next;
    if (atomic_load(&h->is_broken))
        *e = h->why;
    else
        in = *at ? *at : hall_new(n, e);
    if (in) {
        *at = in;
        in->number = number;
        in->first = first;
        in->member[own].is_taken = true;
        if (is_full(in))
            *at = in->next;
    }
    pthread_mutex_unlock(&h->lock);
    return in;
}

/* Nobody comes to the free parts any more. The last of them may be what keeps the hall. */
static void leave_free_seats(struct hall *h)
{
    int at[COMM_RANK_MAX], n = 0;
    for (int r = 0; r < h->n; r++)
        if (!h->member[r].is_taken)
            at[n++] = r;
    for (int i = 0; i < n; i++)
        hall_leave(h, at[i]);
}

static void leave_inner(struct hall *h)
{
    for (struct hall *in = h->inner, *next; in; in = next) {
        next = in->next;
        leave_free_seats(in);
    }
}

void hall_leave(struct hall *h, int rank)
{
    if (rank >= 0)
        atomic_store(&h->member[rank].has_left, true);
    ring(h);
    if (atomic_fetch_sub(&h->n_end, 1) > 1)
        return;
    leave_inner(h);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->bell);
    mem_free(h->stage);
    mem_free(h->member);
    free(h->mail);
    free(h);
}

/* What a look finds; HALL_LATE: nothing yet. A rank that left may have passed before it did. */
static enum hall_wait look(struct hall *h, atomic_uint_fast64_t *counter, uint64_t value, int who)
{
    bool left = atomic_load(&h->member[who].has_left);
    if (atomic_load(counter) > value)
        return HALL_PASSED;
    if (atomic_load(&h->is_broken))
        return HALL_BROKEN;
    return left ? HALL_LEFT : HALL_LATE;
}

/* The deadline is counted in naps, so that time in which the whole process stood still (it was
 * stopped, or its machine was) is not held against the others. */
static enum hall_wait sleep_until(struct hall *h, atomic_uint_fast64_t *counter, uint64_t value,
                                  int who, int64_t left_ns)
{
    enum hall_wait w;
    pthread_mutex_lock(&h->lock);
    atomic_fetch_add(&h->n_asleep, 1); /* before the look: who moves the counter sees one of them */
    while ((w = look(h, counter, value, who)) == HALL_LATE && left_ns > 0) {
        int64_t nap = left_ns < NAP_NS ? left_ns : NAP_NS, begin = clock_ns();
        clock_cond_wait(&h->bell, &h->lock, begin + nap);
        int64_t slept = clock_ns() - begin;
        left_ns -= slept < 2 * nap ? slept : 2 * nap;
    }
    atomic_fetch_sub(&h->n_asleep, 1);
    pthread_mutex_unlock(&h->lock);
    return w;
}

enum hall_wait hall_wait_past(struct hall *h, atomic_uint_fast64_t *counter, uint64_t value,
                              int who, int64_t deadline_ns)
{
    enum hall_wait w = look(h, counter, value, who);
    if (w != HALL_LATE)
        return w;
    int64_t begin = clock_ns();
    while (h->spin_ns && clock_ns() - begin < h->spin_ns)
        for (int i = 0; i < SPIN_LOOKS; i++)
            if ((w = look(h, counter, value, who)) != HALL_LATE)
                return w;
    return sleep_until(h, counter, value, who, deadline_ns);
}

void hall_move(struct hall *h, atomic_uint_fast64_t *counter, uint64_t value)
{
    atomic_store(counter, value);
    if (atomic_load(&h->n_asleep) > 0)
        ring(h);
}

bool hall_copy_begin(struct hall *h, int rank)
{
    atomic_store(&h->member[rank].is_copying, true); /* before the look: see hall_quiet */
    if (!atomic_load(&h->is_broken))
        return true;
    atomic_store(&h->member[rank].is_copying, false);
    return false;
}

void hall_copy_end(struct hall *h, int rank)
{
    atomic_store(&h->member[rank].is_copying, false);
}

void hall_quiet(struct hall *h, int rank)
{
    for (int r = 0; r < h->n; r++)
        while (r != rank && atomic_load(&h->member[r].is_copying))
            sched_yield();
}

int hall_break(struct hall *h, struct err *e)
{
    pthread_mutex_lock(&h->lock);
    if (!atomic_load(&h->is_broken)) {
        h->why = *e;
        atomic_store(&h->is_broken, true);
    }
    *e = h->why;
    for (struct hall *in = h->inner; in; in = in->next) {
        struct err why = *e;
        hall_break(in, &why);
    }
    pthread_cond_broadcast(&h->bell);
    pthread_mutex_unlock(&h->lock);
    return -1;
}

int hall_check(struct hall *h, struct err *e)
{
    if (!atomic_load(&h->is_broken))
        return 0;
    pthread_mutex_lock(&h->lock);
    err_set(e, h->why.code, "%s", h->why.msg);
    pthread_mutex_unlock(&h->lock);
    return -1;
}
