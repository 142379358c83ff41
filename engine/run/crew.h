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
    const struct model_dir *dir; /* borrowed until crew_ready */
    struct model_options model;  /* share and pool are the crew's */
    const char *kernels;         /* as in kernel_table_init */
    int n_rank;                  /* threads; unused where there is a comm */
    int n_thread;                /* compute threads of each rank */
    struct comm *comm;           /* owned from here on: this process's end among others; NULL */
};

/* Starts the others, who begin to load. */
struct crew *crew_new(const struct crew_options *o, struct err *e);

/* What rank 0 loads with; for the crew's life. */
const struct model_share *crew_share(const struct crew *c);

/* Waits until all have loaded. */
int crew_ready(struct crew *c, struct err *e);

/* Lets the others go and waits for them. m: rank 0's model, NULL where it could not be loaded; it
 * has no runner any more. NULL is fine. */
void crew_free(struct crew *c, const struct model *m);

/* The life of a process that is not rank 0, with its end of the group, which it frees: loads its
 * part, follows, and returns when it was dismissed. */
int crew_follow(const struct crew_options *o, struct err *e);

#endif
