/* SPDX-License-Identifier: Apache-2.0
 *
 * One of several processes: runs the suite of collectives over what its launcher brings, or falls
 * at a round.
 *
 *     mpirun -np 2 comm_rank suite
 *     mpirun -np 3 comm_rank kill|stall|exit RANK ROUND DEADLINE_MS
 *     mpirun -np 3 comm_rank differ RANK LENGTH DEADLINE_MS       a sum of another length there
 *     mpirun -np 3 comm_rank other RANK CASE DEADLINE_MS          another collective there, as long
 *     mpirun -np 2 comm_rank abort RANK 0 DEADLINE_MS             gives up what is under way there
 *     mpirun -np 3 comm_rank late RANK SECONDS DEADLINE_MS        long sums, begun late there
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

static int differ(struct comm *c, bool is_it, int n, struct err *e)
{
    float x[64] = {0};
    return comm_all_reduce(c, x, is_it ? (size_t)n : 64, e);
}

/* Pairs that look alike but for their kind: what most do, and what one does. */
static const enum comm_kind alike[][2] = {{COMM_ALL_REDUCE, COMM_ALL_GATHER},
                                          {COMM_ALL_GATHER, COMM_ALL_REDUCE},
                                          {COMM_REDUCE_SCATTER, COMM_ALL_GATHER},
                                          {COMM_ALL_GATHER, COMM_BROADCAST}};

enum { N_ALIKE = sizeof alike / sizeof *alike };

/* From case N_ALIKE on with a word that rank 0 sends rank 1 behind what is its part of the
 * collective, and which rank 1 waits for before it begins the other one. */
static int other(struct comm *c, bool is_it, int at, struct err *e)
{
    static float x[64 * 64], y[64 * 64];
    static char word = 'w'; /* on its way still where another wait fails */
    enum comm_kind k = alike[at % N_ALIKE][is_it];
    bool is_sum = k == COMM_ALL_REDUCE || k == COMM_REDUCE_SCATTER;
    bool says = at >= N_ALIKE && comm_rank(c) == 0, hears = at >= N_ALIKE && comm_rank(c) == 1;
    struct comm_job j = {
        .kind = k, .peer = comm_rank(c), .in = x, .out = y, .n = is_sum ? 64 : 256};
    struct comm_job say = {.kind = COMM_SEND, .peer = 1, .in = &word, .n = 1};
    struct comm_job hear = {.kind = COMM_RECEIVE, .peer = 0, .out = &word, .n = 1};
    if ((hears && comm_run(c, &hear, e)) || comm_start(c, &j, e) ||
        (says && comm_start(c, &say, e)) || comm_finish(c, e))
        return -1;
    return says ? comm_finish(c, e) : 0;
}

/* Gives up what it is to receive, and keeps other things there, while the other sends it; meetings
 * of a group beside let the network move (where that ends with the first, they fail). */
static int give_up(struct comm *c, struct comm *beside, struct err *e)
{
    char out[256];
    struct err gone = ERR_INIT;
    struct comm_job j = {
        .kind = COMM_RECEIVE, .peer = 1 - comm_rank(c), .out = out, .n = sizeof out};
    if (comm_start(c, &j, e))
        return -1;
    comm_abort(c, "a test");
    memset(out, 'o', sizeof out);
    for (int i = 0; i < 2 && !comm_barrier(beside, &gone); i++)
        continue;
    for (size_t i = 0; i < sizeof out; i++)
        if (out[i] != 'o')
            return err_set(e, ERR_CORRUPT, "touched behind the abort");
    printf("nothing was touched\n");
    return 0;
}

static int send_late(struct comm *c, struct comm *beside, struct err *e)
{
    char in[256] = {0};
    struct comm_job j = {.kind = COMM_SEND, .peer = 1 - comm_rank(c), .in = in, .n = sizeof in};
    return comm_barrier(beside, e) || comm_run(c, &j, e) || comm_barrier(beside, e) ? -1 : 0;
}

static int abort_one(struct comm *c, bool is_it, struct err *e)
{
    struct comm *beside;
    int rc = comm_split(c, 0, &beside, e);
    if (!rc)
        rc = is_it ? give_up(c, beside, e) : send_late(c, beside, e);
    comm_free(beside);
    return rc;
}

/* What is under way is more than a socket holds. */
static int late(struct comm *c, bool is_it, int seconds, struct err *e)
{
    const size_t n = 1 << 20;
    float *x = calloc(COMM_FLIGHT * n, sizeof *x);
    int rc = x ? 0 : err_set(e, ERR_NO_MEMORY, "no memory");
    if (is_it)
        sleep((unsigned)seconds);
    for (size_t i = 0; i < COMM_FLIGHT && !rc; i++)
        rc = comm_start(
            c,
            &(struct comm_job){.kind = COMM_ALL_REDUCE, .in = x + i * n, .out = x + i * n, .n = n},
            e);
    for (size_t i = 0; i < COMM_FLIGHT && !rc; i++)
        rc = comm_finish(c, e);
    if (!rc)
        printf("rank %d: all came\n", comm_rank(c));
    free(x);
    return rc;
}

/* What the line says that rank `who` does at `at`. */
static int act(struct comm *c, const char *how, int who, int at, struct err *e)
{
    bool is_it = comm_rank(c) == who;
    if (strcmp(how, "differ") == 0)
        return differ(c, is_it, at, e);
    if (strcmp(how, "other") == 0)
        return other(c, is_it, at, e);
    if (strcmp(how, "abort") == 0)
        return abort_one(c, is_it, e);
    if (strcmp(how, "late") == 0)
        return late(c, is_it, at, e);
    int rc = comm_suite_rounds(c, is_it ? at : ROUNDS, e);
    if (is_it)
        fall(how);
    return rc;
}

static int run(int argc, char **argv, struct err *e)
{
    struct comm_options o = {.deadline_ms = argc > 4 ? strtol(argv[4], NULL, 10) : 60000};
    struct comm *c = NULL;
    int rc = comm_launched_new(&o, &c, e);
    if (!rc && !c)
        rc = err_set(e, ERR_BAD_INPUT, "nobody started this as one of several");
    if (c && argc == 2)
        rc = suite(c, e);
    else if (c)
        rc = act(c, argv[1], (int)strtol(argv[2], NULL, 10), (int)strtol(argv[3], NULL, 10), e);
    comm_free(c);
    return rc;
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    if (argc != 2 && argc != 5) {
        fprintf(stderr,
                "comm_rank suite | kill|stall|exit|differ|other|abort|late RANK AT DEADLINE_MS\n");
        return 2;
    }
    int rc = run(argc, argv, &e);
    if (rc)
        printf("%s\n", e.msg);
    fflush(stdout);
    return rc ? 1 : 0;
}
