/* SPDX-License-Identifier: Apache-2.0
 *
 * A door for who asks whether the server lives and is ready: a port of its own, with a thread that
 * answers nobody else. So neither requests nor those who hold every connection keep an orchestrator
 * from its answer.
 */
#include <stdlib.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/server_own.h"

enum { PROBES_AT_ONCE = 64, TIMEOUT_US = 10 * 1000 * 1000 };

static size_t choose(struct route *out)
{
    size_t n = 0;
    for (size_t i = 0; i < n_routes; i++)
        if (routes[i].is_probe)
            out[n++] = routes[i];
    return n;
}

int probes_open(struct server *s, const struct server_options *o, struct err *e)
{
    struct listen_at at;
    if (o->probe_port == 0)
        return 0;
    s->probe_route = xcalloc(n_routes, sizeof *s->probe_route);
    const struct http_options h = {.route = s->probe_route,
                                   .n_route = choose(s->probe_route),
                                   .n_thread = 1,
                                   .max_conn = PROBES_AT_ONCE,
                                   .request_timeout_us = TIMEOUT_US,
                                   .server = s};
    s->probes = http_new(&h, e);
    int fd = s->probes ? listen_tcp(o->host, (int)o->probe_port, &at, e) : -1;
    if (fd < 0 || http_listen(s->probes, fd, e))
        return err_wrap(e, "--probe-port");
    log_event(LOG_INFO, "probes", LOG_TEXT("address", at.address), LOG_INT("port", at.port));
    return 0;
}

void probes_close(struct server *s)
{
    http_free(s->probes);
    free(s->probe_route);
    s->probes = NULL;
    s->probe_route = NULL;
}
