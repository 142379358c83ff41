/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses as they are compared: http or https, a host, a port, a path. What has a user, a
 * fragment, a backslash or a path that goes up is none: the comparison must see what is asked.
 *
 * Thread: any.
 */
#ifndef SERVER_GRADERS_GRADER_URL_H
#define SERVER_GRADERS_GRADER_URL_H

#include <stdbool.h>

#include "engine/base/err.h"

enum { GRADER_HOST_BYTES = 256, GRADER_PATH_BYTES = 1024 };

struct grader_url {
    bool is_tls;
    char host[GRADER_HOST_BYTES]; /* in lower case; of IPv6 in brackets */
    int port;
    char path[GRADER_PATH_BYTES]; /* with a query; "" or from its '/' on */
};

int grader_url_parse(const char *text, struct grader_url *out, struct err *e);

/* The same scheme, host and port, and a path that is the same or goes on behind a '/'. */
bool grader_url_is_below(const struct grader_url *url, const struct grader_url *top);

#endif
