/* SPDX-License-Identifier: Apache-2.0
 *
 * The device on paper. Faults: bytes that are counted twice or not given back, addresses that two
 * blocks share, a launch or a copy that touches them.
 */
#include "engine/device/device_dry.h"

#include "tests/lib/test.h"

static void counts(void **state)
{
    struct err e = ERR_INIT;
    struct pool *pool = pool_new(1, false, &e);
    struct device *cpu = device_cpu_new(pool, NULL, &e), *d = device_dry_new(cpu);
    (void)state;
    assert_int_equal(device_lanes(d), device_lanes(cpu));
    assert_int_equal(device_reads_host(d), device_reads_host(cpu));
    char *a = device_alloc(d, 100, "a", &e), *b = device_alloc(d, (size_t)1 << 42, "b", &e);
    assert_true(a && b && (b >= a + 100 || a >= b + ((size_t)1 << 42)));
    assert_int_equal(device_dry_bytes(d), 100 + ((size_t)1 << 42));
    device_mem_free(d, b);
    void *host = device_host_alloc(d, 50, "host", &e);
    assert_int_equal(device_dry_bytes(d), 150);
    assert_int_equal(device_dry_peak(d), 100 + ((size_t)1 << 42));
    device_host_free(d, host);
    device_mem_free(d, a);
    assert_int_equal(device_dry_bytes(d), 0);
    assert_null(device_alloc(d, SIZE_MAX, "all", &e));
    assert_int_equal(e.code, ERR_NO_MEMORY);
    device_free(d);
    device_free(cpu);
    pool_free(pool);
}

static void runs_nothing(void **state)
{
    struct err e = ERR_INIT;
    struct pool *pool = pool_new(1, false, &e);
    struct device *cpu = device_cpu_new(pool, NULL, &e), *d = device_dry_new(cpu);
    struct stream *s = stream_new(d, &e);
    float *a = device_alloc(d, 400, "a", &e), here[100] = {7};
    struct k_copy k = {.y = a, .ld_y = 100, .m = 1, .d = 100};
    (void)state;
    stream_launch(s, K_copy, &k, sizeof k);
    stream_copy(s, a, here, sizeof here, COPY_TO_DEVICE);
    stream_copy(s, here, a, sizeof here, COPY_FROM_DEVICE);
    assert_good(stream_sync(s, &e), &e);
    assert_true(here[0] == 7);
    stream_free(s);
    device_mem_free(d, a);
    device_free(d);
    device_free(cpu);
    pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(runs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
