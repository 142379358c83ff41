/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over a row against plain loops, at every length around a run and a block.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/sample/row.h"

enum { N = 2200 };

/* Faults: a tail that is left out or read twice, the later of equals, a NaN taken or not noticed.
 */
static void the_largest(void **state)
{
    float x[N];
    (void)state;
    for (int64_t n = 0; n < N; n += n < 70 || n % 1024 > 1000 || n % 1024 < 30 ? 1 : 97) {
        for (int64_t i = 0; i < n; i++)
            x[i] = (float)(int)(rng_unit(1, (uint64_t)n, (uint64_t)i) * 40) - 50;
        struct row_best b = row_best(x, n);
        int64_t want = n ? 0 : -1;
        for (int64_t i = 0; i < n; i++)
            want = x[i] > x[want] ? i : want;
        assert_int_equal(b.id, want);
        assert_true(b.is_finite && (n == 0 || b.max == x[want]));
        if (n < 2)
            continue;
        x[want] = NAN;
        int64_t other = want ? 0 : 1;
        for (int64_t i = 0; i < n; i++)
            other = x[i] > x[other] ? i : other;
        b = row_best(x, n);
        assert_int_equal(b.id, other);
        assert_false(b.is_finite);
    }
    for (int64_t i = 0; i < N; i++)
        x[i] = -INFINITY;
    assert_int_equal(row_best(x, N).id, -1);
}

static void scaled(float *x, float *y, int64_t n)
{
    row_scale(x, y, n, 1.5f, 0.25f);
}

/* Fault: a part written before it is read where the row is scaled in place. */
static void scaling(void **state)
{
    float x[100], y[100];
    (void)state;
    for (int64_t n = 0; n < 100; n++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = (float)i;
        scaled(x, y, n);
        scaled(x, x, n);
        for (int64_t i = 0; i < n; i++) {
            float want = ((float)i - 1.5f) * 0.25f;
            assert_memory_equal(&y[i], &want, sizeof want);
            assert_memory_equal(&x[i], &want, sizeof want);
        }
    }
}

/* Faults: an entry without weight that is drawn, the ends that cannot be, weights that need to sum
 * to 1, a block that is passed over. */
static void draws(void **state)
{
    static float w[N];
    (void)state;
    w[0] = w[N - 1] = 0;
    for (int64_t i = 1; i < N - 1; i++)
        w[i] = i % 3 ? (float)rng_unit(4, 0, (uint64_t)i) * 9 : 0;
    double sum = 0;
    for (int64_t i = 0; i < N; i++)
        sum += (double)w[i];
    double here = 0;
    for (int64_t i = 0; i < N; i++) {
        if (w[i] > 0)
            assert_int_equal(row_draw(w, N, (here + 0.5 * (double)w[i]) / sum), i);
        here += (double)w[i];
    }
    assert_int_equal(row_draw(w, N, 0), 1);
    assert_int_equal(row_draw(w, N, 1 - 0x1p-53), N - 2 - ((N - 2) % 3 == 0));
    for (uint64_t i = 0; i < 20000; i++)
        assert_true(w[row_draw(w, N, rng_unit(5, 0, i))] > 0);
    for (int64_t i = 0; i < N; i++)
        w[i] = i == 1500 ? 1e-30f : 0;
    assert_int_equal(row_draw(w, N, 0), 1500);
    assert_int_equal(row_draw(w, N, 1 - 0x1p-53), 1500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest),
        cmocka_unit_test(scaling),
        cmocka_unit_test(draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
