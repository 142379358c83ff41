/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem serve`: the server, in this process.
 */
#include <stdlib.h>
#include <unistd.h>

#include "clients/cli/cmd.h"
#include "clients/local/bundled.h"
#include "server/options.h"
#include "server/server.h"

const struct cmd_opt cmd_opt_serve = {server_rows, N_SERVER_ROWS, sizeof(struct server_options)};

static int serve_bundled(const struct server_options *given, int signals, struct err *e)
{
    struct server_options o = *given;
    char *model = bundled_model(e);
    if (!o.name)
        o.name = BUNDLED_NAME;
    int rc = model ? server_run(&o, model, signals, e) : -1;
    free(model);
    return rc;
}

int cmd_serve(const struct opt *o)
{
    struct err e = ERR_INIT;
    int signals = server_signals(&e);
    if (signals < 0)
        return cmd_fail(o, &e);
    int rc = o->n_arg ? server_run(o->values, o->arg[0], signals, &e)
                      : serve_bundled(o->values, signals, &e);
    close(signals);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
