/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks that share a model, as rank 0 sees them: threads of this process with compute threads
 * and a part of the model of their own, or processes that were started together. Each rank reads
 * its part of the files only.
 *
 * Beside serving the ranks can work together on the model (they train): each has a thread for it,
 * and a second group of the same ranks (beside serving). Rank 0 calls, the others begin what they
 * were given to do, and are back waiting when that is done.
 *
 * Two kinds of threads, one pair of them at each rank, with one gate: why they cannot wait for each
 * other in a ring. A serving thread S holds the gate for a step, and within it waits for other
 * ranks' S. A thread T beside it holds the gate only while it computes, in pieces of a millisecond,
 * and gives it back before it waits for other ranks' T (comm_around) or for a file. So whoever
 * waits for a gate that T has gets it within a piece; S therefore always comes to its collectives,
 * which all S meet in the order that rank 0 gave; so S gives its gate back, and T comes to its
 * own. The two groups never wait for each other, and each of them has one order for all ranks.
 * Rank 0's gate says how much T may compute beside S (engine/base/gate.h): at the others T has
 * something to do only when rank 0's T had its turn, and S goes first.
 *
 * T's waits have no deadline, since S may leave it little time. Who is gone is missed by S, which
 * then ends T; and a T that fails for reasons of its own ends S.
 *
 * Thread: rank 0's, but for crew_call: of who works beside.
 */
#ifndef ENGINE_RUN_CREW_H
#define ENGINE_RUN_CREW_H

#include "engine/model/model.h"

struct crew;
struct gate;

/* What a rank has beside serving. */
struct crew_rank {
    struct model *model;         /* that is served; its own comm is serving's */
    const struct model_dir *dir; /* borrowed */
    struct device *device;       /* borrowed */
    struct gate *gate;           /* borrowed: held while something is computed */
    struct comm *comm;           /* borrowed: of the ranks' threads beside serving */
};

/* 0: done, well or not, alike at all ranks; -1: this rank cannot go on. */
typedef int crew_work_fn(const struct crew_rank *s, struct err *e);

struct crew_options {
    const struct model_dir *dir;  /* borrowed */
    struct model_options model;   /* share and pool are the crew's */
    const char *device, *kernels; /* as in device_open; rank r takes the r-th GPU */
    int n_rank;                   /* threads; unused where there is a comm */
    int n_thread;                 /* compute threads of each rank */
    struct comm *comm;            /* owned from here on: this process's end among others; NULL */
    crew_work_fn *work;           /* of the others, when they are called; NULL: they never are */
};

/* Starts the others, who begin to load. */
struct crew *crew_new(const struct crew_options *o, struct err *e);

/* What rank 0 loads with; for the crew's life. */
const struct model_share *crew_share(const struct crew *c);

/* Waits until all have loaded. m: rank 0's model. */
int crew_ready(struct crew *c, const struct model *m, struct err *e);

/* Once all have loaded: the memory that is free to the rank that has least, where ranks on one GPU,
 * or on the CPU of one host, have an equal part of it each; and the most that the keys and values
 * of a token take at a rank, and a sequence's recurrent state. */
struct crew_memory {
    size_t free_bytes, kv_token_bytes, state_bytes;
    int n_sharer; /* ranks that have rank 0's memory between them, itself among them */
};
struct crew_memory crew_memory(const struct crew *c);

/* Rank 0's end of the group beside serving, from crew_ready on; borrowed. */
struct comm *crew_beside(const struct crew *c);

/* The others begin their work. */
int crew_call(struct crew *c, struct err *e);

/* Ranks of a group that run on this host, itself among them; a collective that waits as long as it
 * takes. */
int crew_count_here(struct comm *c, int *n, struct err *e);

/* Compute threads of a rank, of `wanted` of this process, or of all cores: n_rank threads share
 * them, and so do the processes of c (NULL: none) that run on one host; these ask each other, and
 * wait as long as it takes. */
int crew_threads(struct comm *c, int n_rank, int64_t wanted, int *n_thread, struct err *e);

/* Lets the others go and waits for them. m: rank 0's model, NULL where it could not be loaded; it
 * has no runner any more. NULL is fine. */
void crew_free(struct crew *c, const struct model *m);

/* The life of a process that is not rank 0, with its end of the group, which it frees: loads its
 * part, follows, and returns when it was dismissed. */
int crew_follow(const struct crew_options *o, struct err *e);

#endif
