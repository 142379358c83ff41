/* SPDX-License-Identifier: Apache-2.0
 *
 * How many guesses are run, on machines of which the price of a row is known.
 */
#include "tests/lib/test.h"

#include <math.h>

#include "engine/base/rng.h"
#include "engine/draft/gain.h"

enum { N_ROW_MAX = 256, STEPS = 20000 /* of one text; what is asked ahead of many costs more */ };

/* Reading weights costs `flat`, rows cost `row` each; what is not hidden behind the other shows. */
struct machine {
    double flat, row, noise;
    uint64_t drawn;
};

static int64_t us_of(struct machine *m, int64_t rows)
{
    double compute = m->row * (double)rows;
    double us = sqrt(m->flat * m->flat + compute * compute);
    return (int64_t)(us * (1 + m->noise * rng_unit(1, 2, m->drawn++)));
}

/* Tokens a second of n texts with guesses that are right by `chance` over those without. Noise
 * apart; what a step brings is its mean. */
static double gain_of(struct machine m, int64_t n, float chance, double *share)
{
    struct gain g = {0};
    float all[N_ROW_MAX];
    double tokens = 0, us = 0, right[N_ROW_MAX + 1] = {0};
    int64_t n_row = 0, n_drafted = 0, n_step = n < 8 ? STEPS / n : STEPS / 8;
    struct machine quiet = m;
    quiet.noise = 0;
    float one = chance;
    for (int k = 0; k < 15 && n_row + n <= N_ROW_MAX; k++, one *= chance)
        for (int64_t i = 0; i < n; i++)
            all[n_row++] = one;
    for (int64_t i = 0; i < n_row; i++)
        right[i + 1] = right[i] + (double)all[i];
    for (int64_t i = 0; i < n_step; i++) {
        int64_t d = gain_rows(&g, n, all, n_row);
        assert_in_range(d, 0, n_row);
        gain_saw(&g, n, d, us_of(&m, n + d));
        tokens += (double)n + right[d];
        us += (double)us_of(&quiet, n + d);
        n_drafted += d;
    }
    *share = (double)n_drafted / ((double)n_step * (double)n);
    return tokens / us * (double)us_of(&quiet, n) / (double)n;
}

/* Fault: guesses that are nearly free and right, and are not run. */
static void gains_where_rows_are_free(void **state)
{
    (void)state;
    double share;
    struct machine m = {.flat = 30000, .row = 2000, .noise = 0.1};
    assert_true(gain_of(m, 1, 0.95F, &share) > 4);
    assert_true(gain_of(m, 1, 0.6F, &share) > 1.8);
    assert_true(gain_of(m, 4, 0.9F, &share) > 1.8);
}

/* Fault: guesses that cost more than two parts in a hundred, whatever they are worth, on whatever
 * machine, however steps vary. */
static void never_loses(void **state)
{
    static const double row[] = {50, 500, 2000, 8000, 30000};
    static const float chance[] = {0.01F, 0.1F, 0.3F, 0.6F, 0.9F, 0.99F};
    static const double noise[] = {0, 0.1, 0.5};
    (void)state;
    for (size_t r = 0; r < 5; r++)
        for (size_t c = 0; c < 6; c++)
            for (size_t k = 0; k < 3; k++)
                for (int64_t n = 1; n <= 64; n *= 2) {
                    struct machine m = {.flat = 30000, .row = row[r], .noise = noise[k]};
                    double share, gain = gain_of(m, n, chance[c], &share);
                    if (gain < 0.98)
                        fail_msg("%lld texts, rows of %.0f, chance %.2f, noise %.1f: %.3f",
                                 (long long)n, row[r], (double)chance[c], noise[k], gain);
                }
}

/* Fault: what was too dear once is too dear for ever. */
static void tries_again(void **state)
{
    (void)state;
    struct gain g = {0};
    const float all[] = {0.9F, 0.81F, 0.73F};
    int64_t n_run = 0;
    for (int i = 0; i < 200; i++)
        gain_saw(&g, 1, gain_rows(&g, 1, all, 3), 1000);
    for (int i = 0; i < 200; i++) {
        int64_t d = gain_rows(&g, 1, all, 3);
        gain_saw(&g, 1, d, d ? 9000 : 1000);
    }
    assert_int_equal(gain_rows(&g, 1, all, 3), 0);
    for (int i = 0; i < 4 * GAIN_STALE; i++) {
        int64_t d = gain_rows(&g, 1, all, 3);
        n_run += d > 0;
        gain_saw(&g, 1, d, 1000);
    }
    assert_true(n_run > GAIN_STALE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gains_where_rows_are_free),
                                       cmocka_unit_test(never_loses),
                                       cmocka_unit_test(tries_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
