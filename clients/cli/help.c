/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem help`: the commands; `tandem help COMMAND`: what the command says to --help.
 */
#include <stdio.h>

#include "clients/cli/cmd.h"

static int help_of(char *name)
{
    struct err e = ERR_INIT;
    const struct cmd *cmd = cmd_find(name, &e);
    if (!cmd)
        return cmd_fail("help", &e);
    char flag[] = "--help";
    char *argv[] = {name, flag, NULL};
    return cmd->run(2, argv);
}

int cmd_help(int argc, char **argv)
{
    if (argc == 2 && argv[1][0] != '-')
        return help_of(argv[1]);
    int status;
    if (!cmd_is_bare(argc, argv, &status))
        return status;
    printf("Tandem serves and fine-tunes language models from one program.\n\n");
    cmd_list();
    printf("\n`tandem COMMAND --help` shows the options of a command.\n");
    return CMD_GOOD;
}
