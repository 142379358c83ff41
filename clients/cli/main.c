/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: runs the command that the first word names.
 *
 * Output that could not be written (a full disk, a closed pipe) is a failure of the command, and is
 * found at the end, where stdout is flushed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clients/cli/cmd.h"
#include "clients/cli/env.h"

/* Read by the allocator, where it is jemalloc, before main. What was freed goes back to the system
 * after ten seconds, also when nobody allocates any more: a server that a crowd has left is as
 * small as before. One thread does it; without one a thread that sleeps keeps what it freed. */
extern const char *const malloc_conf;
const char *const malloc_conf = "background_thread:true,max_background_threads:1";

/* --help and --version are what people try first. */
static char *name_of(char *word)
{
    static char help[] = "help", version[] = "version";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return help;
    return strcmp(word, "--version") == 0 ? version : word;
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
    if (argc < 2) {
        fprintf(stderr, "tandem: no command given; `tandem help` lists them\n");
        return CMD_USAGE;
    }
    argv[1] = name_of(argv[1]);
    env_check();
    return flush(cmd_dispatch(argc - 1, argv + 1));
}
