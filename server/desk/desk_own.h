/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the desk share.
 *
 * Thread: as desk.h says.
 */
#ifndef SERVER_DESK_DESK_OWN_H
#define SERVER_DESK_DESK_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/desk/desk.h"

struct desk {
    struct desk_options opt;
    struct store *store;   /* owned */
    struct jobs *jobs;     /* owned; NULL: not yet */
    struct engine *engine; /* borrowed */
    atomic_bool is_open;
    pthread_mutex_t lock;     /* of what of an errand goes between threads, and of claims */
    struct errand *asking;    /* borrowed: those that ask others and run, under the lock */
    bool is_left;             /* under the lock: they give up */
    struct desk_claim *claim; /* borrowed: all of them, under the lock */
};

/* desk_house.c */
bool desk_keep_house(struct desk *d); /* the desk's thread, now and then; true: there is more */
void desk_copy_store(struct desk *d); /* a thread of its own, now and then: it takes its time */
int desk_sweep(struct desk *d, struct err *e); /* before anybody writes files */

bool desk_is_open(const struct desk *d);
void desk_put(struct desk *d, struct errand *t); /* with a reference to its call */

#endif
