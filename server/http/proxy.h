/* SPDX-License-Identifier: Apache-2.0
 *
 * Proxies that the operator named: for whom they ask is believed, as X-Forwarded-For says it. A
 * client may write anything into that header, and each proxy adds whom it saw behind what stood
 * there: so it is read from its end, past the proxies that are known, and the first other address
 * is the client. What lies before it is hearsay. Of several such headers the last one counts.
 *
 * Thread: constant once read.
 */
#ifndef SERVER_HTTP_PROXY_H
#define SERVER_HTTP_PROXY_H

#include <arpa/inet.h>
#include <stdbool.h>

#include "engine/base/err.h"
#include "engine/base/opt.h"

enum { PROXIES_MAX = 64 };

struct proxies {
    struct proxy {
        unsigned char at[16]; /* of IPv4: ::ffff:a.b.c.d */
        int bits;
    } known[PROXIES_MAX];
    int n;
    bool has_local; /* what comes over the unix socket comes from one */
};

/* Words: an address, a network as 10.0.0.0/8, or "unix". */
int proxies_read(struct proxies *p, const struct opt_list *words, struct err *e);

/* Whether that is one of them; NULL: over a unix socket. */
bool proxies_have(const struct proxies *p, const char *at);

/* at: the address of the connection's other end, NULL over a unix socket. The client's, in text;
 * NULL: it is the connection's. */
const char *proxies_client(const struct proxies *p, const char *at, const char *forwarded,
                           char text[INET6_ADDRSTRLEN]);

#endif
