/* SPDX-License-Identifier: Apache-2.0
 *
 * The PROXY protocol, versions 1 and 2 (haproxy.org, proxy-protocol.txt): what a proxy sends before
 * a connection's first byte, to say whose it is. Read to the letter, since what stands here is
 * believed: two spaces, a port with a zero before it, an address of the other family, a length that
 * its addresses do not fill, and what does not end in time are all no such line.
 *
 * Thread: any.
 */
#ifndef SERVER_HTTP_PROXY_LINE_H
#define SERVER_HTTP_PROXY_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum { PROXY_LINE_MAX = 2048 }; /* bytes of one: with TLVs, which are skipped */

struct proxy_line {
    size_t n; /* bytes that it takes */
    bool
        has_client; /* false: the connection is the proxy's own, or of a kind that has no address */
    struct sockaddr_storage client;
    socklen_t n_client;
};

/* 1: it is whole; 0: it may be, with more bytes; -1: it is none. */
int proxy_line_read(const void *p, size_t n, struct proxy_line *out);

#endif
