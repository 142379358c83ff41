/* SPDX-License-Identifier: Apache-2.0
 *
 * As many of a collective are put on a stream as take some milliseconds, and then the stream is
 * waited for: so the host's part shows only where it does not keep up. The limit beside it is a
 * copy within the GPU's memory of as many bytes as a rank must read and write of its own, from all
 * ranks at once; ranks that share a GPU share its bandwidth in both.
 */
#include "clients/local/bench_comm_device.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/comm/fabric.h"
#include "engine/device/open.h"

enum { ROUNDS = 5, ROUND_NS = 4000000, MOST_IN_FLIGHT = 512, ROOM_BYTES = 16 << 20 };

static const size_t sizes[] = {16 << 10, 256 << 10, 4 << 20, 64 << 20};

struct rank {
    struct comm *c; /* borrowed */
    struct pool *pool;
    struct device *device;
    struct stream *stream;
    char *x, *y; /* the device's: [most] */
    size_t bytes;
    bool is_json;
};

static int rank_init(struct rank *r, size_t most, struct err *e)
{
    r->pool = pool_new(1, false, e);
    struct device_options o = {.want = "cuda", .index = comm_rank(r->c), .pool = r->pool};
    r->device = r->pool ? device_open(&o, e) : NULL;
    r->stream = r->device ? stream_new(r->device, e) : NULL;
    r->x = r->stream ? device_alloc(r->device, most, "a vector", e) : NULL;
    r->y = r->x ? device_alloc(r->device, most, "a vector", e) : NULL;
    if (!r->y || fabric_join(r->c, r->device, ROOM_BYTES, e))
        return -1;
    return fabric_name(r->c) ? 0
                             : err_set(e, ERR_UNSUPPORTED,
                                       "these ranks exchange through the host: there is nothing to "
                                       "measure on a GPU");
}

static void rank_release(struct rank *r)
{
    fabric_leave(r->c);
    if (r->device) {
        device_mem_free(r->device, r->x);
        device_mem_free(r->device, r->y);
    }
    stream_free(r->stream);
    device_free(r->device);
    pool_free(r->pool);
}

typedef int once_fn(struct rank *r, const struct comm_job *j, size_t copied, struct err *e);

static int collective(struct rank *r, const struct comm_job *j, size_t copied, struct err *e)
{
    (void)copied;
    return fabric_run(r->c, r->stream, j, e);
}

static int copy(struct rank *r, const struct comm_job *j, size_t copied, struct err *e)
{
    (void)j, (void)e;
    stream_copy(r->stream, r->y, r->x, copied, COPY_ON_DEVICE);
    return 0;
}

static int best_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* All ranks do as many as rank 0 says; the median of the rounds, in microseconds each. */
static int time_once(struct rank *r, once_fn *once, const struct comm_job *j, size_t copied,
                     double *us, struct err *e)
{
    double round[ROUNDS];
    int64_t n = 1;
    for (int k = -2; k < ROUNDS; k++) { /* to warm up; to see how many make a round; the rounds */
        if (comm_broadcast(r->c, &n, sizeof n, 0, e) || comm_barrier(r->c, e))
            return -1;
        int64_t begin = clock_ns();
        for (int64_t i = 0; i < n; i++)
            if (once(r, j, copied, e))
                return -1;
        if (stream_sync(r->stream, e) || comm_barrier(r->c, e))
            return -1;
        int64_t ns = clock_ns() - begin;
        if (k == -1)
            n = ROUND_NS / (ns + 1) + 1 < MOST_IN_FLIGHT ? ROUND_NS / (ns + 1) + 1 : MOST_IN_FLIGHT;
        else if (k >= 0)
            round[k] = (double)ns / 1e3 / (double)n;
    }
    qsort(round, ROUNDS, sizeof *round, best_first);
    *us = round[ROUNDS / 2];
    return 0;
}

static void show(const struct rank *r, const struct comm_job *j, double us, double copy_us)
{
    double gb_per_s = comm_job_bytes(j, comm_size(r->c)) / us / 1e3;
    if (comm_rank(r->c) != 0)
        return;
    if (r->is_json)
        printf("{\"collective\":\"%s\",\"over\":\"%s\",\"ranks\":%d,\"bytes\":%zu,\"us\":%.3f,"
               "\"copy_us\":%.3f,\"sent_gb_per_s\":%.3f}\n",
               comm_kind_name(j->kind), fabric_name(r->c), comm_size(r->c), r->bytes, us, copy_us,
               gb_per_s);
    else
        printf("%-16s %9zu %12.2f %12.2f %8.0f%% %10.2f\n", comm_kind_name(j->kind), r->bytes, us,
               copy_us, 100 * copy_us / us, gb_per_s);
    fflush(stdout);
}

static int measure(struct rank *r, enum comm_kind kind, struct err *e)
{
    size_t each = r->bytes / (size_t)comm_size(r->c) / sizeof(float) * sizeof(float);
    struct comm_job j = {.kind = kind, .in = r->x, .out = r->x, .n = r->bytes / sizeof(float)};
    double us, copy_us;
    if (kind == COMM_ALL_GATHER) {
        j.in = r->x + (size_t)comm_rank(r->c) * each;
        j.n = each;
    }
    if (time_once(r, collective, &j, 0, &us, e) || time_once(r, copy, &j, r->bytes, &copy_us, e))
        return -1;
    show(r, &j, us, copy_us);
    return 0;
}

static int measure_all(struct rank *r, size_t bytes, struct err *e)
{
    size_t n = bytes ? 1 : sizeof sizes / sizeof *sizes;
    if (!r->is_json && comm_rank(r->c) == 0)
        printf("%d ranks on GPUs over %s; `copy`: each copies as many bytes in the GPU's memory\n"
               "%-16s %9s %12s %12s %9s %10s\n",
               comm_size(r->c), fabric_name(r->c), "collective", "bytes", "us", "copy us",
               "of copy", "sent GB/s");
    for (size_t i = 0; i < n; i++) {
        r->bytes = bytes ? bytes : sizes[i];
        if (measure(r, COMM_ALL_REDUCE, e) || measure(r, COMM_ALL_GATHER, e))
            return -1;
    }
    return 0;
}

int bench_comm_device(struct comm *c, size_t bytes, bool is_json, struct err *e)
{
    struct rank r = {.c = c, .is_json = is_json};
    size_t most = bytes ? bytes : sizes[sizeof sizes / sizeof *sizes - 1];
    int rc = rank_init(&r, most, e) || measure_all(&r, bytes, e) ? -1 : 0;
    if (rc)
        comm_abort(c, e->msg);
    rank_release(&r);
    return rc;
}
