/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem health`: whether a server would serve a request now; for containers and scripts, which
 * look at the status. It is asked without the key, on the port that a server of the same
 * environment listens at.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "clients/remote/remote.h"

struct health_values {
    struct remote_options remote;
    int64_t port;
};

#define AT(field) offsetof(struct health_values, field)

static const struct opt_row rows[] = {
    {.section = "Where",
     .name = "port",
     .type = OPT_INT,
     .fallback = "8080",
     .min = 1,
     .max = UINT16_MAX,
     .hint = "N",
     .help = "of this machine, where --url does not say another place",
     .offset = AT(port)},
    REMOTE_ROWS};

const struct cmd_opt cmd_opt_health = {rows, sizeof rows / sizeof *rows,
                                       sizeof(struct health_values)};

int cmd_health(const struct opt *o)
{
    const struct health_values *v = o->values;
    char here[40];
    snprintf(here, sizeof here, "http://127.0.0.1:%" PRId64, v->port);
    struct err e = ERR_INIT;
    json_t *answer = NULL;
    struct peer *p = peer_new(opt_is_given(o, "url") ? v->remote.url : here, NULL, &e);
    int rc = p ? peer_ask(p, "GET", "/readyz", NULL, &answer, &e) : -1;
    if (!rc)
        remote_print(&v->remote, answer);
    json_decref(answer);
    peer_free(p);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
