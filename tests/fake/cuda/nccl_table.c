/* SPDX-License-Identifier: Apache-2.0
 *
 * See nccl_act.h. The counters are the only words that two processes write and read at once; what a
 * seat and a room hold is written before `n_put` says so, and read before `n_taken` does.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/fake/cuda/nccl_act.h"

enum { ROOM_BYTES = 64 << 20, DRIVEN_MOST = 64 };
enum { TURN_NS = 200000, IDLE_TURN_NS = 1000000, IDLE_TURNS = 100 };

struct part {
    int peer;
    size_t n, at; /* bytes of the room */
};

struct seat {
    _Atomic int pid; /* 0: has not come */
    _Atomic uint64_t n_put, n_taken;
    bool gathers;
    int n_sent;
    struct part sent[TRANSFERS];
};

struct shared {
    struct seat seat[RANKS];
};

struct table {
    struct shared *shared; /* mapped, with the rooms behind it */
    char *room;            /* [n, ROOM_BYTES] */
    int n, rank;
    uint64_t n_act;
};

static size_t head_bytes(void)
{
    return (sizeof(struct shared) + 4095) / 4096 * 4096;
}

static size_t all_bytes(void)
{
    return head_bytes() + (size_t)RANKS * ROOM_BYTES;
}

ncclResult_t table_make(ncclUniqueId *id)
{
    int fd = memfd_create("fake NCCL", MFD_CLOEXEC); /* stays open as long as the process lives */
    if (fd < 0 || ftruncate(fd, (off_t)all_bytes()))
        return ncclSystemError;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/proc/%d/fd/%d", (int)getpid(), fd);
    return ncclSuccess;
}

struct table *table_open(const ncclUniqueId *id, int n, int rank)
{
    int fd = open(id->internal, O_RDWR | O_CLOEXEC);
    void *p =
        fd < 0 ? MAP_FAILED : mmap(NULL, all_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (p == MAP_FAILED)
        return NULL;
    struct table *t = calloc(1, sizeof *t);
    *t = (struct table){.shared = p, .room = (char *)p + head_bytes(), .n = n, .rank = rank};
    atomic_store(&t->shared->seat[rank].pid, (int)getpid());
    return t;
}

void table_close(struct table *t)
{
    if (t)
        munmap(t->shared, all_bytes());
    free(t);
}

bool table_is_full(const struct table *t)
{
    for (int r = 0; r < t->n; r++)
        if (!atomic_load(&t->shared->seat[r].pid))
            return false;
    return true;
}

bool table_is_shared(const struct table *t)
{
    for (int r = 1; r < t->n; r++)
        if (atomic_load(&t->shared->seat[r].pid) != atomic_load(&t->shared->seat[0].pid))
            return true;
    return false;
}

/* ---- a collective -------------------------------------------------------------------------- */

static void add(struct table *t, size_t *at, const char *from, size_t n, int peer)
{
    struct seat *own = &t->shared->seat[t->rank];
    if (n > ROOM_BYTES - *at) {
        fprintf(stderr, "fake NCCL: more than %d bytes of one rank\n", ROOM_BYTES);
        abort();
    }
    memcpy(t->room + (size_t)t->rank * ROOM_BYTES + *at, from, n);
    own->sent[own->n_sent++] = (struct part){peer, n, *at};
    *at += n;
}

static void put(struct table *t, const struct op *o)
{
    struct seat *own = &t->shared->seat[t->rank];
    size_t at = 0;
    own->gathers = o->out;
    own->n_sent = 0;
    fake_memory_open();
    if (o->out)
        add(t, &at, o->in, o->n, -1);
    for (int i = 0; i < o->n_transfer; i++)
        if (o->transfer[i].sends)
            add(t, &at, o->transfer[i].p, o->transfer[i].n, o->transfer[i].peer);
    fake_memory_close();
    atomic_store(&own->n_put, ++t->n_act);
}

/* n bytes that `from` has for `to`; false: it has others. */
static bool get(const struct table *t, int from, int to, char *p, size_t n)
{
    const struct seat *s = &t->shared->seat[from];
    for (int i = 0; i < s->n_sent; i++)
        if (s->sent[i].peer == to && s->sent[i].n == n) {
            memcpy(p, t->room + (size_t)from * ROOM_BYTES + s->sent[i].at, n);
            return true;
        }
    return false;
}

static ncclResult_t take(const struct table *t, const struct op *o)
{
    bool is_good = true;
    fake_memory_open();
    for (int r = 0; r < t->n && o->out; r++)
        is_good =
            is_good && t->shared->seat[r].gathers && get(t, r, -1, o->out + (size_t)r * o->n, o->n);
    for (int i = 0; i < o->n_transfer; i++)
        if (!o->transfer[i].sends)
            is_good =
                is_good && get(t, o->transfer[i].peer, t->rank, o->transfer[i].p, o->transfer[i].n);
    fake_memory_close();
    return is_good ? ncclSuccess : ncclInvalidUsage;
}

bool table_step(struct table *t, const struct op *o, ncclResult_t *rc)
{
    struct seat *seat = t->shared->seat, *own = &seat[t->rank];
    bool has_put = atomic_load(&own->n_put) > atomic_load(&own->n_taken);
    for (int r = 0; r < t->n; r++)
        if (!has_put && atomic_load(&seat[r].n_taken) < t->n_act)
            return false;
    if (!has_put)
        put(t, o);
    for (int r = 0; r < t->n; r++)
        if (atomic_load(&seat[r].n_put) < t->n_act)
            return false;
    *rc = take(t, o);
    atomic_store(&own->n_taken, t->n_act);
    return true;
}

/* ---- streams that run by themselves -------------------------------------------------------- */

static cudaStream_t *driven[DRIVEN_MOST]; /* borrowed, under the twin's lock */
static int n_driven;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Whoever has had nothing to do for some time looks less often: most of a test is that. */
static void *drive(void *arg)
{
    (void)arg;
    for (int n_idle = 0;;) {
        long turn_ns = n_idle < IDLE_TURNS ? TURN_NS : IDLE_TURN_NS;
        nanosleep(&(struct timespec){.tv_nsec = turn_ns}, NULL);
        cudaError_t rc = fake_look();
        n_idle += n_idle < IDLE_TURNS;
        for (int i = 0; i < n_driven && !rc; i++)
            while (*driven[i] && stream_step(*driven[i]))
                n_idle = 0;
        fake_end(rc);
    }
    return NULL;
}

static void start(void)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, drive, NULL))
        pthread_detach(thread);
}

void table_drive(cudaStream_t *s)
{
    if (n_driven == DRIVEN_MOST)
        abort();
    driven[n_driven++] = s;
    pthread_once(&once, start);
}

void table_leave(cudaStream_t *s)
{
    for (int i = 0; i < n_driven; i++)
        if (driven[i] == s) {
            driven[i] = driven[--n_driven];
            return;
        }
}
