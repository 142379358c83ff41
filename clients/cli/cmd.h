/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of the program. A command is one row of cmd.def and one function cmd_<name>, which
 * gets what stands behind its name on the command line (argv[0] is the name) and returns the
 * status that the process ends with.
 *
 * A fault is one line on stderr, "tandem COMMAND: what is wrong", made by cmd_fail: its status is
 * 2 for what the user can mend (a flag, a file, an unsupported machine), 1 for what failed.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_CLI_CMD_H
#define CLIENTS_CLI_CMD_H

#include <stdbool.h>

#include "engine/base/err.h"

enum { CMD_GOOD = 0, CMD_FAILED = 1, CMD_USAGE = 2 };

typedef int cmd_fn(int argc, char **argv);

struct cmd {
    const char *name, *args, *text;
    cmd_fn *run;
};

#define CMD(name, args, text) cmd_fn cmd_##name;
#include "clients/cli/cmd.def"
#undef CMD

/* NULL with ERR_NOT_FOUND, and the command that was likely meant, when there is none so named. */
const struct cmd *cmd_find(const char *name, struct err *e);

/* Every command with its one-line help, as `tandem help` shows them. */
void cmd_list(void);

/* For a command without options: true when nothing stands behind its name. Else *status says how it
 * ends: well after --help, badly after anything else. */
bool cmd_is_bare(int argc, char **argv, int *status);

/* Prints the fault; returns the status for it. name may be NULL. */
int cmd_fail(const char *name, const struct err *e);

#endif
