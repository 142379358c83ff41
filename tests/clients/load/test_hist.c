/* SPDX-License-Identifier: Apache-2.0
 *
 * Percentiles against those of the sorted samples.
 */
#include "clients/load/hist.h"

#include <stdlib.h>

#include "engine/base/rng.h"
#include "tests/lib/test.h"

/* Catches: a slot that overlaps its neighbour, a rank that is off by one. */
static void test_small_exact(void **state)
{
    (void)state;
    struct load_hist h = {0};
    assert_int_equal(load_hist_at(&h, 0.5), 0);
    for (int i = 1; i <= 100; i++)
        load_hist_add(&h, i);
    assert_int_equal(load_hist_at(&h, 0.5), 50);
    assert_int_equal(load_hist_at(&h, 0.99), 99);
    assert_int_equal(load_hist_at(&h, 1), 100);
    assert_int_equal(load_hist_at(&h, 0), 1);
    assert_true(load_hist_mean(&h) > 50.49 && load_hist_mean(&h) < 50.51);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Catches: an error that grows with the time, over ten powers of ten. */
static void test_error_is_bounded(void **state)
{
    (void)state;
    enum { N = 20000 };
    static struct load_hist h, halves[2];
    static int64_t sample[N];
    for (int i = 0; i < N; i++) {
        sample[i] = (int64_t)(rng_below(1, 0, (uint64_t)i, UINT64_C(1) << (i % 34)));
        load_hist_add(&halves[i % 2], sample[i]);
    }
    load_hist_merge(&h, &halves[0]);
    load_hist_merge(&h, &halves[1]);
    qsort(sample, N, sizeof *sample, by_value);
    for (int p = 1; p < 100; p++) {
        int64_t want = sample[N * p / 100 - 1], got = load_hist_at(&h, p / 100.0);
        assert_true(llabs(got - want) <= want / 250);
    }
    assert_int_equal(load_hist_at(&h, 1), sample[N - 1]);
}

/* Catches: a time outside the range that writes outside the slots. */
static void test_ends(void **state)
{
    (void)state;
    struct load_hist h = {0};
    load_hist_add(&h, -5);
    load_hist_add(&h, INT64_MAX);
    assert_int_equal(load_hist_at(&h, 0.5), 0);
    assert_int_equal(load_hist_at(&h, 1), INT64_C(1) << LOAD_HIST_TOP_BITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_exact),
        cmocka_unit_test(test_error_is_bounded),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
