/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks that share a model, as rank 0 sees them: threads of this process with compute threads
 * and a part of the model of their own, or processes that were started together. Each rank reads
 * its part of the files only.
 *
 * Thread: rank 0's.
 */
#ifndef ENGINE_RUN_CREW_H
#define ENGINE_RUN_CREW_H

#include "engine/model/model.h"

struct crew;

struct crew_options {
    const struct model_dir *dir;  /* borrowed until crew_ready */
    struct model_options model;   /* share and pool are the crew's */
    const char *device, *kernels; /* as in device_open; rank r takes the r-th GPU */
    int n_rank;                   /* threads; unused where there is a comm */
    int n_thread;                 /* compute threads of each rank */
    struct comm *comm;            /* owned from here on: this process's end among others; NULL */
};

/* Starts the others, who begin to load. */
struct crew *crew_new(const struct crew_options *o, struct err *e);

/* What rank 0 loads with; for the crew's life. */
const struct model_share *crew_share(const struct crew *c);

/* Waits until all have loaded. m: rank 0's model. */
int crew_ready(struct crew *c, const struct model *m, struct err *e);

/* Once all have loaded: the memory that is free to the rank that has least, where ranks on one host
 * have an equal part of it each; and the most that the keys and values of a token take at a rank.
 */
struct crew_memory {
    size_t free_bytes, kv_token_bytes;
};
struct crew_memory crew_memory(const struct crew *c);

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
