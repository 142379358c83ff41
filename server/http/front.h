/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands between a request's headers and its handler, in this order: is this name ours (Host),
 * does a foreign page ask (Origin), is the server willing, who asks, may they, and not too much of
 * it. Everything that a route does not open is closed: a route of scope 0 is for all, any other
 * wants a key with its scope.
 *
 * Thread: constant once made, but for what locks itself.
 */
#ifndef SERVER_HTTP_FRONT_H
#define SERVER_HTTP_FRONT_H

#include "engine/base/opt.h"
#include "server/http/auth.h"
#include "server/http/http.h"
#include "server/http/proxy.h"

enum front_will {
    FRONT_GOOD,
    FRONT_LOADING, /* open routes and the metrics only */
    FRONT_REFUSING /* the same, and the connection closes */
};

struct front {
    struct auth *auth;            /* borrowed */
    const char *host;             /* borrowed: what is bound to; "" for all names */
    struct opt_list allowed_host; /* borrowed */
    struct opt_list cors_origin;  /* borrowed: "*" for all */
    struct proxies proxies;       /* who may speak for others */
    bool any_host;                /* Host is not looked at */
    bool any_address;             /* every address is a name of ours */
    int64_t max_now;              /* requests in flight; 0: no limit */
    int retry_s;                  /* what a refused client is told */
};

/* now: requests in flight. The arguments are those of http_options' admit. */
int front_admit(const struct front *f, enum front_will will, size_t now, struct call *c,
                const struct http_headers *headers, const struct route_match *match,
                struct api_error *e);

/* Does the value of a Host header name this server? */
bool front_knows_host(const struct front *f, const char *host);

#endif
