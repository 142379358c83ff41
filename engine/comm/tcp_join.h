/* SPDX-License-Identifier: Apache-2.0
 *
 * How processes that a launcher started find each other: rank 0 listens where all know it, the
 * others come to it and say where they listen, rank 0 tells everybody, and each goes to those
 * before it.
 *
 * Thread: one.
 */
#ifndef ENGINE_COMM_TCP_JOIN_H
#define ENGINE_COMM_TCP_JOIN_H

#include "engine/comm/launch.h"

/* fd: [l->size] becomes the sockets to all others, non-blocking; -1 for the own. Waits for who has
 * not started yet, as long as minutes. */
int tcp_join(const struct comm_launch *l, int *fd, struct err *e);

#endif
