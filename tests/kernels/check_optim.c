/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizer. Faults they can catch: decay that goes through the moments, a correction on the
 * wrong side of the root, eps inside it, a fused product that changes bits between variants, a
 * partial sum that overflows or hides a NaN.
 */
#include <math.h>

#include "tests/kernels/check.h"

static const int64_t lengths[] = {0,   1, 15, 17, K_SUM_CHUNK - 1, K_SUM_CHUNK, K_SUM_CHUNK + 1,
                                  9001};

/* One parameter over some steps, in f64, as the formula is published. */
static double adamw_f64(double p, const double *g, int n_step, const struct k_adamw *a)
{
    double m = 0, v = 0;
    for (int t = 1; t <= n_step; t++) {
        double grad = g[t - 1] * a->g_scale;
        p -= a->lr * a->decay * p;
        m = a->beta1 * m + (1 - a->beta1) * grad;
        v = a->beta2 * v + (1 - a->beta2) * grad * grad;
        double m_hat = m / (1 - pow(a->beta1, t)), v_hat = v / (1 - pow(a->beta2, t));
        p -= a->lr * m_hat / (sqrt(v_hat) + a->eps);
    }
    return p;
}

static void adamw_formula(struct check *c)
{
    enum { N = 37, STEPS = 10 };
    double g[N][STEPS], want[N];
    check_begin(c);
    check_case(c, "ten steps");
    float *p = check_floats(c, N, CHECK_RANDOM), *grad = check_floats(c, N, CHECK_NAN);
    float *m = check_floats(c, N, CHECK_ZERO), *v = check_buf(c, N * sizeof *v, 4);
    struct k_adamw a = {.p = p, .m = m, .v = v, .g = grad, .n = N, .lr = 1e-2, .beta1 = 0.9};
    a.beta2 = 0.999;
    a.eps = 1e-8;
    a.decay = 0.1;
    a.g_scale = 0.25;
    for (int i = 0; i < N; i++) {
        v[i] = 0;
        for (int t = 0; t < STEPS; t++)
            g[i][t] = (float)(check_unit(c) - 0.4);
        want[i] = adamw_f64(p[i], g[i], STEPS, &a);
    }
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < N; i++)
            grad[i] = (float)g[i][t - 1];
        a.corr1 = 1 - pow(a.beta1, t);
        a.corr2 = 1 - pow(a.beta2, t);
        check_run(c, &a);
    }
    check_near_f64(c, "p", p, want, N, 1e-6, 1e-6);
}

static void adamw_run(struct check *c, int64_t n, enum check_kind kind)
{
    size_t bytes = (size_t)n * sizeof(float);
    check_begin(c);
    check_case(c, "%s n %lld", check_kind_name(kind), (long long)n);
    struct k_adamw a = {.p = check_floats(c, n, CHECK_RANDOM),
                        .m = check_floats(c, n, kind),
                        .v = check_floats(c, n, CHECK_ZERO),
                        .g = check_floats(c, n, kind),
                        .n = n,
                        .lr = 3e-4,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .eps = 1e-8,
                        .decay = 0.01,
                        .g_scale = 0.7,
                        .corr1 = 0.19,
                        .corr2 = 0.0975};
    struct k_adamw ref = a;
    for (int64_t i = 0; i < n; i++)
        a.v[i] = a.g[i] * a.g[i] * 0.5f;
    ref.p = check_dup(c, a.p, bytes, 4);
    ref.m = check_dup(c, a.m, bytes, 4);
    ref.v = check_dup(c, a.v, bytes, 4);
    check_slices(c, &a, (struct check_out[]){{a.p, bytes}, {a.m, bytes}, {a.v, bytes}}, 3);
    check_run_ref(c, &ref);
    check_bits(c, "p", a.p, ref.p, bytes);
    check_bits(c, "m", a.m, ref.m, bytes);
    check_bits(c, "v", a.v, ref.v, bytes);
}

void check_adamw(struct check *c)
{
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            adamw_run(c, lengths[i], kind);
    }
    adamw_formula(c);
}

static void sum_sq_run(struct check *c, int64_t n, enum check_kind kind)
{
    int64_t n_part = (n + K_SUM_CHUNK - 1) / K_SUM_CHUNK;
    check_begin(c);
    check_case(c, "%s n %lld", check_kind_name(kind), (long long)n);
    float *x = check_floats(c, n, kind);
    size_t bytes = (size_t)n_part * sizeof(double);
    struct k_sum_sq a = {.x = x, .n = n, .part = check_buf(c, bytes, 8)}, ref = a;
    ref.part = check_buf(c, bytes, 8);
    check_slices(c, &a, (struct check_out[]){{a.part, bytes}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < n_part; i++)
        check_true(c, fabs(a.part[i] - ref.part[i]) <= 1e-13 * ref.part[i], "part %lld: %g, not %g",
                   (long long)i, a.part[i], ref.part[i]);
    for (int64_t i = 0; i < n; i += 1 + n / 7) { /* no place hides what is not finite */
        float kept = x[i];
        x[i] = i % 2 ? INFINITY : NAN;
        check_run(c, &a);
        check_true(c, !isfinite(a.part[i / K_SUM_CHUNK]), "%g at %lld is not seen", x[i],
                   (long long)i);
        x[i] = kept;
    }
}

void check_sum_sq(struct check *c)
{
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            sum_sq_run(c, lengths[i], kind);
    }
}
