/* SPDX-License-Identifier: Apache-2.0
 *
 * The two halves of tandem-kernels and what they share.
 *
 * Thread: main only.
 */
#ifndef TESTS_KERNELS_TOOL_H
#define TESTS_KERNELS_TOOL_H

#include <stdbool.h>

/* argv: what follows the subcommand. The process's exit code. */
int tool_check(int argc, char **argv);
int tool_bench(int argc, char **argv);

/* The options that both halves read; names point into argv. */
struct tool_args {
    const char *const *names; /* borrowed */
    int n_name;
    const char *variant; /* borrowed; NULL: all (check), the best (bench) */
    unsigned long long seed;
    int n_thread; /* 0: all */
    int rows;     /* 0: as each case says */
    bool json;
    bool is_short; /* check: every row of a variant at every kind of size, not with every type of
                      each, and with fewer repetitions */
};

/* Sorts argv so that the names come first. -1 after a message. */
int tool_args_parse(struct tool_args *a, int argc, char **argv);
/* True when no names were given or one of them begins `name`. */
bool tool_args_match(const struct tool_args *a, const char *name);

#endif
