/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI as a plug: Open MPI or MPICH. Built into libtandem_mpi.so where mpicc is, and into nothing
 * else. One thread at a time calls MPI, which may not be the one that opened it.
 *
 * What is under way cannot be taken back, a collective not at all and the rest not for sure: there
 * is no `drop`. Nor has a collective of MPI room to say what it is for: each kind has a
 * communicator of its own, so that different ones wait for each other in vain instead of being
 * taken for one.
 */
#include <mpi.h>
#include <stdio.h>

#include "engine/comm/plug.h"

enum { PLACES = 8, KINDS = 8 };

struct wire {
    MPI_Comm comm;      /* for what goes from one to one */
    MPI_Comm of[KINDS]; /* by what a collective is for */
    MPI_Request request[PLACES];
    int is_world;
};

/* The communicators are a meeting of all. */
static struct wire *wire_new(MPI_Comm comm, int is_world)
{
    struct wire *w; /* the plug has no allocator but the library's */
    if (MPI_Alloc_mem(sizeof *w, MPI_INFO_NULL, &w) != MPI_SUCCESS)
        return NULL;
    *w = (struct wire){.comm = comm, .is_world = is_world};
    for (int i = 0; i < PLACES; i++)
        w->request[i] = MPI_REQUEST_NULL;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN); /* and of what is made of it */
    for (int i = 0; i < KINDS; i++)
        if (MPI_Comm_dup(comm, &w->of[i]) != MPI_SUCCESS)
            return NULL;
    return w;
}

static struct wire *wire_open(char *text, size_t size)
{
    int have, was = 0;
    MPI_Initialized(&was);
    if (!was && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &have) != MPI_SUCCESS) {
        snprintf(text, size, "MPI does not start");
        return NULL;
    }
    MPI_Query_thread(&have);
    if (have < MPI_THREAD_SERIALIZED) {
        snprintf(text, size, "this MPI takes calls from its first thread only");
        return NULL;
    }
    struct wire *w = wire_new(MPI_COMM_WORLD, 1);
    if (!w)
        snprintf(text, size, "no memory");
    return w;
}

/* Ending MPI is a meeting of all: where one is gone, the process just ends, and the launcher ends
 * the others. */
static void wire_close(struct wire *w, int is_broken)
{
    int is_world = w->is_world;
    if (is_broken)
        return; /* requests may still write into it */
    for (int i = 0; i < KINDS; i++)
        MPI_Comm_free(&w->of[i]);
    if (!is_world)
        MPI_Comm_free(&w->comm);
    MPI_Free_mem(w);
    if (is_world)
        MPI_Finalize();
}

static int wire_rank(const struct wire *w)
{
    int r;
    MPI_Comm_rank(w->comm, &r);
    return r;
}

static int wire_size(const struct wire *w)
{
    int n;
    MPI_Comm_size(w->comm, &n);
    return n;
}

static struct wire *wire_split(struct wire *w, int colour, const int *member, int n)
{
    MPI_Comm c = MPI_COMM_NULL;
    (void)member, (void)n; /* in the order of their ranks */
    if (MPI_Comm_split(w->comm, colour < 0 ? MPI_UNDEFINED : colour, wire_rank(w), &c) ||
        c == MPI_COMM_NULL)
        return NULL;
    return wire_new(c, 0);
}

static int wire_gather(struct wire *w, int place, unsigned what, const void *in, void *out,
                       size_t bytes)
{
    const char *own = (const char *)out + (size_t)wire_rank(w) * bytes;
    return MPI_Iallgather(in == own ? MPI_IN_PLACE : in, (int)bytes, MPI_BYTE, out, (int)bytes,
                          MPI_BYTE, w->of[what % KINDS], &w->request[place]);
}

static int wire_exchange(struct wire *w, int place, unsigned what, const void *in, void *out,
                         size_t bytes)
{
    return MPI_Ialltoall(in, (int)bytes, MPI_BYTE, out, (int)bytes, MPI_BYTE, w->of[what % KINDS],
                         &w->request[place]);
}

static int wire_broadcast(struct wire *w, int place, unsigned what, void *x, size_t bytes, int from)
{
    return MPI_Ibcast(x, (int)bytes, MPI_BYTE, from, w->of[what % KINDS], &w->request[place]);
}

static int wire_send(struct wire *w, int place, const void *in, size_t bytes, int to)
{
    return MPI_Isend(in, (int)bytes, MPI_BYTE, to, 0, w->comm, &w->request[place]);
}

static int wire_receive(struct wire *w, int place, void *out, size_t bytes, int from)
{
    return MPI_Irecv(out, (int)bytes, MPI_BYTE, from, 0, w->comm, &w->request[place]);
}

static int wire_test(struct wire *w, int place)
{
    int done = 0;
    return MPI_Test(&w->request[place], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS ? -1 : done;
}

static int wire_missing(const struct wire *w, int place)
{
    (void)w, (void)place;
    return -1;
}

extern const struct comm_plug tandem_comm_plug;

const struct comm_plug tandem_comm_plug = {.abi = COMM_PLUG_ABI,
                                           .name = "mpi",
                                           .open = wire_open,
                                           .close = wire_close,
                                           .rank = wire_rank,
                                           .size = wire_size,
                                           .split = wire_split,
                                           .gather = wire_gather,
                                           .exchange = wire_exchange,
                                           .broadcast = wire_broadcast,
                                           .send = wire_send,
                                           .receive = wire_receive,
                                           .test = wire_test,
                                           .missing = wire_missing};
