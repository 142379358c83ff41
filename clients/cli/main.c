/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: finds the command that the first word names and runs it. Nothing else is done here,
 * so that each command says itself what it needs.
 *
 * Output that could not be written (a full disk, a closed pipe) is a failure of the command, and is
 * found at the end, where stdout is flushed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clients/cli/cmd.h"

/* --help and --version are what people try first. */
static const char *name_of(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return "help";
    if (strcmp(word, "--version") == 0)
        return "version";
    return word;
}

static int flush(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    struct err e = ERR_INIT;
    err_sys(&e, "writing to stdout");
    return cmd_fail(NULL, &e);
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    if (argc < 2) {
        fprintf(stderr, "tandem: no command given; `tandem help` lists them\n");
        return CMD_USAGE;
    }
    const struct cmd *cmd = cmd_find(name_of(argv[1]), &e);
    if (!cmd)
        return cmd_fail(NULL, &e);
    return flush(cmd->run(argc - 1, argv + 1));
}
