/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts that few requests ask for, against values worked out by hand. Faults they can catch: a
 * deviation or an entropy over entries that a mask has shut out, a set that holds one too many or
 * too few, one that is not the nearest to the mean surprise, a cut that leaves nothing.
 */
#include "engine/sample/cuts.h"

#include <math.h>

#include "tests/lib/test.h"

static int left(const float *row, int n)
{
    int k = 0;
    for (int i = 0; i < n; i++)
        k += row[i] > -INFINITY;
    return k;
}

/* Of 4, 2, 0, -2, -4 the deviation is sqrt(8) = 2.83. */
static void sigma(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        float row[] = {0, 4, -INFINITY, -4, 2, -2};
        static const double n_sigma[] = {0.1, 0.71, 1.5, 3};
        static const int want[] = {1, 2, 3, 5};
        cut_sigma(row, 6, n_sigma[k]);
        assert_int_equal(left(row, 6), want[k]);
        assert_true(row[1] > -INFINITY && !(row[2] > -INFINITY));
    }
    float one[] = {-INFINITY, 3};
    cut_sigma(one, 2, 1);
    assert_int_equal(left(one, 2), 1);
}

static void temperature(void **state)
{
    const float even[] = {1, 1, -INFINITY, 1}, sure[] = {1000, 0, -INFINITY, 0};
    const float between[] = {logf(0.5f), logf(0.25f), logf(0.25f)}; /* 1.5 of log2(3) bits */
    (void)state;
    assert_float_equal(cut_temperature(even, 4, 1, 0.5, 1), 1.5, 1e-9);
    assert_float_equal(cut_temperature(sure, 4, 1, 0.5, 1), 0.5, 1e-9);
    assert_float_equal(cut_temperature(sure, 4, 0.3, 0.5, 2), 0, 1e-9);
    assert_float_equal(cut_temperature(between, 3, 1, 0.5, 1), 0.5 + 1.5 / log2(3), 1e-6);
    assert_float_equal(cut_temperature(between, 3, 1, 0.5, 2), 0.5 + pow(1.5 / log2(3), 2), 1e-6);
}

/* Entropy of these is 1.0735; their surprises 0.51, 1.39, 2.30, 3.00. */
static void typical(void **state)
{
    static const struct {
        double p;
        int32_t n, first;
    } at[] = {{0.2, 1, 1}, {0.26, 2, 0}, {0.8, 2, 0}, {0.86, 3, 0}, {0.999, 4, 0}};
    (void)state;
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        float prob[] = {0.6f, 0.25f, 0.1f, 0.05f};
        int32_t id[] = {7, 5, 3, 1}, n = cut_typical(id, prob, 4, at[k].p);
        assert_int_equal(n, at[k].n);
        assert_int_equal(id[0], 7 - 2 * at[k].first);
    }
    /* Fault: where all that is likely is taken and more is wanted, what lies before the first. */
    struct {
        int32_t before, id[4];
    } none = {-1, {7, 5, 3, 1}};
    float prob[] = {0, 1, 0, 0, 0};
    assert_in_range(cut_typical(none.id, prob + 1, 4, 1.0000001), 1, 4);
    assert_true(none.id[0] == 7 && none.before == -1);
    float same[] = {0.5f, 0.5f};
    int32_t id[] = {4, 9};
    assert_int_equal(cut_typical(id, same, 2, 0.1), 1);
}

static void tail(void **state)
{
    const float prob[] = {0.5f, 0.25f, 0.125f, 0.125f};
    (void)state;
    assert_int_equal(cut_tail(prob, 4, 1, 0), 4);
    assert_int_equal(cut_tail(prob, 4, 0.75, 0), 2);
    assert_int_equal(cut_tail(prob, 4, 0.76, 0), 3);
    assert_int_equal(cut_tail(prob, 4, 1, 0.3), 2);
    assert_int_equal(cut_tail(prob, 4, 0.01, 1), 1);
}

static void top(void **state)
{
    static const struct {
        double threshold;
        int32_t n, first;
    } at[] = {{0.6, 4, 7}, {0.3, 4, 7}, {0.24, 3, 5}, {0.12, 2, 3}, {0, 1, 1}};
    (void)state;
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
        float prob[] = {0.5f, 0.25f, 0.15f, 0.1f};
        int32_t id[] = {7, 5, 3, 1}, n = cut_top(id, prob, 4, at[k].threshold);
        assert_int_equal(n, at[k].n);
        assert_int_equal(id[0], at[k].first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sigma), cmocka_unit_test(temperature),
                                       cmocka_unit_test(typical), cmocka_unit_test(tail),
                                       cmocka_unit_test(top)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
