/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem help`: the commands; `tandem help COMMAND`: what the command says to --help.
 */
#include <stdio.h>

#include "clients/cli/cmd.h"

const struct cmd_opt cmd_opt_help = {0};

/* What people do first, in the order in which they do it. */
static const char *const first[] = {"serve",  "chat", "tune", "jobs",
                                    "models", "run",  "ps",   "doctor"};
enum { N_FIRST = sizeof first / sizeof *first };

int cmd_help(const struct opt *o)
{
    if (o->n_arg > 0)
        return cmd_show(o->n_arg, o->arg);
    printf("Tandem serves language models and fine-tunes them.\n\n");
    printf("To begin with:\n\n");
    cmd_list(first, N_FIRST, true);
    printf("\nAnd besides:\n\n");
    cmd_list(first, N_FIRST, false);
    printf("\n`tandem COMMAND --help` shows the options of a command.\n");
    return CMD_GOOD;
}
