/* SPDX-License-Identifier: Apache-2.0
 *
 * A process's sockets to all others of its group, and the frames on them. A frame says of which
 * wire (a group, or a group of a group) and of which act it is; so what comes before it is waited
 * for is kept, and acts may be under way beside each other. It says what the act is, too: one that
 * is something else at its receiver is told so. Nothing here blocks.
 *
 * Frames that are waited for are read into the place where they are wanted, and frames to be sent
 * are written from where they lie.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_COMM_TCP_LINK_H
#define ENGINE_COMM_TCP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/comm/comm.h"

struct link;

/* One act's frames: `bytes` from each rank of `from`, and what it sends. The owner's; it stays
 * where it is from link_wait until link_test is done with it. */
struct link_act {
    uint64_t wire, tag;
    uint64_t from;           /* bits: ranks whose frame has not come whole */
    char *to[COMM_RANK_MAX]; /* by rank */
    uint32_t bytes, what;    /* what: of each frame the same */
    uint64_t out;            /* bits: ranks whose frame was not written whole */
    int misfit;              /* 1 + a rank whose frame is of another length or kind; 0: none */
    bool waits;
};

/* fd: owned from here on; non-blocking; [n] by rank, -1 for the own. */
struct link *link_new(int rank, int n, const int *fd);
struct link *link_ref(struct link *l);
void link_unref(struct link *l);
void link_stop(struct link *l); /* touches no act's memory any more; every act fails */
void link_cut(struct link *l);  /* closes every socket: whoever waits for us misses us at once */

int link_rank(const struct link *l);

void link_send(struct link *l, struct link_act *a, int to, const void *data);
void link_wait(struct link *l, struct link_act *a);

/* Moves what can be moved. 1: all came and all is written, and the act is out of the link; 0: not
 * yet; -1: not any more, and so for every act from here on; -2: nor would it fit. Behind a failure
 * the link touches no act's memory. */
int link_test(struct link *l, struct link_act *a);

/* A rank that an act waits for, one that is gone before others, or that it failed for; -1: none. */
int link_missing(const struct link *l, const struct link_act *a);

#endif
