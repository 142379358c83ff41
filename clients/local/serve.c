/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem serve`: the server, in this process.
 */
#include <unistd.h>

#include "clients/cli/cmd.h"
#include "server/options.h"
#include "server/server.h"

const struct cmd_opt cmd_opt_serve = {server_rows, N_SERVER_ROWS, sizeof(struct server_options)};

int cmd_serve(const struct opt *o)
{
    struct err e = ERR_INIT;
    int signals = server_signals(&e);
    if (signals < 0)
        return cmd_fail(o, &e);
    int rc;
    if (o->n_arg == 0)
        rc = err_set(&e, ERR_BAD_INPUT,
                     "which model? `tandem serve MODEL`, a directory with "
                     "config.json and safetensors files");
    else
        rc = server_run(o->values, o->arg[0], signals, &e);
    close(signals);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
