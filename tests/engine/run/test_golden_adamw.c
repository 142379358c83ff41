/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's optimizer baselines: a two-layer net of sigmoids, 1001 steps of AdamW, the parameters
 * every 100 steps, within PyTorch's own tolerance (rtol 1e-3, atol 5e-4).
 */
#include "tests/lib/test.h"

#include <math.h>
#include <string.h>

#include "engine/load/json.h"
#include "kernels/kernels.h"

enum { N_IN = 2, N_MID = 3, N_ROW = 3, N_PARAM = 13, STEPS = 1001 };

/* 0.weight [3, 2], 0.bias [3], 2.weight [3], 2.bias [1], flat. */
enum { AT_W0 = 0, AT_B0 = 6, AT_W1 = 9, AT_B1 = 12 };

static const struct {
    const char *name;
    int at, n;
} parts[] = {
    {"0.weight", AT_W0, 6}, {"0.bias", AT_B0, 3}, {"2.weight", AT_W1, 3}, {"2.bias", AT_B1, 1}};

static int fill(const struct json *v, double *x)
{
    struct err e = ERR_INIT;
    struct json c;
    int n = 0;
    if (!json_is(v, JSON_ARRAY)) {
        assert_good(json_as_num(v, x, &e), &e);
        return 1;
    }
    json_each(c, *v) n += fill(&c, x + n);
    return n;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* The gradient of the sum of the outputs. */
static void gradient(const float *p, const double *input, float *g)
{
    double sum[N_PARAM] = {0};
    for (int r = 0; r < N_ROW; r++) {
        const double *x = input + r * N_IN;
        double mid[N_MID], z = (double)p[AT_B1];
        for (int j = 0; j < N_MID; j++) {
            mid[j] = sigmoid((double)p[AT_W0 + 2 * j] * x[0] + (double)p[AT_W0 + 2 * j + 1] * x[1] +
                             (double)p[AT_B0 + j]);
            z += (double)p[AT_W1 + j] * mid[j];
        }
        double y = sigmoid(z), dz = y * (1 - y);
        sum[AT_B1] += dz;
        for (int j = 0; j < N_MID; j++) {
            double dm = dz * (double)p[AT_W1 + j] * mid[j] * (1 - mid[j]);
            sum[AT_W1 + j] += dz * mid[j];
            sum[AT_B0 + j] += dm;
            sum[AT_W0 + 2 * j] += dm * x[0];
            sum[AT_W0 + 2 * j + 1] += dm * x[1];
        }
    }
    for (int i = 0; i < N_PARAM; i++)
        g[i] = (float)sum[i];
}

static double num(const struct json *v, const char *key)
{
    struct err e = ERR_INIT;
    double x;
    assert_good(json_get_num(v, key, &x, &e), &e);
    return x;
}

static void compare(const struct json *sample, const char *variant, const float *p)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        double want[6];
        struct json v = json_member(sample, parts[i].name);
        assert_int_equal(fill(&v, want), parts[i].n);
        for (int k = 0; k < parts[i].n; k++) {
            double got = (double)p[parts[i].at + k];
            if (fabs(got - want[k]) > 5e-4 + 1e-3 * fabs(want[k]))
                fail_msg("%s: step %g: %s[%d] is %.7g, PyTorch's %.7g", variant,
                         num(sample, "step"), parts[i].name, k, got, want[k]);
        }
    }
}

static void run_case(const struct json *root, const struct json *c, const struct kernel_table *t,
                     const char *variant)
{
    float p[N_PARAM], m[N_PARAM] = {0}, v[N_PARAM] = {0}, g[N_PARAM];
    double input[N_ROW * N_IN], x[6], beta[2];
    struct json init = json_member(root, "init"), in = json_member(root, "input"), part;
    struct json betas = json_member(c, "betas"), samples = json_member(c, "samples");
    struct json sample = json_child(&samples);
    int n_seen = 0;
    fill(&in, input);
    fill(&betas, beta);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        part = json_member(&init, parts[i].name);
        fill(&part, x);
        for (int k = 0; k < parts[i].n; k++)
            p[parts[i].at + k] = (float)x[k];
    }
    for (int step = 0; step < STEPS; step++) {
        gradient(p, input, g);
        struct k_adamw a = {.p = p,
                            .m = m,
                            .v = v,
                            .g = g,
                            .n = N_PARAM,
                            .lr = (float)num(c, "lr"),
                            .beta1 = (float)beta[0],
                            .beta2 = (float)beta[1],
                            .eps = (float)num(c, "eps"),
                            .decay = (float)num(c, "weight_decay"),
                            .g_scale = 1,
                            .corr1 = (float)(1 - pow(beta[0], step + 1)),
                            .corr2 = (float)(1 - pow(beta[1], step + 1))};
        kernel_run(t, K_adamw, &a, NULL);
        if (step % 100 == 0) {
            compare(&sample, variant, p);
            sample = json_next(&sample);
            n_seen++;
        }
    }
    assert_int_equal(n_seen, 11);
}

/* Faults: decay that goes through the moments, eps inside the root, bias correction of one moment.
 */
static void adamw_is_pytorchs(void **state)
{
    static const char *const masks[] = {"ref", "avx2", NULL};
    struct err e = ERR_INIT;
    struct json_doc *doc =
        json_read("tests/golden/optim/adamw.json", "adamw.json", &json_rules_config, &e);
    (void)state;
    assert_good(doc ? 0 : -1, &e);
    struct json root = json_root(doc), cases = json_member(&root, "cases"), c;
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        struct kernel_table t;
        if (kernel_table_init(&t, masks[i]))
            continue; /* this CPU lacks it */
        json_each(c, cases) run_case(&root, &c, &t, masks[i] ? masks[i] : "all");
    }
    json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(adamw_is_pytorchs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
