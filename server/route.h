/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes: which function answers which method and path, who may ask, and how much body is read.
 * The table is server/routes.def; tests bring tables of their own.
 *
 * A path is matched after it was decoded, so a parameter may hold slashes and colons however they
 * were sent. The first row that fits answers.
 *
 * Thread: any; everything is constant.
 */
#ifndef SERVER_ROUTE_H
#define SERVER_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "server/call.h"

struct route {
    const char *name, *method, *path; /* path: at most one {parameter} */
    unsigned scope;
    size_t max_body; /* 0: no body is read */
    void (*fn)(struct call *c);
};

extern const struct route routes[];
extern const size_t n_routes;

struct route_match {
    const struct route *route; /* NULL: no row fits */
    const char *param;         /* in the path given */
    size_t n_param;
    char allow[64]; /* the methods that the path has; "" when it has none */
};

/* HEAD fits rows of GET. */
struct route_match route_find(const struct route *table, size_t n, const char *method,
                              const char *path);

/* Decodes %xx in place; -1 when one is broken, or makes a byte below 0x20 or 0x7f. */
int route_decode(char *path);

#define ROUTE(name, method, path, scope, max_body) void route_##name(struct call *c);
#include "server/routes.def"
#undef ROUTE

#endif
