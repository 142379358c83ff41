/* SPDX-License-Identifier: Apache-2.0
 *
 * One of several processes: runs the suite of collectives over what its launcher brings, or falls
 * at a round.
 *
 *     mpirun -np 2 comm_rank suite
 *     mpirun -np 3 comm_rank kill|stall|exit RANK ROUND DEADLINE_MS
 *
 * Prints one line of what happened; 0: all is as it must be.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/comm_suite.h"

enum { ROUNDS = 100000 };

static int suite(struct comm *c, struct err *e)
{
    if (comm_suite(c, comm_size(c) == 2, e))
        return -1;
    if (comm_rank(c) == 0)
        printf("suite over %s: %d ranks: good\n", comm_name(c), comm_size(c));
    return 0;
}

/* How this process falls. */
static void fall(const char *how)
{
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(how, "exit") == 0)
        _exit(3);
    for (;;)
        pause();
}

static int run(int argc, char **argv, struct err *e)
{
    struct comm_options o = {.deadline_ms = argc > 4 ? strtol(argv[4], NULL, 10) : 60000};
    struct comm *c = NULL;
    int rc = comm_launched_new(&o, &c, e);
    if (!rc && !c)
        rc = err_set(e, ERR_BAD_INPUT, "nobody started this as one of several");
    if (c && argc == 2) {
        rc = suite(c, e);
    } else if (c) {
        bool is_it = comm_rank(c) == (int)strtol(argv[2], NULL, 10);
        rc = comm_suite_rounds(c, is_it ? (int)strtol(argv[3], NULL, 10) : ROUNDS, e);
        if (is_it)
            fall(argv[1]);
    }
    comm_free(c);
    return rc;
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    if (argc != 2 && argc != 5) {
        fprintf(stderr, "comm_rank suite | kill|stall|exit RANK ROUND DEADLINE_MS\n");
        return 2;
    }
    int rc = run(argc, argv, &e);
    if (rc)
        printf("%s\n", e.msg);
    fflush(stdout);
    return rc ? 1 : 0;
}
