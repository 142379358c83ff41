/* SPDX-License-Identifier: Apache-2.0
 *
 * Where several ranks share a model, rank 0 leads: whoever uses its runners and adapters sees one
 * of each, and the others make, step and free theirs as they are told (engine/run/order.h). Before
 * each step rank 0 sends the counts and what is in the batch's arrays.
 *
 * A follower waits for orders as long as it takes, but ends when the leader is gone. A leader that
 * has a thread for it says every so often that it is there (lead_ping): so each side misses the
 * other within the group's deadline, also where there is nothing to do.
 *
 * Thread: that of the runner; follow() keeps its thread until the leader lets go.
 */
#ifndef ENGINE_RUN_LEAD_H
#define ENGINE_RUN_LEAD_H

#include "engine/model/adapter.h"
#include "engine/run/runner.h"

struct gate;

/* The leader's side, in its runner. Does nothing where nobody shares the model. */
struct lead {
    struct comm *comm;   /* borrowed; NULL: one rank */
    struct batch *batch; /* borrowed */
    char *room;          /* owned: a batch as it is sent */
    size_t room_bytes;
    bool leads; /* rank 0, whose followers have a runner */
};

/* At rank 0: tells the others to make a runner of these options. */
int lead_init(struct lead *l, struct batch *b, const struct runner_options *o,
              const struct model *m, struct err *e);
void lead_release(struct lead *l);
int lead_step(struct lead *l, struct err *e); /* sends the batch that is about to run */
/* Behind a step that was given to s; rc: how that went. Failed here, it ends the group. */
int lead_end(const struct lead *l, struct stream *s, int rc, struct err *e);

/* Passes on what rank 0 has to say of an adapter (ADAPTER_GONE, too, from this thread). */
int lead_adapter(const struct model *m, const struct adapter_news *n, struct err *e);

/* All ranks say that they are there. is_watched: another ping or order comes within a part of the
 * deadline; false: the next may be long in coming. */
int lead_ping(const struct model *m, bool is_watched, struct err *e);

/* Lets the followers of a model's group return. */
void lead_dismiss(const struct model *m);

/* A follower's life: 0 when it was dismissed. gate: held for each step; NULL: nobody else computes
 * here. */
int follow(const struct model *m, struct stream *s, struct gate *gate, struct err *e);

#endif
