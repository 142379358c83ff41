/* SPDX-License-Identifier: Apache-2.0
 *
 * What rank 0 sends the ranks that follow it: an order of fixed size, and behind it what it speaks
 * of. Both sides agree on how a batch lies in bytes.
 *
 * Thread: that of the model's comm.
 */
#ifndef ENGINE_RUN_ORDER_H
#define ENGINE_RUN_ORDER_H

#include "engine/comm/comm.h"
#include "engine/model/adapter.h"
#include "engine/run/runner.h"

enum order_kind {
    ORDER_RUNNER,  /* make a runner of these options */
    ORDER_STEP,    /* run a batch, which follows */
    ORDER_FREE,    /* free the runner */
    ORDER_ADAPTER, /* news of an adapter; its numbers follow */
    ORDER_PING,    /* say that you are there */
    ORDER_DISMISS
};

struct order {
    int64_t kind, n[DIM_COUNT];
    uint64_t bytes; /* of a batch */
    struct runner_options runner;
    struct {
        int64_t kind, product; /* enum adapter_news_kind */
        uint64_t version;
    } adapter;
    int64_t is_watched; /* of a ping: another will come soon, and who misses it may leave */
};

/* Sends bytes that rank 0 has, who waits for the others no longer than for any collective; they
 * wait as long as it takes where that is wanted. */
int order_pass(struct comm *c, void *x, size_t bytes, bool is_patient, struct err *e);

/* A group of a batch's rows, as it is sent. */
struct order_group {
    int64_t row_lo, row_hi;
    uint64_t version; /* of the adapter; 0: none */
};

/* Bytes that a batch of these capacities can take. */
size_t order_batch_room(const struct batch *b, const int64_t *cap);

/* Writes all of a batch of b->n to `room`; the bytes of it. */
size_t order_batch_put(struct batch *b, char *room);

/* Reads a batch of b->n; its groups, [n[DIM_GROUP]], are left to who knows adapters. */
void order_batch_get(struct batch *b, char *room, const struct order_group **group);

#endif
