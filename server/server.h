/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: an engine behind HTTP. Owns the process's life from options to exit: loading,
 * listening, signals, draining.
 *
 * Thread: server_run from main; the getters from any.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>

#include "engine/base/err.h"

struct background;
struct batches;
struct breakers;
struct comm;
struct desk;
struct engine;
struct metrics;
struct opt;
struct server;
struct tinker;
struct server_options; /* server/options.h: one row each */

/* First of all: the signals that it obeys are kept for server_run from here on. A descriptor, or
 * -1. */
int server_signals(struct err *e);

/* How much of the log goes where; log_ring_stop ends it. */
int server_log(const struct server_options *o, struct err *e);

/* Serves until a signal ends it; -1, too, where a rank that shares the model is gone. group: of the
 * processes that share it, whose rank 0 this is; *group is moved into the engine, and
 * NULL from then on; NULL: none do. from: the command line that o is of, which SIGHUP reads again.
 */
int server_run(const struct server_options *o, const char *model, struct comm **group, int signals,
               const struct opt *from, struct err *e);

struct engine *server_engine(const struct server *s); /* NULL while it loads */
struct metrics *server_metrics(const struct server *s);
struct breakers *server_breakers(const struct server *s);
bool server_is_ready(const struct server *s);
bool server_is_draining(const struct server *s);
struct desk *server_desk(const struct server *s);       /* --data-dir; NULL: none */
struct batches *server_batches(const struct server *s); /* as the desk; NULL: none, or not yet */
struct tinker *server_tinker(const struct server *s);   /* as the batches */

/* What no HTTP thread waits for; lanes of background work. */
enum server_lane {
    SERVER_DESK,
    SERVER_LOADS,
    SERVER_FETCHES,
    SERVER_HANDLERS,
    SERVER_CONSTRAINTS,
    SERVER_GRADERS,
    SERVER_COPIES,
    SERVER_LANES
};
struct background *server_work(const struct server *s);

const char *server_adapter_root(const struct server *s); /* --adapter-root; NULL: none */

#endif
