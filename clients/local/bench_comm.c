/* SPDX-License-Identifier: Apache-2.0
 *
 * `tandem bench comm`: what each collective costs, beside what memory allows. Over the threads of
 * this process, or, started by mpirun, over processes; with --device cuda on the memory of GPUs.
 *
 * The limit is measured, in the same rounds: the time in which each rank copies as many bytes as
 * the collective must move of its own. A collective that stays in a cache is measured against
 * copies that stay there as well.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/cli/cmd.h"
#include "clients/local/bench_comm_device.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/comm/comm.h"

enum { ROUNDS = 5, ROUND_NS = 4000000 };

struct bench_comm_values {
    int64_t ranks, bytes;
    const char *over, *device;
    bool json;
};

#define AT(field) offsetof(struct bench_comm_values, field)

static const struct opt_row rows[] = {
    {.section = "Bench",
     .name = "ranks",
     .type = OPT_INT,
     .fallback = "2",
     .min = 1,
     .max = COMM_RANK_MAX,
     .hint = "N",
     .help = "ranks, where they are threads; a launcher says how many processes there are",
     .offset = AT(ranks)},
    {.name = "over",
     .type = OPT_CHOICE,
     .fallback = "auto",
     .hint = "auto|local|mpi|tcp",
     .help = "what carries them; auto: as a launcher has it (mpirun, or RANK and WORLD_SIZE), else "
             "local",
     .offset = AT(over)},
    {.name = "bytes",
     .type = OPT_SIZE,
     .fallback = "0",
     .min = 0,
     .max = 1 << 28,
     .hint = "SIZE",
     .help = "only this length; 0: from 4 KB to 16 MB",
     .offset = AT(bytes)},
    {.name = "device",
     .type = OPT_CHOICE,
     .fallback = "cpu",
     .hint = "cpu|cuda",
     .help = "whose memory: the host's, or a GPU's of each rank",
     .offset = AT(device)},
    {.name = "json", .type = OPT_BOOL, .help = "print a line of JSON each", .offset = AT(json)},
};

const struct cmd_opt cmd_opt_bench_comm = {rows, sizeof rows / sizeof *rows,
                                           sizeof(struct bench_comm_values)};

static const enum comm_kind kinds[] = {COMM_ALL_REDUCE, COMM_REDUCE_SCATTER, COMM_ALL_GATHER,
                                       COMM_BROADCAST, COMM_BARRIER};
static const size_t sizes[] = {4096, 65536, 1 << 20, 16 << 20};

/* What one rank does. */
struct part {
    const struct bench_comm_values *v;
    struct comm *c;
    char *x, *y; /* owned: [size, bytes] */
    size_t bytes;
    struct err err;
    int rc;
};

/* A collective whose longest side is `bytes`, and how many of those bytes each rank copies at least
 * in its course: reads them and writes them once. */
static struct comm_job job_of(const struct part *p, enum comm_kind k, double *copied)
{
    size_t size = (size_t)comm_size(p->c), each = p->bytes / size / 4 * 4;
    struct comm_job j = {.kind = k, .in = p->x, .out = p->y, .n = p->bytes};
    *copied = (double)p->bytes;
    if (k == COMM_ALL_REDUCE || k == COMM_REDUCE_SCATTER)
        j.n = (k == COMM_ALL_REDUCE ? p->bytes : each) / sizeof(float);
    if (k == COMM_REDUCE_SCATTER) /* reads all parts, writes one */
        *copied = (double)(p->bytes + each) / 2;
    if (k == COMM_ALL_GATHER)
        j.n = each;
    if (k == COMM_BROADCAST) /* the others do */
        *copied = (double)(p->bytes - each);
    if (k == COMM_BARRIER)
        *copied = (double)(j.n = 0);
    return j;
}

static int best_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* All ranks do as many as rank 0 says; the median of the rounds, in microseconds each. */
static int time_job(struct part *p, const struct comm_job *j, double *us)
{
    double round[ROUNDS];
    int64_t n = 1;
    for (int k = -1; k < ROUNDS; k++) { /* the first says how many make a round */
        if (comm_broadcast(p->c, &n, sizeof n, 0, &p->err) || comm_barrier(p->c, &p->err))
            return -1;
        int64_t begin = clock_ns();
        for (int64_t i = 0; i < n; i++)
            if (comm_run(p->c, j, &p->err))
                return -1;
        if (comm_barrier(p->c, &p->err))
            return -1;
        int64_t ns = clock_ns() - begin;
        if (k < 0)
            n = ns > ROUND_NS ? 1 : ROUND_NS / (ns + 1) + 1;
        else
            round[k] = (double)ns / 1e3 / (double)n;
    }
    qsort(round, ROUNDS, sizeof *round, best_first);
    *us = round[ROUNDS / 2];
    return 0;
}

/* The same, of every rank copying `bytes` at once. */
static int time_copy(struct part *p, double bytes, double *us)
{
    double round[ROUNDS];
    int64_t n = 1 + (int64_t)(ROUND_NS / (bytes / 10 + 1000));
    for (int k = -1; k < ROUNDS; k++) {
        if (comm_barrier(p->c, &p->err))
            return -1;
        int64_t begin = clock_ns();
        for (int64_t i = 0; i < n; i++)
            memcpy(i % 2 ? p->x : p->y, i % 2 ? p->y : p->x, (size_t)bytes);
        if (comm_barrier(p->c, &p->err))
            return -1;
        if (k >= 0)
            round[k] = (double)(clock_ns() - begin) / 1e3 / (double)n;
    }
    qsort(round, ROUNDS, sizeof *round, best_first);
    *us = round[ROUNDS / 2];
    return 0;
}

static void show(const struct part *p, enum comm_kind k, const struct comm_job *j, double us,
                 double copy_us)
{
    double moved = comm_job_bytes(j, comm_size(p->c));
    if (comm_rank(p->c) != 0)
        return;
    if (p->v->json)
        printf("{\"collective\":\"%s\",\"over\":\"%s\",\"ranks\":%d,\"bytes\":%zu,\"us\":%.3f,"
               "\"copy_us\":%.3f,\"sent_gb_per_s\":%.3f}\n",
               comm_kind_name(k), comm_name(p->c), comm_size(p->c), p->bytes, us, copy_us,
               moved / us / 1e3);
    else if (k == COMM_BARRIER)
        printf("%-16s %9s %12.2f\n", comm_kind_name(k), "", us);
    else
        printf("%-16s %9zu %12.2f %12.2f %8.0f%% %10.2f\n", comm_kind_name(k), p->bytes, us,
               copy_us, 100 * copy_us / us, moved / us / 1e3);
}

static int measure(struct part *p, enum comm_kind k)
{
    double copied, us, copy_us = 0;
    struct comm_job j = job_of(p, k, &copied);
    if (time_job(p, &j, &us) || (copied > 0 && time_copy(p, copied, &copy_us)))
        return -1;
    show(p, k, &j, us, copy_us);
    return 0;
}

static int measure_all(struct part *p)
{
    size_t n_size = p->v->bytes ? 1 : sizeof sizes / sizeof *sizes, size = (size_t)p->v->bytes;
    size_t most = size ? size : sizes[n_size - 1];
    p->x = try_alloc(most + 64, 1, "a collective", &p->err);
    p->y = p->x ? try_alloc(most + 64, 1, "a collective", &p->err) : NULL;
    if (!p->y)
        return -1;
    for (size_t i = 0; i < most; i += 4096)
        p->x[i] = p->y[i] = 0; /* there before the clock runs */
    for (size_t s = 0; s < n_size; s++)
        for (size_t k = 0; k + 1 < sizeof kinds / sizeof *kinds; k++) {
            p->bytes = size ? size : sizes[s];
            if (measure(p, kinds[k]))
                return -1;
        }
    return measure(p, COMM_BARRIER);
}

static bool is_on_gpu(const struct bench_comm_values *v)
{
    return strcmp(v->device, "cuda") == 0;
}

static void *run_part(void *arg)
{
    struct part *p = arg;
    if (is_on_gpu(p->v))
        p->rc = bench_comm_device(p->c, (size_t)p->v->bytes, p->v->json, &p->err);
    else
        p->rc = measure_all(p);
    if (p->rc)
        comm_abort(p->c, p->err.msg);
    comm_free(p->c);
    mem_free(p->x);
    mem_free(p->y);
    return NULL;
}

static void show_heading(const struct bench_comm_values *v, const struct comm *c)
{
    if (v->json || comm_rank(c) != 0 || is_on_gpu(v))
        return;
    printf("%d ranks over %s; `copy`: each rank copies what it must move at least\n", comm_size(c),
           comm_name(c));
    printf("%-16s %9s %12s %12s %9s %10s\n", "collective", "bytes", "us", "copy us", "of copy",
           "sent GB/s");
    fflush(stdout);
}

static int run_wired(const struct bench_comm_values *v, struct comm *c, struct err *e)
{
    struct part p = {.v = v, .c = c, .err = ERR_INIT};
    show_heading(v, p.c);
    run_part(&p);
    return p.rc ? err_set(e, p.err.code, "%s", p.err.msg) : 0;
}

static int run_local(const struct bench_comm_values *v, struct err *e)
{
    struct comm *end[COMM_RANK_MAX];
    struct part p[COMM_RANK_MAX];
    pthread_t thread[COMM_RANK_MAX];
    int n = (int)v->ranks, n_thread = 0, rc = 0;
    if (comm_local_new(n, NULL, end, e))
        return -1;
    show_heading(v, end[0]);
    for (int r = 0; r < n; r++)
        p[r] = (struct part){.v = v, .c = end[r], .err = ERR_INIT};
    for (int r = 1; r < n && !rc; r++, n_thread += !rc)
        rc = pthread_create(&thread[r], NULL, run_part, &p[r]);
    if (rc)
        comm_abort(end[0], "no thread for a rank");
    run_part(&p[0]);
    for (int r = 1; r < n; r++) {
        if (r <= n_thread)
            pthread_join(thread[r], NULL);
        else
            comm_free(end[r]);
    }
    return p[0].rc ? err_set(e, p[0].err.code, "%s", p[0].err.msg) : 0;
}

int cmd_bench_comm(const struct opt *o)
{
    const struct bench_comm_values *v = o->values;
    struct err e = ERR_INIT;
    struct comm *c = NULL;
    int rc = 0;
    if (strcmp(v->over, "auto") == 0)
        rc = comm_launched_new(NULL, &c, &e);
    else if (strcmp(v->over, "local") != 0)
        rc = (c = comm_wired_new(v->over, NULL, &e)) ? 0 : -1;
    if (!rc)
        rc = c ? run_wired(v, c, &e) : run_local(v, &e);
    return rc ? cmd_fail(o, &e) : CMD_GOOD;
}
