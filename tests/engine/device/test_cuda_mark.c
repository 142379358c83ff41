/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks between streams of a GPU, on the twin of CUDA or on a GPU (TEST_GPU=1).
 */
#include "tests/lib/test.h"

#include "engine/device/open.h"
#include "tests/lib/gpu.h"

struct world {
    struct pool *pool;
    struct device *d;
    struct stream *first, *second;
    struct event *mark;
    float *x; /* the device's */
};

static void world_init(struct world *w)
{
    struct err e = ERR_INIT;
    w->pool = pool_new(1, false, &e);
    assert_good(w->pool ? 0 : -1, &e);
    w->d = device_open(&(struct device_options){.want = "cuda", .pool = w->pool}, &e);
    assert_good(w->d ? 0 : -1, &e);
    w->first = stream_new(w->d, &e);
    w->second = stream_new(w->d, &e);
    w->mark = event_new(w->d, &e);
    w->x = device_alloc(w->d, sizeof *w->x, "a number", &e);
    assert_good(w->first && w->second && w->mark && w->x ? 0 : -1, &e);
}

static void world_release(struct world *w)
{
    device_mem_free(w->d, w->x);
    event_free(w->mark);
    stream_free(w->second);
    stream_free(w->first);
    device_free(w->d);
    pool_free(w->pool);
}

/* A stream that goes on behind what failed in another, and calls what it made of it a result; one
 * that fails for what came behind the mark, or once more when it was told. */
static void a_fault_passes_a_mark(void **state)
{
    struct err e = ERR_INIT;
    struct world w;
    (void)state;
    world_init(&w);
    event_record(w.mark, w.first);
    stream_copy(w.first, w.x, NULL, sizeof *w.x, COPY_ON_DEVICE);
    event_wait(w.mark, w.second);
    assert_good(stream_sync(w.second, &e), &e);
    event_record(w.mark, w.first);
    event_wait(w.mark, w.second);
    assert_err(stream_state(w.second, &e), &e, ERR_DEVICE, "a copy");
    assert_err(stream_sync(w.second, &e), &e, ERR_DEVICE, "a copy");
    assert_err(stream_sync(w.first, &e), &e, ERR_DEVICE, "a copy");
    event_record(w.mark, w.first);
    event_wait(w.mark, w.second);
    assert_good(stream_sync(w.second, &e), &e);
    assert_good(event_sync(w.mark, &e), &e);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_fault_passes_a_mark)};
    gpu_play();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
