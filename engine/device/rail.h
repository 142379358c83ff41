/* SPDX-License-Identifier: Apache-2.0
 *
 * Rails: bytes between the memories of the devices of several ranks, in the order of a stream, by a
 * library of the devices' vendor. What a rail puts on a stream may be kept (replay_begin). It
 * moves bytes and adds nothing up: engine/comm/fabric.h does, with our own kernel.
 *
 * Each rank has one end, and gives the same calls in the same order as the others. Nobody meets on
 * the host: who does not come is missed when a stream, an event or memory is waited for. Each call
 * has its deadline, counted from the end of the one before it; past it, or when `watch` says so,
 * the rail is broken: what waits on the device is ended, stream_sync answers with the reason, and
 * every later call does nothing. At most RAIL_FLIGHT calls are under way (a kept step is one):
 * who gives more waits for the oldest.
 *
 * Thread: a rail's calls are those of its stream's thread; watch and fail are called by whoever
 * waits for the device.
 */
#ifndef ENGINE_DEVICE_RAIL_H
#define ENGINE_DEVICE_RAIL_H

#include "engine/device/device.h"

enum { RAIL_ID_BYTES = 128, RAIL_FLIGHT = 8 };

struct rail;

/* Known to all ends of one rail: made at one, brought to the others. */
struct rail_id {
    char bytes[RAIL_ID_BYTES];
};

struct rail_options {
    int rank, size;
    struct rail_id id;
    int64_t deadline_ns;                       /* of each call */
    int64_t join_ns;                           /* of rail_new, which waits for all ends */
    int (*watch)(void *ctx, struct err *e);    /* 0, or why there is nobody to wait for */
    void (*fail)(void *ctx, const char *text); /* told once, when the rail breaks */
    void *ctx;                                 /* borrowed */
};

/* 0 where the device's vendor has a library here; what it is goes to `about` (NULL: nobody asks).
 */
int rail_check(struct device *d, char *about, size_t size, struct err *e);

int rail_id_make(struct device *d, struct rail_id *id, struct err *e);
struct rail *rail_new(struct device *d, const struct rail_options *o, struct err *e);
void rail_free(struct rail *r); /* NULL is fine */

/* out[size, bytes] becomes all in[bytes]; in may be its own place in out. longer_ns: beyond the
 * deadline, for others' work of which that is known. */
void rail_gather(struct rail *r, struct stream *s, const void *in, void *out, size_t bytes,
                 int64_t longer_ns);

/* Part k of in, of `part` bytes (the last ones less, or nothing: in has `all`), goes to rank k;
 * out[size, part] becomes this rank's part of all of them, as much of it as there is. */
void rail_exchange(struct rail *r, struct stream *s, const void *in, void *out, size_t part,
                   size_t all, int64_t longer_ns);

/* 0, or why it is broken. */
int rail_state(struct rail *r, struct err *e);

#endif
