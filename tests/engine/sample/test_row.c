/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over a row against plain loops, at every length around a run and a block.
 */
#include "tests/lib/test.h"

#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/sample/row.h"

enum { N = 2200 };

static void scaled(float *x, float *y, int64_t n)
{
    row_scale(x, y, n, 1.5f, 0.25f);
}

/* Fault: a part written before it is read where the row is scaled in place. */
static void scaling(void **state)
{
    float x[100] = {0}, y[100];
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
        cmocka_unit_test(scaling),
        cmocka_unit_test(draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
