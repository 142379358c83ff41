/* SPDX-License-Identifier: Apache-2.0
 *
 * What carries a fabric's bytes: one table, and the struct that its own begin with.
 *
 * Thread: as engine/comm/fabric.h.
 */
#ifndef ENGINE_COMM_FABRIC_WAY_H
#define ENGINE_COMM_FABRIC_WAY_H

#include "engine/comm/fabric.h"

struct fabric;

/* As rail_gather and rail_exchange; j says how patient this one is. */
struct fabric_way {
    const char *name;
    bool may_be_kept;
    int (*gather)(struct fabric *f, struct stream *s, const struct comm_job *j, const void *in,
                  void *out, size_t bytes, struct err *e);
    int (*exchange)(struct fabric *f, struct stream *s, const struct comm_job *j, const void *in,
                    void *out, size_t part, size_t all, struct err *e);
    void (*free)(struct fabric *f);
};

struct fabric {
    const struct fabric_way *way; /* constant */
    struct comm *comm;            /* borrowed */
    struct device *device;        /* borrowed */
    float *room;                  /* owned, the device's: [n_room] */
    size_t n_room;                /* floats */
};

/* Collectives of all ranks. NULL: what failed was told to all. */
struct fabric *fabric_rail_new(struct comm *c, struct device *d, struct err *e);
struct fabric *fabric_near_new(struct comm *c, struct device *d, struct err *e);

#endif
