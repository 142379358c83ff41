/* SPDX-License-Identifier: Apache-2.0
 *
 * A job is published by raising `turn`; each thread claims pieces until none is left and then
 * reports by lowering `busy`. After a while without work a thread sleeps a little between looks, so
 * that an idle crew does not take the CPU from the one thread that is being measured.
 */
#include "tests/kernels/crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_THREAD = 256, SPINS = 200000 };

struct crew {
    int n;
    pthread_t thread[MAX_THREAD];
    cpu_set_t allowed;
    atomic_uint turn;
    atomic_int busy;
    atomic_int_fast64_t next;
    crew_fn *fn; /* NULL: end */
    void *ctx;   /* borrowed */
    int64_t n_unit, grain;
};

struct member {
    struct crew *w; /* borrowed */
    int index;
};

static void pin(const struct crew *w, int index)
{
    int seen = 0, n = CPU_COUNT(&w->allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE && n > 0; cpu++) {
        if (!CPU_ISSET(cpu, &w->allowed) || seen++ != index % n)
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        return;
    }
}

static void relax(int64_t spins)
{
    if (spins < SPINS) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else {
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static void claim(struct crew *w, int index)
{
    for (;;) {
        int64_t lo = atomic_fetch_add(&w->next, w->grain);
        if (lo >= w->n_unit)
            return;
        w->fn(w->ctx, lo, lo + w->grain < w->n_unit ? lo + w->grain : w->n_unit, index);
    }
}

static void *member_main(void *p)
{
    struct member *me = p;
    struct crew *w = me->w;
    int index = me->index;
    free(me);
    pin(w, index);
    for (unsigned seen = 0;; seen++) {
        for (int64_t spins = 0; atomic_load(&w->turn) == seen; spins++)
            relax(spins);
        if (!w->fn)
            return NULL;
        claim(w, index);
        atomic_fetch_sub(&w->busy, 1);
    }
}

struct crew *crew_new(int n_thread)
{
    struct crew *w = calloc(1, sizeof *w);
    if (!w || sched_getaffinity(0, sizeof w->allowed, &w->allowed) != 0)
        abort();
    w->n = n_thread > 0 ? n_thread : CPU_COUNT(&w->allowed);
    w->n = w->n < MAX_THREAD ? w->n : MAX_THREAD;
    for (int i = 1; i < w->n; i++) {
        struct member *m = malloc(sizeof *m);
        if (!m)
            abort();
        *m = (struct member){w, i};
        if (pthread_create(&w->thread[i], NULL, member_main, m) != 0) {
            perror("a thread for measuring");
            exit(1);
        }
    }
    pin(w, 0);
    return w;
}

static void publish(struct crew *w)
{
    atomic_store(&w->busy, w->n - 1);
    atomic_fetch_add(&w->turn, 1);
}

void crew_run(struct crew *w, crew_fn *fn, void *ctx, int64_t n_unit, int64_t grain)
{
    w->fn = fn;
    w->ctx = ctx;
    w->n_unit = n_unit;
    w->grain = grain > 0 ? grain : 1;
    atomic_store(&w->next, 0);
    publish(w);
    claim(w, 0);
    for (int64_t spins = 0; atomic_load(&w->busy) > 0; spins++)
        relax(0);
}

void crew_free(struct crew *w)
{
    w->fn = NULL;
    publish(w);
    for (int i = 1; i < w->n; i++)
        pthread_join(w->thread[i], NULL);
    pthread_setaffinity_np(pthread_self(), sizeof w->allowed, &w->allowed);
    free(w);
}

int crew_size(const struct crew *w)
{
    return w->n;
}
