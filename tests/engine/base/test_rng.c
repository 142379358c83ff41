/* SPDX-License-Identifier: Apache-2.0
 *
 * The generator against published answers, and its distributions.
 */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"

/* Fault: not Philox 4x32-10. The known answers are those published with Random123; the counter
 * words are (n low, n high, stream low, stream high). */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed, stream, n;
        uint32_t want[4];
    } row[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct rng_block b = rng_at(row[i].seed, row[i].stream, row[i].n);
        assert_memory_equal(b.v, row[i].want, sizeof b.v);
    }
}

/* Fault: numbers outside their range, or a mean or variance that is off. */
static void distributions(void **state)
{
    (void)state;
    enum { N = 100000 };
    double sum = 0, sum_sq = 0, sum_unit = 0;
    int seen[7] = {0};
    for (uint64_t n = 0; n < N; n++) {
        double u = rng_unit(42, 1, n), z = rng_normal(42, 2, n);
        uint64_t k = rng_below(42, 3, n, 7);
        assert_true(u >= 0 && u < 1 && isfinite(z) && k < 7);
        sum_unit += u;
        sum += z;
        sum_sq += z * z;
        seen[k]++;
    }
    assert_true(fabs(sum_unit / N - 0.5) < 0.005);
    assert_true(fabs(sum / N) < 0.015);
    assert_true(fabs(sum_sq / N - 1) < 0.02);
    for (int k = 0; k < 7; k++)
        assert_true(abs(seen[k] - N / 7) < 600);
    assert_int_equal(rng_below(1, 1, 1, 1), 0);
}

/* Fault: a stream or seed that does not change the numbers. */
static void streams_differ(void **state)
{
    (void)state;
    assert_true(rng_unit(1, 1, 1) != rng_unit(1, 2, 1));
    assert_true(rng_unit(1, 1, 1) != rng_unit(2, 1, 1));
    assert_true(rng_unit(1, 1, 1) != rng_unit(1, 1, 2));
    assert_true(rng_unit(1, 1, 1) == rng_unit(1, 1, 1));
}

int main(void)
{
    const struct CMUnitTest test[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(distributions),
        cmocka_unit_test(streams_differ),
    };
    return cmocka_run_group_tests(test, NULL, NULL);
}
