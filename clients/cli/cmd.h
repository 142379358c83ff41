/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of the program. A command is one row of cmd.def, its options (cmd_opt_<name>) and
 * one function (cmd_<name>). Before the function runs, its options were read into a fresh struct of
 * the size that cmd_opt_<name> says, which is o->values; --help and bad words never reach it. What
 * it returns is the status that the process ends with.
 *
 * A fault is one line on stderr, "tandem COMMAND: what is wrong", made by cmd_fail: its status is
 * 2 for what the user can mend (a flag, a file, an unsupported machine), 1 for what failed.
 *
 * Thread: main only.
 */
#ifndef CLIENTS_CLI_CMD_H
#define CLIENTS_CLI_CMD_H

#include <stddef.h>

#include "engine/base/err.h"
#include "engine/base/opt.h"

enum { CMD_GOOD = 0, CMD_FAILED = 1, CMD_USAGE = 2 };

typedef int cmd_fn(const struct opt *o);

struct cmd_opt {
    const struct opt_row *row; /* borrowed: a constant table */
    size_t n_row, bytes;       /* bytes: of the struct that the rows fill */
};

#define CMD(name, args, min_arg, max_arg, about)                                                   \
    cmd_fn cmd_##name;                                                                             \
    extern const struct cmd_opt cmd_opt_##name;
#include "clients/cli/cmd.def"
#undef CMD

/* What a command takes as a model, where `word` names one of the hub: the path at which it lies,
 * fetched where it does not yet; free() it. NULL: the word is a path as it is. clients/hub/ has it.
 */
int cmd_model(const char *word, char **path, struct err *e);

/* Reads argv, which begins with the command's words, runs the command, returns its status. */
int cmd_dispatch(int argc, char **argv);

/* The commands one by one, in the order of the table: what people type for it, in `name`. */
enum { CMD_NAME_BYTES = 32 };
size_t cmd_count(void);
struct opt_cmd cmd_get(size_t i, char name[CMD_NAME_BYTES]);

/* A line for each of these commands, in this order, or for each that is none of them. */
void cmd_list(const char *const *name, int n, bool is_of_these);

/* The page of the command that the words name; 0 or the status of a fault. */
int cmd_show(int n_word, const char *const *word);

/* Prints the fault; returns the status for it. o is NULL where no command was found. */
int cmd_fail(const struct opt *o, const struct err *e);

#endif
