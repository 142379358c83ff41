/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening sockets.
 *
 * Thread: any.
 */
#ifndef SERVER_HTTP_LISTEN_H
#define SERVER_HTTP_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

enum { LISTEN_TEXT_BYTES = 128 };

struct listen_at {
    char address[LISTEN_TEXT_BYTES]; /* numeric, as it was bound */
    int port;
    bool is_loopback, is_wild; /* only this machine; every address of it */
};

int listen_tcp(const char *host, int port, struct listen_at *at,
               struct err *e); /* the socket; -1 */

/* A socket that a dead process left at the path is replaced, a living one is not. */
int listen_unix(const char *path, struct err *e);

#endif
