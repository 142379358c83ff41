/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted memory: given back once, by the last who held it.
 */
#include "tests/lib/test.h"

#include <pthread.h>

#include "engine/base/mem.h"
#include "engine/tensor/storage.h"

static void count(void *ctx)
{
    ++*(int *)ctx;
}

static void *hold_and_drop(void *arg)
{
    struct storage *s = arg;
    for (int i = 0; i < 2000; i++)
        storage_unref(storage_ref(s));
    storage_unref(s);
    return NULL;
}

/* Faults: freed too early, twice, or never, when several threads drop their references. */
static void last_reference_ends_it(void **state)
{
    (void)state;
    int n_end = 0;
    char raw[8];
    pthread_t thread[3];
    struct pool *pool = pool_new(1, false, NULL);
    struct device *d = device_cpu_new(pool, "ref", NULL);
    struct storage *s = storage_wrap(d, raw, sizeof raw, count, &n_end);
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, hold_and_drop, storage_ref(s));
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(n_end, 0);
    assert_ptr_equal(storage_data(s), raw);
    assert_ptr_equal(storage_device(s), d);
    storage_unref(s);
    assert_int_equal(n_end, 1);
    storage_unref(storage_wrap(d, raw, sizeof raw, NULL, NULL)); /* somebody else's: stays */
    storage_unref(NULL);
    device_free(d);
    pool_free(pool);
}

/* Fault: memory of the device that is not given back, or an error that does not name it. */
static void memory_goes_back(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    struct pool *pool = pool_new(1, false, NULL);
    struct device *d = device_cpu_new(pool, "ref", NULL);
    size_t before = mem_stat().now_bytes;
    struct storage *s = storage_new(d, 1000, "weights", &e);
    assert_int_equal(storage_bytes(s), 1000);
    assert_int_equal(mem_stat().now_bytes, before + 1000);
    storage_unref(s);
    assert_int_equal(mem_stat().now_bytes, before);
    assert_null(storage_new(d, SIZE_MAX, "weights", &e));
    assert_err(-1, &e, ERR_NO_MEMORY, "weights");
    device_free(d);
    pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(last_reference_ends_it),
        cmocka_unit_test(memory_goes_back),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
