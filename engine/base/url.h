/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses as they are compared: http or https, a host, a port, a path. What has a user, a
 * fragment, a backslash or a path that goes up is none: the comparison must see what is asked.
 *
 * Thread: any.
 */
#ifndef ENGINE_BASE_URL_H
#define ENGINE_BASE_URL_H

#include <stdbool.h>

#include "engine/base/err.h"

enum { URL_HOST_BYTES = 256, URL_PATH_BYTES = 1024 };

struct url {
    bool is_tls;
    char host[URL_HOST_BYTES]; /* in lower case; of IPv6 in brackets */
    int port;
    char path[URL_PATH_BYTES]; /* with a query; "" or from its '/' or '?' on */
};

int url_parse(const char *text, struct url *out, struct err *e);

/* The same scheme, host and port, and a path that is the same or goes on behind a '/'. */
bool url_is_below(const struct url *url, const struct url *top);

#endif
