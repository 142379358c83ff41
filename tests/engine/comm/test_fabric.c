/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives on the memory of GPUs, by threads: one GPU that all share, a GPU for each over NCCL,
 * and NCCL with a single rank. Without a GPU on the twins of CUDA and NCCL; with one (TEST_GPU=1)
 * on it.
 */
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/comm/fabric.h"
#include "engine/device/open.h"
#include "tests/lib/gpu.h"

/* ROOM: little, so that vectors go in pieces. */
enum { RANKS = 4, MOST = 20000, ROOM = 1 << 14, WORDS = 37 };

static const size_t lengths[] = {1, 7, 64, 1000, 1025, 4099, MOST};

struct rank {
    struct comm *c;
    const char *name; /* of the way that it is to be; NULL: any */
    bool is_absent;   /* joins, and then does nothing */
    struct pool *pool;
    struct device *d;
    struct stream *s;
    float *x, *host; /* the device's, the host's: [MOST] */
    struct err err;
    int rc;
};

/* Sums of these depend on their order. */
static float value(int rank, size_t i, size_t n)
{
    uint32_t h =
        (uint32_t)(i * 2654435761u) ^ (uint32_t)(n * 40503u) ^ (uint32_t)rank * 2246822519u;
    return (float)(int32_t)(h ^ h >> 15) * (rank % 2 ? 1e-3f : 17.0f);
}

static int open_rank(struct rank *r)
{
    r->pool = pool_new(1, false, &r->err);
    struct device_options o = {.want = "cuda", .index = comm_rank(r->c), .pool = r->pool};
    r->d = r->pool ? device_open(&o, &r->err) : NULL;
    r->s = r->d ? stream_new(r->d, &r->err) : NULL;
    r->x = r->s ? device_alloc(r->d, MOST * sizeof(float), "a vector", &r->err) : NULL;
    r->host = r->x ? device_host_alloc(r->d, MOST * sizeof(float), "a vector", &r->err) : NULL;
    return r->host ? fabric_join(r->c, r->d, ROOM, &r->err) : -1;
}

static void close_rank(struct rank *r)
{
    fabric_leave(r->c);
    if (r->x)
        device_mem_free(r->d, r->x);
    if (r->host)
        device_host_free(r->d, r->host);
    if (r->s)
        stream_free(r->s);
    if (r->d)
        device_free(r->d);
    pool_free(r->pool);
    comm_free(r->c);
}

/* Twice in a row, so that the second begins while others may still read what it writes. */
static int sum(struct rank *r, size_t n)
{
    struct comm_job j = {.kind = COMM_ALL_REDUCE, .in = r->x, .out = r->x, .n = n};
    int size = comm_size(r->c);
    for (size_t i = 0; i < n; i++)
        r->host[i] = value(comm_rank(r->c), i, n);
    stream_copy(r->s, r->x, r->host, n * sizeof(float), COPY_TO_DEVICE);
    if (fabric_run(r->c, r->s, &j, &r->err) || fabric_run(r->c, r->s, &j, &r->err) ||
        stream_sync(r->s, &r->err))
        return -1;
    stream_copy(r->s, r->host, r->x, n * sizeof(float), COPY_FROM_DEVICE);
    if (stream_sync(r->s, &r->err))
        return -1;
    for (size_t i = 0; i < n; i++) {
        float once = value(0, i, n), twice;
        for (int k = 1; k < size; k++)
            once += value(k, i, n);
        twice = once;
        for (int k = 1; k < size; k++)
            twice += once;
        if (memcmp(&twice, &r->host[i], sizeof twice) != 0)
            return err_set(&r->err, ERR_DEVICE, "element %zu of %zu is %a, not %a", i, n,
                           (double)r->host[i], (double)twice);
    }
    return 0;
}

static int gather(struct rank *r)
{
    int rank = comm_rank(r->c), size = comm_size(r->c);
    struct comm_job j = {.kind = COMM_ALL_GATHER,
                         .in = r->x + rank * WORDS,
                         .out = r->x,
                         .n = WORDS * sizeof(float)};
    for (int i = 0; i < WORDS * size; i++)
        r->host[i] = i / WORDS == rank ? (float)(1000 * rank + i) : -1;
    stream_copy(r->s, r->x, r->host, (size_t)(WORDS * size) * sizeof(float), COPY_TO_DEVICE);
    if (fabric_run(r->c, r->s, &j, &r->err) || stream_sync(r->s, &r->err))
        return -1;
    stream_copy(r->s, r->host, r->x, (size_t)(WORDS * size) * sizeof(float), COPY_FROM_DEVICE);
    if (stream_sync(r->s, &r->err))
        return -1;
    for (int i = 0; i < WORDS * size; i++)
        if (r->host[i] != (float)(1000 * (i / WORDS) + i))
            return err_set(&r->err, ERR_DEVICE, "word %d is %g", i, (double)r->host[i]);
    return 0;
}

static int work(struct rank *r)
{
    int rc = 0;
    if (open_rank(r))
        return -1;
    if (!fabric_name(r->c) || (r->name && strcmp(fabric_name(r->c), r->name) != 0))
        return err_set(&r->err, ERR_DEVICE, "the way is %s", fabric_name(r->c));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && !rc && !r->is_absent; i++)
        rc = sum(r, lengths[i]);
    return rc || (!r->is_absent && gather(r)) ? -1 : 0;
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    r->rc = work(r);
    if (r->rc)
        comm_abort(r->c, r->err.msg);
    return NULL;
}

static void run(struct rank *r, int n, const char *name, const struct comm_options *o)
{
    struct comm *end[RANKS];
    pthread_t thread[RANKS];
    struct err e = ERR_INIT;
    assert_good(comm_local_new(n, o, end, &e), &e);
    for (int i = 0; i < n; i++) {
        bool is_absent = o && i == 1;
        r[i] = (struct rank){.c = end[i], .name = name, .is_absent = is_absent, .err = ERR_INIT};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &r[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

static void check_all(int n, const char *name)
{
    struct rank r[RANKS];
    run(r, n, name, NULL);
    for (int i = 0; i < n; i++)
        assert_good(r[i].rc, &r[i].err);
    for (int i = 0; i < n; i++)
        close_rank(&r[i]);
}

/* Faults: a sum in another order; an end of a vector that is not summed, or summed by nobody; a
 * piece that overwrites the one before; a vector that is overwritten while others read it. */
static void shared_gpu(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_DEVICES", "1", 1);
    check_all(2, "memory");
    check_all(3, "memory");
}

static void own_gpus(void **state)
{
    (void)state;
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    check_all(1, getenv("TEST_GPU") ? NULL : "nccl");
    if (getenv("TEST_GPU"))
        return; /* there may be one GPU only, and no NCCL */
    check_all(2, "nccl");
    check_all(4, "nccl");
}

/* Faults: a wait without an end for a rank that does not come; a rank that is not told. */
static void absent_rank(const char *devices, const char *name)
{
    struct rank r[RANKS];
    setenv("FAKE_CUDA_DEVICES", devices, 1);
    run(r, 3, name, &(struct comm_options){.deadline_ms = 400});
    assert_int_equal(r[1].rc, 0);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(r[i].rc, -1);
        if (!strstr(r[i].err.msg, "did not come within 0.4 s") &&
            !strstr(r[i].err.msg, "not all ranks came within 0.4 s"))
            fail_msg("%s", r[i].err.msg);
    }
    for (int i = 0; i < 3; i++)
        close_rank(&r[i]);
}

static void absence_is_missed(void **state)
{
    (void)state;
    absent_rank("1", "memory");
    if (!getenv("TEST_GPU"))
        absent_rank("4", "nccl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shared_gpu), cmocka_unit_test(own_gpus),
                                       cmocka_unit_test(absence_is_missed)};
    gpu_play();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
