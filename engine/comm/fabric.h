/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives on the memory of devices, in the order of a stream: nothing is waited for and nothing
 * passes through the host. A group of ranks (struct comm) has a fabric once all have joined it with
 * devices that have a way to each other's memory:
 *
 *     nccl    each has a GPU of its own: over rails (engine/device/rail.h). May be kept in a replay
 *     memory  threads of one process, on one GPU or on several that reach each other: ranks meet
 *             on the host to exchange marks of their streams, and copy from each other
 *
 * Both only move bytes. Sums are taken by kernel `fold` in the order of the ranks, so they have the
 * bits of comm_all_reduce, whatever carries them, and however long the vector is: a short one is
 * gathered and summed by all; of a long one each sums a part, and the sums are gathered.
 *
 * Faults break the group, as ever (engine/comm/comm.h); where ranks do not meet on the host they
 * are found when the stream is waited for.
 *
 * Thread: as the group's; all that a group's fabric does is put on one stream.
 */
#ifndef ENGINE_COMM_FABRIC_H
#define ENGINE_COMM_FABRIC_H

#include "engine/comm/comm.h"
#include "engine/device/device.h"

/* All ranks of c with their devices; waits as long as it takes. Afterwards all have a fabric, or
 * none, which is no fault: collectives then go through the host. room_bytes: of each device, for
 * sums; longer vectors go in pieces. The same at all ranks. */
int fabric_join(struct comm *c, struct device *d, size_t room_bytes, struct err *e);

/* What suits rows of so many floats. */
size_t fabric_room_bytes(int64_t cols);

/* Before the device is freed. Whoever has none, and NULL, is fine. */
void fabric_leave(struct comm *c);

/* "nccl", "memory"; NULL: c has none. */
const char *fabric_name(const struct comm *c);

/* Whether what it puts on a stream may be kept there. */
bool fabric_may_be_kept(const struct comm *c);

/* An all-reduce or an all-gather whose memory is the device's. Done with when the stream is. */
int fabric_run(struct comm *c, struct stream *s, const struct comm_job *j, struct err *e);

#endif
