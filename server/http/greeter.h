/* SPDX-License-Identifier: Apache-2.0
 *
 * The door in front of the transport where proxies say for whom they come (--proxy-protocol). A
 * connection from a proxy that is known begins with a line of the PROXY protocol, which is read
 * here and nowhere else; the transport has the connection from its next byte on, as the client's.
 * One that does not begin so, or not in time, is closed. From anybody else such a line is what it
 * looks like to HTTP, a request that is none: so nobody says of himself who he is.
 *
 * Thread: one of its own, from greeter_start to greeter_free.
 */
#ifndef SERVER_HTTP_GREETER_H
#define SERVER_HTTP_GREETER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct greeter;
struct http;

struct greeter_options {
    struct http *http; /* borrowed: outlives the greeter */
    int64_t wait_us;   /* that a line may take; 0: 5 s */
    /* Whether that is a proxy which is believed; address NULL: over a unix socket. Its thread. */
    bool (*is_proxy)(void *ctx, const char *address);
    void *ctx;
};

struct greeter *greeter_new(const struct greeter_options *o, struct err *e);
void greeter_listen(struct greeter *g, int fd); /* a socket that listens, moved in; before _start */
int greeter_start(struct greeter *g, struct err *e);
void greeter_free(struct greeter *g); /* connections that it still has are closed; NULL is fine */

#endif
