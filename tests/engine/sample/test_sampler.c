/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling against its definition, by counting.
 */
#include "tests/lib/test.h"

#include <math.h>

#include "engine/sample/sampler.h"

enum { N = 50, DRAWS = 20000 };

static struct kernel_table table;

static void fill(float *x)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)((i * 37) % N) * 0.12f;
}

/* Faults: a draw that does not follow the probabilities; a temperature applied twice or not. */
static void draws_follow_the_distribution(void **state)
{
    struct err e = ERR_INIT;
    struct sampler *s = sampler_new(N, &table, &e);
    struct sample_params p = {.temperature = 0.7, .top_p = 1, .seed = 5};
    float x[N];
    double sum = 0;
    int count[N] = {0};
    (void)state;
    fill(x);
    for (int i = 0; i < N; i++)
        sum += exp((double)x[i] / 0.7);
    for (int i = 0; i < DRAWS; i++)
        count[sampler_next(s, &p, x, (uint64_t)i)]++;
    for (int i = 0; i < N; i++) {
        double want = DRAWS * exp((double)x[i] / 0.7) / sum;
        assert_true(fabs(count[i] - want) < 5 * sqrt(want) + 5);
    }
    sampler_free(s);
}

/* Faults: a cut that leaves too much or too little, or takes the wrong end. */
static void cuts_leave_the_largest(void **state)
{
    struct err e = ERR_INIT;
    struct sampler *s = sampler_new(N, &table, &e);
    float x[N];
    (void)state;
    fill(x);
    struct sample_params k = {.temperature = 1, .top_p = 1, .top_k = 3, .seed = 1};
    struct sample_params one = {.temperature = 1, .top_p = 1e-9, .seed = 1};
    struct sample_params min = {.temperature = 1, .top_p = 1, .min_p = 0.75, .seed = 1};
    for (int i = 0; i < 500; i++) {
        assert_true(x[sampler_next(s, &k, x, (uint64_t)i)] > 46.5f * 0.12f);
        assert_true(x[sampler_next(s, &one, x, (uint64_t)i)] > 48.5f * 0.12f);
        assert_true(x[sampler_next(s, &min, x, (uint64_t)i)] > 46.5f * 0.12f);
    }
    sampler_free(s);
}

/* Faults: state that a draw leaves behind; greedy that prefers the later of equals or a NaN. */
static void a_draw_is_a_function(void **state)
{
    struct err e = ERR_INIT;
    struct sampler *s = sampler_new(N, &table, &e);
    struct sample_params p = {.temperature = 1, .top_p = 0.9, .seed = 9}, greedy = {.top_p = 1};
    float x[N];
    int32_t first[20];
    (void)state;
    fill(x);
    for (int i = 0; i < 20; i++)
        first[i] = sampler_next(s, &p, x, (uint64_t)i);
    for (int i = 19; i >= 0; i--)
        assert_int_equal(sampler_next(s, &p, x, (uint64_t)i), first[i]);
    for (int i = 0; i < N; i++)
        x[i] = i == 7 || i == 30 ? 2.0f : i == 0 ? NAN : 1.0f;
    assert_int_equal(sampler_next(s, &greedy, x, 0), 7);
    sampler_free(s);
}

/* Faults: NaN that passes a comparison; bounds off by one. */
static void bad_parameters_are_named(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    struct sample_params p = {.temperature = NAN, .top_p = 1};
    assert_err(sample_check(&p, &e), &e, ERR_BAD_INPUT, "temperature");
    p = (struct sample_params){.temperature = 1, .top_p = 0};
    assert_err(sample_check(&p, &e), &e, ERR_BAD_INPUT, "top_p");
    p = (struct sample_params){.temperature = 1, .top_p = 1, .min_p = 1.5};
    assert_err(sample_check(&p, &e), &e, ERR_BAD_INPUT, "min_p");
    p = (struct sample_params){.temperature = 1, .top_p = 1, .top_k = -1};
    assert_err(sample_check(&p, &e), &e, ERR_BAD_INPUT, "top_k");
    p = (struct sample_params){.temperature = 0, .top_p = 1};
    assert_good(sample_check(&p, &e), &e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(cuts_leave_the_largest),
        cmocka_unit_test(a_draw_is_a_function),
        cmocka_unit_test(bad_parameters_are_named),
    };
    kernel_table_init(&table, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
