/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives: what several ranks do together. A rank has one end of a group (struct comm) and
 * starts the same collectives in the same order as the others; who does another one, or with
 * another length, is told so. Behind the table stand `self` (one rank), `local` (threads of one
 * process over shared memory) and `wired` (processes, over a plug such as MPI: engine/comm/plug.h).
 *
 * Sums are taken in the order of the ranks, element by element, whatever arrives first and whatever
 * carries it: ((x0 + x1) + x2) + x3. So a result has the same bits on every rank, in every run, and
 * over threads as over processes.
 *
 * A rank that is gone or stands still never hangs the others: each wait has a deadline, and the
 * first that passes breaks the group. A broken group stays so; every later call fails at once with
 * the same words, which name the collective and who was missing.
 *
 * A collective may be started, and finished later; finishing goes in the order of the starts.
 *
 * Groups of a group (comm_split) may be used beside it, each by a thread of its own: none waits for
 * another. Where ranks share CPUs or a gate, who waits can let others go first (comm_around).
 *
 * Thread: one end belongs to one thread at a time. comm_abort, comm_check: any.
 */
#ifndef ENGINE_COMM_COMM_H
#define ENGINE_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

enum { COMM_RANK_MAX = 64, COMM_FLIGHT = 8, COMM_DEADLINE_MS = 8000 };

enum comm_kind {
    COMM_ALL_REDUCE,     /* out[n] = the sum of all in[n]; floats */
    COMM_REDUCE_SCATTER, /* out[n] = this rank's part of the sum of all in[size, n]; floats */
    COMM_ALL_GATHER,     /* out[size, n] = all in[n]; bytes */
    COMM_BROADCAST,      /* out[n] = the out[n] of rank `peer`; bytes */
    COMM_SEND,           /* in[n] goes to rank `peer`; bytes */
    COMM_RECEIVE,        /* out[n] comes from rank `peer`; bytes */
    COMM_BARRIER,
    COMM_KIND_COUNT
};

/* in may be out where both have the same length; of a gather it may be its own place in out. Both
 * stay as they are until the collective is finished. */
struct comm_job {
    enum comm_kind kind;
    int peer;
    const void *in;
    void *out;
    size_t n;
    bool is_patient; /* waits as long as it takes, but for who is gone: for work that may come */
    int64_t
        longer_ms; /* than the deadline: for others' work of which it is known how long it takes */
};

struct comm;

struct comm_options {
    int64_t deadline_ms; /* of each wait; 0: COMM_DEADLINE_MS */
};

/* One rank. */
struct comm *comm_self_new(void);

/* The ends of a group of n threads. The group lives until its last end is freed. */
int comm_local_new(int n, const struct comm_options *o, struct comm **end, struct err *e);

/* This process's end of the group of all processes that were started with it; NULL: it was started
 * alone (engine/comm/launch.h). Once in a process. */
int comm_launched_new(const struct comm_options *o, struct comm **c, struct err *e);

/* The same over the plug `name` ("mpi", "tcp"). */
struct comm *comm_wired_new(const char *name, const struct comm_options *o, struct err *e);

/* Leaves the group: who still waits for this rank is told that it left. NULL is fine. */
void comm_free(struct comm *c);

int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
const char *comm_name(const struct comm *c); /* "self", "local", "mpi", "tcp" */
const char *comm_kind_name(enum comm_kind k);

/* At most COMM_FLIGHT are under way. After a failure of either the group is broken. */
int comm_start(struct comm *c, const struct comm_job *j, struct err *e);
int comm_finish(struct comm *c, struct err *e); /* the oldest that was started */

/* Starts j and finishes it, and what was started before it. */
int comm_run(struct comm *c, const struct comm_job *j, struct err *e);

int comm_all_reduce(struct comm *c, float *x, size_t n, struct err *e);
int comm_all_gather(struct comm *c, const void *in, void *out, size_t bytes, struct err *e);
int comm_broadcast(struct comm *c, void *x, size_t bytes, int from, struct err *e);
int comm_barrier(struct comm *c, struct err *e);

/* Ranks that give the same colour form a group, in their order here; -1: in none, *out is NULL. A
 * collective of all. */
int comm_split(struct comm *c, int colour, struct comm **out, struct err *e);

/* Waits of this end take as long as it takes from here on, but for who is gone: for a group whose
 * ranks miss each other by other means, and then abort it. */
void comm_be_patient(struct comm *c);

/* Calls leave(ctx) before this end waits for others, and back(ctx) behind: so that who waits need
 * not keep from them what they come by. NULL: no more. */
void comm_around(struct comm *c, void (*leave)(void *ctx), void (*back)(void *ctx), void *ctx);

/* Breaks the group: all that wait, and all that come, fail with "rank R gave up: WHY". Other
 * processes are not told so: this one is to end, and its launcher ends the others. Behind it nobody
 * touches the memory of what was under way at this end. */
void comm_abort(struct comm *c, const char *why);

/* 0, or what broke the group. */
int comm_check(const struct comm *c, struct err *e);

/* What this end did so far. */
struct comm_stat {
    uint64_t n_job[COMM_KIND_COUNT];
    uint64_t bytes;  /* that this rank sent away, as the least that a collective can do with */
    int64_t wait_ns; /* in comm_start and comm_finish */
};

struct comm_stat comm_stat(const struct comm *c);

/* The least bytes that one of `size` ranks sends away for a job. */
double comm_job_bytes(const struct comm_job *j, int size);

#endif
