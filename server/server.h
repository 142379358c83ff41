/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: an engine behind HTTP. Owns the process's life from options to exit: loading,
 * listening, signals, draining.
 *
 * Thread: server_run from main; the getters from any.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "engine/base/err.h"
#include "engine/base/opt.h"

struct engine;
struct metrics;
struct server;
struct server_options; /* server/options.h: one row each */

extern const struct opt_row server_rows[];
extern const size_t n_server_rows, server_options_bytes;

/* Serves until a signal ends it; 0 when everything in flight ended well. */
int server_run(const struct server_options *o, const char *model, struct err *e);

struct engine *server_engine(const struct server *s); /* NULL while it loads */
struct metrics *server_metrics(const struct server *s);
bool server_is_ready(const struct server *s);
bool server_is_draining(const struct server *s);
const char *server_adapter_root(const struct server *s); /* --adapter-root; NULL: none */

#endif
