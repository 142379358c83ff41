/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding and opening a plug.
 *
 * Thread: any.
 */
#ifndef ENGINE_COMM_PLUG_OPEN_H
#define ENGINE_COMM_PLUG_OPEN_H

#include "engine/base/err.h"
#include "engine/comm/comm.h"
#include "engine/comm/plug.h"

extern const struct comm_plug comm_tcp_plug; /* the program's own */

/* "tcp", or libtandem_<name>.so, which stays open; NULL: none, or one that this program does not
 * fit. */
const struct comm_plug *comm_plug_open(const char *name, struct err *e);

/* What comm_wired_new does, over an open plug. */
struct comm *comm_wired_over(const struct comm_plug *g, const struct comm_options *o,
                             struct err *e);

#endif
