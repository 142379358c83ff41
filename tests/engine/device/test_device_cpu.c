/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU as a device: how launches are cut, what they lend, what a trace sees.
 */
#include "tests/lib/test.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/device/driver.h"

enum { N_ROW = 64, N_COL = 4096 };

struct bench {
    struct pool *pool;
    struct device *device;
    struct stream *stream;
};

static void setup(struct bench *b, int n_thread)
{
    struct err e = ERR_INIT;
    b->pool = pool_new(n_thread, false, &e);
    assert_non_null(b->pool);
    b->device = device_cpu_new(b->pool, "ref", &e);
    assert_non_null(b->device);
    b->stream = stream_new(b->device, &e);
    assert_non_null(b->stream);
}

static void teardown(struct bench *b)
{
    stream_free(b->stream);
    device_free(b->device);
    pool_free(b->pool);
}

static float *floats(struct bench *b, int64_t n)
{
    float *p = device_alloc(b->device, (size_t)n * sizeof *p, "test", NULL);
    assert_non_null(p);
    return p;
}

/* A stand-in for the kernel `add`: counts each unit, keeps one scratch busy at a time. */
static struct {
    _Atomic int hits[N_ROW], n_call, n_bad;
} seen;

static void fake_add(const void *args, const struct k_slice *s)
{
    const struct k_binary *a = args;
    _Atomic int *busy = s->scratch;
    if ((uintptr_t)s->scratch % 64 || s->hi > a->m || atomic_fetch_add(busy, 1))
        atomic_fetch_add(&seen.n_bad, 1);
    memset((char *)s->scratch + 64, 1, K_SCRATCH_BYTES - 64);
    usleep(500); /* long enough for the others to come */
    for (int64_t i = s->lo; i < s->hi; i++)
        atomic_fetch_add(&seen.hits[i], 1);
    atomic_fetch_add(&seen.n_call, 1);
    atomic_fetch_sub(busy, 1);
}

static struct k_binary call_of(float *p, int64_t m, int64_t d)
{
    return (struct k_binary){
        .a = p, .b = p, .y = p, .ld_a = N_COL, .ld_b = N_COL, .ld_y = N_COL, .m = m, .d = d};
}

/* Faults: a unit lost or run twice; two threads with one scratch; a scratch that is too small. */
static void large_call_is_shared_out(void **state)
{
    (void)state;
    struct bench b;
    setup(&b, 3);
    memset(&seen, 0, sizeof seen);
    b.device->kernels.fn[K_add] = fake_add;
    float *p = floats(&b, N_ROW * N_COL);
    struct k_binary args = call_of(p, N_ROW, N_COL);
    stream_launch(b.stream, K_add, &args, sizeof args);
    for (int i = 0; i < N_ROW; i++)
        assert_int_equal(seen.hits[i], 1);
    assert_true(seen.n_call > 1);
    assert_int_equal(seen.n_bad, 0);
    device_mem_free(b.device, p);
    teardown(&b);
}

/* A stand-in for linear_dx, of which so many units in a row stay together. */
static struct {
    _Atomic int hits[128], n_cut; /* slices that begin or end between them */
    int64_t together;
} tied;

static void fake_dx(const void *args, const struct k_slice *s)
{
    (void)args;
    for (int64_t i = s->lo; i < s->hi; i++)
        atomic_fetch_add(&tied.hits[i], 1);
    if (s->lo % tied.together || s->hi % tied.together)
        atomic_fetch_add(&tied.n_cut, 1);
}

/* Faults: a unit lost, run twice or past the last; a slice between units that stay together though
 * there is enough for each thread; threads without work because units stay together. */
static void what_stays_together_is_not_cut(void **state)
{
    (void)state;
    for (int n_thread = 2; n_thread < 5; n_thread++) {
        struct bench b;
        setup(&b, n_thread);
        b.device->kernels.fn[K_linear_dx_bf16] = fake_dx;
        struct k_linear_dx a = {
            .m = 128, .w = {.type = K_BF16, .n = 64, .k = 576}, .panel_hi = 2, .ld_dx = 576};
        struct k_shape shape = kernel_shape(K_linear_dx_bf16, &a);
        memset(&tied, 0, sizeof tied);
        tied.together = shape.n_together;
        assert_true(shape.n_together > 1 && shape.n_unit == 18 * shape.n_together);
        assert_true(shape.n_unit < 128);
        stream_launch(b.stream, K_linear_dx_bf16, &a, sizeof a);
        for (int64_t i = 0; i < 128; i++)
            assert_int_equal(tied.hits[i], i < shape.n_unit);
        assert_int_equal(tied.n_cut > 0, n_thread > 2); /* 18 is 8 for each of two, not of three */
        teardown(&b);
    }
}

static int64_t so_many_ns(void *ctx)
{
    return *(const int64_t *)ctx;
}

/* Fault: a piece of a call that is no multiple of what stays together loses its last units. */
static void pieces_have_all_units(void **state)
{
    (void)state;
    struct bench b;
    int64_t ns = 0;
    setup(&b, 1); /* 8 of 18 then are enough, so that a piece may be more */
    b.device->kernels.fn[K_linear_dx_bf16] = fake_dx;
    struct k_linear_dx a = {
        .m = 128, .w = {.type = K_BF16, .n = 64, .k = 576}, .panel_hi = 2, .ld_dx = 576};
    int64_t n_unit = kernel_shape(K_linear_dx_bf16, &a).n_unit;
    tied.together = kernel_shape(K_linear_dx_bf16, &a).n_together;
    stream_between(b.stream, so_many_ns, &ns);
    for (ns = 500; ns < 300000; ns += ns / 16) {
        stream_rest(b.stream);
        memset(tied.hits, 0, sizeof tied.hits);
        stream_launch(b.stream, K_linear_dx_bf16, &a, sizeof a);
        for (int64_t i = 0; i < 128; i++)
            assert_int_equal(tied.hits[i], i < n_unit);
    }
    stream_between(b.stream, NULL, NULL);
    teardown(&b);
}

/* Fault: what somebody gave up runs on, within a launch or in those behind it. */
static void what_is_given_up_ends(void **state)
{
    (void)state;
    struct bench b;
    int64_t ns = -1;
    setup(&b, 1);
    memset(&seen, 0, sizeof seen);
    b.device->kernels.fn[K_add] = fake_add;
    float *p = floats(&b, N_ROW * N_COL);
    struct k_binary args = call_of(p, N_ROW, N_COL);
    stream_between(b.stream, so_many_ns, &ns);
    for (int i = 0; i < 3; i++)
        stream_launch(b.stream, K_add, &args, sizeof args);
    int n = seen.n_call;
    assert_in_range(n, 1, 1); /* the piece at hand */
    stream_between(b.stream, NULL, NULL);
    stream_launch(b.stream, K_add, &args, sizeof args);
    assert_true(seen.n_call > n);
    device_mem_free(b.device, p);
    teardown(&b);
}

/* Faults: a small call pays for the pool; an empty one is run. */
static void small_call_runs_here(void **state)
{
    (void)state;
    struct bench b;
    setup(&b, 3);
    memset(&seen, 0, sizeof seen);
    b.device->kernels.fn[K_add] = fake_add;
    float *p = floats(&b, N_ROW * N_COL);
    struct k_binary args = call_of(p, N_ROW, 2);
    stream_launch(b.stream, K_add, &args, sizeof args);
    assert_int_equal(seen.n_call, 1);
    assert_int_equal(seen.hits[N_ROW - 1], 1);
    args.m = 0;
    stream_launch(b.stream, K_add, &args, sizeof args);
    assert_int_equal(seen.n_call, 1);
    device_mem_free(b.device, p);
    teardown(&b);
}

struct trace {
    int n, n_add;
    int64_t ns;
    double bytes;
};

static void note(void *ctx, enum kernel_id k, struct k_shape shape, int64_t ns)
{
    struct trace *t = ctx;
    t->n++;
    t->n_add += k == K_add;
    t->ns += ns;
    t->bytes += shape.bytes;
}

/* Fault: a trace that misses a launch, or goes on after it was taken away. */
static void trace_sees_each_launch(void **state)
{
    (void)state;
    struct bench b;
    struct trace t = {0};
    setup(&b, 2);
    float *p = floats(&b, N_ROW * N_COL);
    struct k_binary args = call_of(p, N_ROW, N_COL);
    stream_trace(b.stream, note, &t);
    stream_launch(b.stream, K_add, &args, sizeof args);
    stream_launch(b.stream, K_add, &args, sizeof args);
    stream_trace(b.stream, NULL, NULL);
    stream_launch(b.stream, K_add, &args, sizeof args);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.n_add, 2);
    assert_true(t.ns > 0 && t.bytes > 0);
    device_mem_free(b.device, p);
    teardown(&b);
}

/* Fault: the real kernel, cut over threads, gives other bits than in one piece. */
static void result_does_not_depend_on_threads(void **state)
{
    (void)state;
    float *want = NULL;
    for (int n_thread = 1; n_thread <= 4; n_thread++) {
        struct bench b;
        setup(&b, n_thread);
        float *p = floats(&b, N_ROW * N_COL);
        for (int i = 0; i < N_ROW * N_COL; i++)
            p[i] = (float)i * 0.001f;
        struct k_binary args = call_of(p, N_ROW, N_COL);
        stream_launch(b.stream, K_add, &args, sizeof args);
        if (!want) {
            want = try_alloc(N_ROW * N_COL, sizeof *want, "test", NULL);
            memcpy(want, p, N_ROW * N_COL * sizeof *p);
        }
        assert_memory_equal(p, want, N_ROW * N_COL * sizeof *p);
        device_mem_free(b.device, p);
        teardown(&b);
    }
    mem_free(want);
}

/* Faults: memory that is not zeroed; an unmeetable size that is not refused; copies out of order
 * with launches; events that measure nothing. */
static void memory_copies_events(void **state)
{
    (void)state;
    struct bench b;
    struct err e = ERR_INIT;
    size_t total, left;
    setup(&b, 2);
    device_memory(b.device, &total, &left);
    assert_true(left > 0 && left <= total);
    assert_null(device_alloc(b.device, SIZE_MAX / 2, "K/V cells", &e));
    assert_err(-1, &e, ERR_NO_MEMORY, "K/V cells");

    struct event *from = event_new(b.device, &e), *to = event_new(b.device, &e);
    float *p = floats(&b, N_COL), *host = device_host_alloc(b.device, N_COL * 4, "host", &e);
    assert_true(p[0] == 0 && host[N_COL - 1] == 0);
    for (int i = 0; i < N_COL; i++)
        host[i] = 1;
    event_record(from, b.stream);
    stream_copy(b.stream, p, host, N_COL * 4, COPY_TO_DEVICE);
    struct k_binary args = call_of(p, 1, N_COL);
    stream_launch(b.stream, K_add, &args, sizeof args);
    stream_copy(b.stream, host, p, N_COL * 4, COPY_FROM_DEVICE);
    event_record(to, b.stream);
    event_wait(to, b.stream);
    assert_good(stream_sync(b.stream, &e), &e);
    assert_good(event_sync(to, &e), &e);
    assert_true(event_ns(from, to) > 0);
    assert_true(host[0] == 2 && host[N_COL - 1] == 2);
    device_host_free(b.device, host);
    device_mem_free(b.device, p);
    event_free(from);
    event_free(to);
    teardown(&b);
}

/* Faults: an unknown level of kernels taken for "all"; a failure that leaks or says nothing. */
static void unknown_kernels_are_refused(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct mem_stat before = mem_stat();
    struct pool *pool = pool_new(1, false, &e);
    size_t n_block = mem_stat().n_block;
    assert_null(device_cpu_new(pool, "avx1024", &e));
    assert_err(-1, &e, ERR_UNSUPPORTED, "avx1024");
    assert_int_equal(mem_stat().n_block, n_block);
    struct device *d = device_cpu_new(pool, NULL, &e);
    assert_int_equal(device_get_kind(d), DEVICE_CPU);
    assert_true(device_reads_host(d));
    assert_true(strlen(device_name(d)) > 0);
    assert_non_null(device_kernels(d)->fn[K_add]);
    device_free(d);
    pool_free(pool);
    assert_int_equal(mem_stat().now_bytes, before.now_bytes);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(large_call_is_shared_out),
        cmocka_unit_test(what_stays_together_is_not_cut),
        cmocka_unit_test(pieces_have_all_units),
        cmocka_unit_test(what_is_given_up_ends),
        cmocka_unit_test(small_call_runs_here),
        cmocka_unit_test(trace_sees_each_launch),
        cmocka_unit_test(result_does_not_depend_on_threads),
        cmocka_unit_test(memory_copies_events),
        cmocka_unit_test(unknown_kernels_are_refused),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
