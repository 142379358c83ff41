/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a training. Those that share the model are a tensor group, which the model knows
 * (model.ranks). Of the rows of a step each tensor group has its own; rank t of all of them are a
 * data group, whose ranks have the same part of the model, add up their gradients, and each keep
 * and update a part of it. With T ranks in a tensor group rank r of all is rank r % T of its tensor
 * group and rank r / T of its data group.
 *
 * All ranks have the same options and the same rows and take the same steps; each computes what
 * is its own. What decides how they go on (the loss, the norm, an end that is wanted) has the same
 * bits at all of them. Rank 0 alone is heard and touches files.
 *
 * Where training runs beside serving the ranks that serve train, too, in a group of their own
 * (engine/run/crew.h): `model` is that group, since the model's own is serving's.
 *
 * An error that a call of all ranks returns and that leaves `all` unbroken is the same at all: they
 * go on together, to another end. What fails at one rank alone is told to all where they meet next
 * (train_agree, train_broadcast_end), or breaks the group.
 *
 * Waits for ranks that may be at other work (rows of another length, a checkpoint) are patient:
 * they end when it is done, or when somebody is gone.
 *
 * Thread: that of the trainer.
 */
#ifndef ENGINE_TRAIN_RANKS_H
#define ENGINE_TRAIN_RANKS_H

#include "engine/comm/comm.h"

struct train_ranks {
    struct comm *all, *data; /* borrowed; NULL: alone, or on paper */
    struct comm *model;    /* borrowed: who shares the model, in training; NULL: the model's own */
    int data_rank, n_data; /* n_data 0: one */
};

static inline int train_n_data(const struct train_ranks *r)
{
    return r->n_data > 1 ? r->n_data : 1;
}

static inline bool train_is_lead(const struct train_ranks *r)
{
    return !r->all || comm_rank(r->all) == 0;
}

/* What rank 0 has in x, at all. */
int train_broadcast(const struct train_ranks *r, void *x, size_t bytes, struct err *e);

/* Behind what rank 0 did alone: how it ended there (rc, *e) is how it ended at all. */
int train_broadcast_end(const struct train_ranks *r, int rc, struct err *e);

/* Behind what each did: where any failed all fail, with the words of the first that did. */
int train_agree(const struct train_ranks *r, int rc, struct err *e);

#endif
