/* SPDX-License-Identifier: Apache-2.0
 *
 * The log's way out without a wait: lines go into a ring, and a thread of its own writes them to
 * standard error or to a file. Where what is written to stands still (a pipe that nobody reads, a
 * disk that hangs) the ring fills, further lines are dropped and counted, and nobody who logs
 * waits; once lines go out again, one says how many are missing.
 *
 * One for the process, as the log is. Before log_ring_start and after log_ring_stop lines are
 * written by who logs them.
 *
 * Thread: log_ring_start and log_ring_stop by main; the others any.
 */
#ifndef ENGINE_BASE_LOG_RING_H
#define ENGINE_BASE_LOG_RING_H

#include "engine/base/err.h"
#include "engine/base/log.h"

enum { LOG_RING_BYTES = 1 << 20 };

/* path NULL: standard error. Started already: only the level and the format are set. */
int log_ring_start(enum log_level least, enum log_format format, const char *path, struct err *e);

/* What is in the ring goes out first, for two seconds at most. */
void log_ring_stop(void);

/* The file is opened again by its path: who turned it away under another name gets a new one. A
 * path that cannot be opened leaves the old file, with a line. Without a path nothing happens. */
void log_ring_reopen(void);

uint64_t log_ring_dropped(void); /* lines, since the start */

#endif
