/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters by themselves: which are refused, and which of them want counts of what was said.
 */
#include "tests/lib/test.h"

#include <math.h>

#include "engine/sample/ask.h"
#include "engine/sample/sampler.h"

enum { N = 50 };

static void refused(struct sample_params p, const char *words)
{
    struct err e = ERR_INIT;
    assert_err(sample_check(&p, N, &e), &e, e.code == ERR_TOO_LARGE ? ERR_TOO_LARGE : ERR_BAD_INPUT,
               words);
}

/* Faults: NaN that passes a comparison; bounds off by one; a bias outside the row. */
static void bad_parameters_are_named(void **state)
{
    static const double odd[] = {-1, 1e308, NAN, INFINITY};
    static struct sample_bias bias[SAMPLE_BIAS_MAX + 1];
    struct sample_params p = SAMPLE_PARAMS_INIT, good = p;
    struct err e = ERR_INIT;
    (void)state;
    assert_good(sample_check(&p, N, &e), &e);
    for (int i = 0; i < 4; i++) {
        p = good;
        p.temperature = odd[i];
        refused(p, "temperature");
        p = good;
        p.top_p = odd[i];
        refused(p, "top_p");
        p = good;
        p.min_p = odd[i];
        refused(p, "min_p");
        p = good;
        p.repetition = odd[i];
        refused(p, "repetition_penalty");
        p = good;
        p.presence = 3 * odd[i];
        refused(p, "presence_penalty");
        p = good;
        p.frequency = 3 * odd[i];
        refused(p, "frequency_penalty");
        bias[0] = (struct sample_bias){0, 101 * (float)odd[i]};
        p = good;
        p.bias = bias;
        p.n_bias = 1;
        refused(p, "logit_bias");
    }
    p = good;
    p.top_p = 0;
    refused(p, "top_p");
    p = good;
    p.top_k = -1;
    refused(p, "top_k");
    p = good;
    p.repetition = 0;
    refused(p, "repetition_penalty");
    p = good;
    p.bias = bias;
    bias[0] = (struct sample_bias){N, 1};
    p.n_bias = 1;
    refused(p, "logit_bias");
    bias[0].id = -1;
    refused(p, "logit_bias");
    for (int32_t i = 0; i < SAMPLE_BIAS_MAX; i++)
        bias[i] = (struct sample_bias){i, 1};
    p.n_bias = SAMPLE_BIAS_MAX;
    assert_good(sample_check(&p, 2 * SAMPLE_BIAS_MAX, &e), &e);
    bias[7].id = 900;
    assert_err(sample_check(&p, 2 * SAMPLE_BIAS_MAX, &e), &e, ERR_BAD_INPUT,
               "token 900 comes twice");
    p.n_bias++;
    refused(p, "logit_bias");
}

/* Fault: a penalty for which nobody counts what was said. */
static void every_penalty_wants_counts(void **state)
{
    struct sample_params p[6];
    (void)state;
    for (int i = 0; i < 6; i++) {
        p[i] = (struct sample_params)SAMPLE_PARAMS_INIT;
        assert_false(sample_wants_seen(&p[i]));
    }
    p[0].repetition = 0.5;
    p[1].repetition = 2;
    p[2].presence = -1;
    p[3].presence = 1;
    p[4].frequency = -1;
    p[5].frequency = 1;
    for (int i = 0; i < 6; i++)
        assert_true(sample_wants_seen(&p[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_parameters_are_named),
        cmocka_unit_test(every_penalty_wants_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
