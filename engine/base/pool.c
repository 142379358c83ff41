/* SPDX-License-Identifier: Apache-2.0
 *
 * A job is cut into pieces that are alike to a unit, as many for each thread where there are enough
 * units, since a thread that has one panel more than the others holds up all of a small product.
 * Each thread has a share of neighbouring pieces, the same share from job to job, so that rows
 * which one kernel wrote are near the thread that reads them in the next. A thread that is done
 * with its share takes from those of the others.
 *
 * `left` counts the pieces of a share that nobody claimed. A claim is one subtraction: who gets a
 * positive number back owns that piece, and the job's other fields cannot change until the piece
 * is done, since pool_run waits for it. A thread that comes late finds nothing left, or finds the
 * next job; both are right. So no thread has to check in, and one that the system does not run
 * holds up nobody.
 *
 * `undone` counts the pieces not finished; who brings it to zero wakes the caller, if that sleeps.
 * Both sides sleep on a futex after SPIN_NS. Each announces its sleep and then looks again, while
 * the other changes the word and then looks for sleepers; all four are sequentially consistent, so
 * one of the two sees the other.
 *
 * Rejected: a barrier that every thread passes (a stalled thread stalls the step), and one counter
 * for all (two threads then trade their rows through the last cache in every job).
 */
#include "engine/base/pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/machine.h"
#include "engine/base/mem.h"

enum {
    PIECES_PER_THREAD = 8, /* so that a slow thread leaves the others something to take over */
    SPIN_NS = 60 * 1000,
    SPIN_CHECK = 32, /* pauses between two looks at the clock */
    THREAD_MAX = 1024
};

struct pool_thread {
    /* The share, on a cache line of its own: pieces [end - left, end) are unclaimed. */
    alignas(64) _Atomic int32_t left;
    int32_t end;

    alignas(64) struct pool *pool; /* borrowed */
    pthread_t id;
    int index;
    int cpu, home; /* where it is kept, and where it belongs; -1: free */
};

struct pool {
    /* The job, on one cache line; written by the caller while no share has pieces left. */
    alignas(64) pool_fn *fn;
    void *ctx;
    int64_t n_unit, n_piece;
    _Atomic int caller_cpu;

    alignas(64) _Atomic uint32_t undone;
    _Atomic uint32_t caller_sleeps;

    alignas(64) _Atomic uint32_t wake; /* steps when sleepers must look again */
    _Atomic int32_t n_asleep;
    _Atomic bool stop, busy;

    alignas(64) int n_thread, n_started;
    int spare_cpu; /* for the thread at whose home the caller runs; -1: threads are free */
    long spin_ns;
    struct pool_thread *thread; /* owned; [0] is the caller's and has no id */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static bool has_left(const struct pool_thread *t)
{
    return atomic_load_explicit(&t->left, memory_order_relaxed) > 0;
}

/* The first unit of a piece. */
static int64_t piece_at(const struct pool *p, int64_t piece)
{
    return p->n_unit / p->n_piece * piece + p->n_unit % p->n_piece * piece / p->n_piece;
}

/* Claims and runs pieces of a share until none is left. */
static void work_on(struct pool *p, struct pool_thread *share, int thread)
{
    uint32_t n_done = 0;
    for (int32_t left; has_left(share) && (left = atomic_fetch_sub(&share->left, 1)) > 0;
         n_done++) {
        int64_t piece = share->end - left;
        p->fn(p->ctx, piece_at(p, piece), piece_at(p, piece + 1), thread);
    }
    if (n_done && atomic_fetch_sub(&p->undone, n_done) == n_done && thread &&
        atomic_load(&p->caller_sleeps))
        futex_wake(&p->undone, 1);
}

/* First what is its own, then what others have not got to. */
static void work(struct pool *p, int thread)
{
    for (int i = 0; i < p->n_thread; i++) {
        int share = thread + i < p->n_thread ? thread + i : thread + i - p->n_thread;
        work_on(p, &p->thread[share], thread);
    }
}

/* Called by the thread itself. */
static void keep_to_cpu(struct pool_thread *t, int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one); /* an advice: without it all still works */
    t->cpu = cpu;
}

/* The caller is not pinned. On a busy machine the system may leave it and one of the threads on
 * one CPU for long, which costs half of both; the thread goes to the CPU that is spare then. */
static void avoid_caller(struct pool_thread *t)
{
    const struct pool *p = t->pool;
    if (p->spare_cpu < 0)
        return;
    int caller = atomic_load_explicit(&p->caller_cpu, memory_order_relaxed);
    int cpu = t->home == caller ? p->spare_cpu : t->home;
    if (cpu != t->cpu)
        keep_to_cpu(t, cpu);
}

/* Whether something came while spinning. */
static bool spin_for_work(const struct pool_thread *t)
{
    const struct pool *p = t->pool;
    int64_t end = clock_ns() + p->spin_ns;
    do {
        for (int i = 0; i < SPIN_CHECK; i++) {
            if (has_left(t))
                return true;
            cpu_pause();
        }
    } while (!atomic_load_explicit(&p->stop, memory_order_relaxed) && clock_ns() < end);
    return false;
}

static void *thread_main(void *arg)
{
    struct pool_thread *t = arg;
    struct pool *p = t->pool;
    while (!atomic_load(&p->stop)) {
        if (has_left(t)) {
            avoid_caller(t);
            work(p, t->index);
        }
        if (spin_for_work(t))
            continue;
        uint32_t seen = atomic_load(&p->wake);
        atomic_fetch_add(&p->n_asleep, 1);
        if (atomic_load(&t->left) <= 0 && !atomic_load(&p->stop))
            futex_wait(&p->wake, seen);
        atomic_fetch_sub(&p->n_asleep, 1);
    }
    return NULL;
}

static void wake_sleepers(struct pool *p)
{
    if (atomic_load(&p->n_asleep) > 0) {
        atomic_fetch_add(&p->wake, 1);
        futex_wake(&p->wake, THREAD_MAX);
    }
}

static void wait_for_done(struct pool *p)
{
    int64_t end = 0;
    for (int i = 0;; i++) {
        if (!atomic_load(&p->undone))
            return;
        cpu_pause();
        if (i % SPIN_CHECK)
            continue;
        int64_t now = clock_ns();
        if (!end)
            end = now + p->spin_ns;
        else if (now >= end)
            break;
    }
    atomic_store(&p->caller_sleeps, 1);
    for (uint32_t undone; (undone = atomic_load(&p->undone)) != 0;)
        futex_wait(&p->undone, undone);
    atomic_store(&p->caller_sleeps, 0);
}

/* Thread t's share: the same part of every job. */
static void share_out(struct pool *p)
{
    int64_t begin = 0;
    for (int t = 0; t < p->n_thread; t++) {
        int64_t end = p->n_piece * (t + 1) / p->n_thread;
        p->thread[t].end = (int32_t)end;
        atomic_store(&p->thread[t].left, (int32_t)(end - begin));
        begin = end;
    }
}

/* How many pieces of at least `grain` units. */
static int64_t piece_count(const struct pool *p, int64_t n_unit, int64_t grain)
{
    int64_t most = (int64_t)p->n_thread * PIECES_PER_THREAD, n = n_unit / (grain > 1 ? grain : 1);
    if (n > most)
        return most;
    if (n > p->n_thread)
        return n / p->n_thread * p->n_thread;
    return n > 1 ? n : 1;
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx, int64_t n_unit, int64_t grain)
{
    if (n_unit <= 0)
        return;
    bool was_busy = atomic_exchange(&p->busy, true);
    ASSERT(!was_busy); /* neither two callers nor a job inside a job */
    int64_t n_piece = piece_count(p, n_unit, grain);
    if (n_piece == 1 || p->n_thread == 1) {
        fn(ctx, 0, n_unit, 0);
    } else {
        p->fn = fn;
        p->ctx = ctx;
        p->n_unit = n_unit;
        p->n_piece = n_piece;
        if (p->spare_cpu >= 0)
            atomic_store_explicit(&p->caller_cpu, sched_getcpu(), memory_order_relaxed);
        atomic_store(&p->undone, (uint32_t)n_piece);
        share_out(p);
        wake_sleepers(p);
        work(p, 0);
        wait_for_done(p);
    }
    atomic_store(&p->busy, false);
}

int pool_size(const struct pool *p)
{
    return p->n_thread;
}

static int start_thread(struct pool *p, int index, int home, struct err *e)
{
    struct pool_thread *t = &p->thread[index];
    t->pool = p;
    t->index = index;
    t->cpu = -1;
    t->home = home;
    int rc = pthread_create(&t->id, NULL, thread_main, t);
    if (rc) {
        errno = rc;
        return err_sys(e, "starting compute thread %d of %d", index, p->n_thread);
    }
    p->n_started++;
    char name[16];
    snprintf(name, sizeof name, "compute-%u", (unsigned)index % 10000u);
    pthread_setname_np(t->id, name);
    return 0;
}

struct pool *pool_new(int n_thread, bool pin, struct err *e)
{
    if (n_thread < 0 || n_thread > THREAD_MAX) {
        err_set(e, ERR_BAD_INPUT, "%d compute threads: 0 to %d are possible", n_thread, THREAD_MAX);
        return NULL;
    }
    struct pool *p = try_alloc(1, sizeof *p, "compute threads", e);
    if (!p)
        return NULL;
    int cpu[THREAD_MAX], n_cpu = machine_cpu_list(cpu, THREAD_MAX);
    p->n_thread = n_thread ? n_thread : machine_cores();
    p->n_started = 1;
    p->spin_ns = p->n_thread > machine_cpus() ? 0 : SPIN_NS; /* who spins holds up who works */
    p->thread = try_alloc((size_t)p->n_thread, sizeof *p->thread, "compute threads", e);
    if (!p->thread) {
        pool_free(p);
        return NULL;
    }
    p->spare_cpu = pin && p->n_thread <= n_cpu ? cpu[0] : -1;

    sigset_t all, before; /* signals are for the threads that expect them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = 0;
    while (!rc && p->n_started < p->n_thread)
        rc = start_thread(p, p->n_started, p->spare_cpu < 0 ? -1 : cpu[p->n_started], e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        pool_free(p);
        return NULL;
    }
    return p;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    atomic_fetch_add(&p->wake, 1);
    futex_wake(&p->wake, THREAD_MAX);
    for (int i = 1; i < p->n_started; i++)
        pthread_join(p->thread[i].id, NULL);
    mem_free(p->thread);
    mem_free(p);
}
