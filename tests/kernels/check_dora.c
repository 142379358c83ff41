/* SPDX-License-Identifier: Apache-2.0
 *
 * dora_gain, dora, dora_dw. Faults they can catch: a length that leaves out what the adapter adds,
 * its scale or an input of a tail; a bias that is scaled; rows without gains that are touched, or
 * have a neighbour's; a gain of 1 that changes a bit; a row of zeros that becomes a NaN; a sum over
 * rows of another group.
 */
#include "tests/kernels/check.h"

#include <math.h>
#include <string.h>

enum { N_GROUP = 4 };

static double added(const struct k_dora_gain *a, int64_t o, int64_t i)
{
    double sum = 0;
    for (int64_t r = 0; r < a->rank; r++)
        sum += (double)a->b[o * a->rank + r] * a->a[r * a->k + i];
    return a->scale * sum;
}

/* Row 1 is of zeros, and the adapter adds none to it. */
static void gain_run(struct check *c, int64_t n, int64_t k, int64_t rank, enum check_kind kind)
{
    int64_t ld = k + 3;
    check_begin(c);
    check_case(c, "%s n %lld k %lld rank %lld", check_kind_name(kind), (long long)n, (long long)k,
               (long long)rank);
    float *w = check_floats(c, n * ld, kind), *b = check_floats(c, n * rank, CHECK_SMALL);
    float *norm = check_floats(c, n, CHECK_NAN), *gain = check_floats(c, n, CHECK_NAN);
    struct k_dora_gain a = {.w = w,
                            .ld_w = ld,
                            .n = n,
                            .k = k,
                            .rank = rank,
                            .a = check_floats(c, rank * k, CHECK_SMALL),
                            .b = b,
                            .scale = 1.7f,
                            .magnitude = check_floats(c, n, CHECK_RANDOM),
                            .norm = norm,
                            .gain = gain};
    if (n > 1) {
        memset(w + ld, 0, (size_t)k * sizeof *w);
        memset(b + rank, 0, (size_t)rank * sizeof *b);
    }
    check_slices(
        c, &a,
        (struct check_out[]){{norm, (size_t)n * sizeof *norm}, {gain, (size_t)n * sizeof *gain}},
        2);
    for (int64_t o = 0; o < n; o++) {
        double sum = 0, by;
        for (int64_t i = 0; i < k; i++) {
            double v = w[o * ld + i] + added(&a, o, i);
            sum += v * v;
        }
        double length = sqrt(sum);
        check_near_f64(c, "norm", &norm[o], &length, 1, 4e-6, 1e-22);
        by = norm[o] > 0 ? (double)a.magnitude[o] / norm[o] : 0;
        check_near_f64(c, "gain", &gain[o], &by, 1, 1e-6, 1e-30);
    }
    struct k_dora_gain bare = a;
    bare.norm = check_floats(c, n, CHECK_NAN);
    bare.magnitude = NULL;
    bare.gain = NULL;
    check_run(c, &bare);
    check_bits(c, "norm alone", bare.norm, norm, (size_t)n * sizeof *norm);
}

void check_dora_gain(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++)
        for (int i = 0; i < n; i++)
            gain_run(c, 1 + i % 7, sizes[i], 1 + i % 5, kind);
    gain_run(c, 0, 5, 3, CHECK_RANDOM);
    gain_run(c, 70, 67, 16, CHECK_RANDOM);
}

/* Groups of 3, 5, 1 and 9 rows with a row of none between the second and the third, and one before
 * all; the third group has no gains. */
static struct k_lora_group *groups_make(struct check *c, int64_t n, int64_t *m)
{
    static const int64_t rows[N_GROUP] = {3, 5, 1, 9};
    struct k_lora_group *g = check_buf(c, N_GROUP * sizeof *g, 8);
    *m = 1;
    for (int i = 0; i < N_GROUP; i++) {
        *m += i == 2;
        g[i] = (struct k_lora_group){.row_lo = *m, .row_hi = *m + rows[i]};
        *m = g[i].row_hi;
        if (i == 2)
            continue;
        float *norm = check_floats(c, n, CHECK_RANDOM);
        for (int64_t o = 0; o < n; o++)
            norm[o] = o % 5 == 3 ? 0 : 0.1f + fabsf(norm[o]);
        g[i].norm = norm;
        g[i].gain = check_floats(c, n, CHECK_RANDOM);
        g[i].dmagnitude = check_floats(c, n, CHECK_RANDOM);
    }
    return g;
}

static const float *gain_at(const struct k_dora *a, int64_t row)
{
    for (int64_t i = 0; i < a->n_group; i++)
        if (row >= a->group[i].row_lo && row < a->group[i].row_hi)
            return a->group[i].gain;
    return NULL;
}

static void dora_run(struct check *c, int64_t n, int64_t n_group, bool has_bias,
                     enum check_kind kind)
{
    int64_t m, ld = n + 2;
    check_begin(c);
    check_case(c, "%s n %lld groups %lld bias %d", check_kind_name(kind), (long long)n,
               (long long)n_group, has_bias);
    struct k_lora_group *g = groups_make(c, n, &m);
    float *y = check_floats(c, m * ld, kind);
    struct k_dora a = {.y = y,
                       .ld_y = ld,
                       .m = m,
                       .n = n,
                       .bias = has_bias ? check_floats(c, n, kind) : NULL,
                       .group = g,
                       .n_group = n_group};
    struct k_dora want = a;
    want.y = check_dup(c, y, (size_t)(m * ld) * sizeof *y, 4);
    const float *before = check_dup(c, y, (size_t)(m * ld) * sizeof *y, 4);
    check_run_ref(c, &want);
    check_slices(c, &a, (struct check_out[]){{y, (size_t)(m * ld) * sizeof *y}}, 1);
    check_bits(c, "y", y, want.y, (size_t)(m * ld) * sizeof *y);
    for (int64_t row = 0; row < m; row++) {
        const float *gain = gain_at(&a, row);
        for (int64_t o = 0; o < n; o++) {
            double x = before[row * ld + o], bias = a.bias ? a.bias[o] : 0;
            double to = gain ? gain[o] * (x - bias) + bias : x;
            double size = gain ? fabs(gain[o] * x) + fabs(gain[o] * bias) + fabs(bias) : 0;
            check_near_scaled(c, "y", &y[row * ld + o], &to, &size, 1, 2e-7, 1e-37);
        }
    }
}

static void ones_run(struct check *c, int64_t n)
{
    int64_t m;
    check_begin(c);
    check_case(c, "gains of 1, n %lld", (long long)n);
    struct k_lora_group *g = groups_make(c, n, &m);
    float *one = check_floats(c, n, CHECK_ZERO), *y = check_floats(c, m * n, CHECK_RANDOM);
    for (int64_t o = 0; o < n; o++)
        one[o] = 1;
    for (int i = 0; i < N_GROUP; i++)
        g[i].gain = one;
    struct k_dora a = {.y = y,
                       .ld_y = n,
                       .m = m,
                       .n = n,
                       .bias = check_floats(c, n, CHECK_RANDOM),
                       .group = g,
                       .n_group = N_GROUP};
    const float *before = check_dup(c, y, (size_t)(m * n) * sizeof *y, 4);
    check_run(c, &a);
    check_bits(c, "y", y, before, (size_t)(m * n) * sizeof *y);
}

void check_dora(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++)
        for (int i = 0; i < n; i++)
            dora_run(c, sizes[i], i % (N_GROUP + 1), i % 2, kind);
    for (int i = 0; i < n; i++)
        dora_run(c, sizes[i], N_GROUP, i % 2 == 0, CHECK_RANDOM);
    ones_run(c, 67);
}

/* What a group's magnitude gets, and how large its terms are. */
static double slope_of(const struct k_dora_dw *a, const struct k_lora_group *g, int64_t o,
                       double *size)
{
    double sum = 0;
    for (int64_t row = g->row_lo; row < g->row_hi; row++) {
        double x = a->x[row * a->ld_x + o], bias = a->bias ? a->bias[o] : 0;
        double dy = a->dy[row * a->ld_dy + o];
        sum += dy * (x - bias) / g->norm[o];
        *size += (fabs(dy * x) + fabs(dy * bias)) / g->norm[o];
    }
    return sum;
}

static void dw_run(struct check *c, int64_t n, int64_t n_group, bool has_bias, int64_t n_last)
{
    int64_t m, ld = n + 1;
    check_begin(c);
    check_case(c, "n %lld groups %lld bias %d rows %lld", (long long)n, (long long)n_group,
               has_bias, (long long)n_last);
    struct k_lora_group *g = groups_make(c, n, &m);
    g[N_GROUP - 1].row_hi += n_last;
    m += n_last;
    struct k_dora_dw a = {.x = check_floats(c, m * ld, CHECK_RANDOM),
                          .dy = check_floats(c, m * ld, CHECK_RANDOM),
                          .ld_x = ld,
                          .ld_dy = ld,
                          .m = m,
                          .n = n,
                          .bias = has_bias ? check_floats(c, n, CHECK_RANDOM) : NULL,
                          .group = g,
                          .n_group = n_group};
    size_t bytes = (size_t)n * sizeof(float);
    const float *before[N_GROUP];
    struct check_out out[N_GROUP];
    int n_out = 0;
    for (int i = 0; i < N_GROUP; i++) {
        if (!g[i].dmagnitude)
            continue;
        before[i] = check_dup(c, g[i].dmagnitude, bytes, 4);
        out[n_out++] = (struct check_out){g[i].dmagnitude, bytes};
    }
    check_slices(c, &a, out, n_out);
    for (int i = 0; i < N_GROUP; i++)
        for (int64_t o = 0; g[i].dmagnitude && o < n; o++) {
            double want = before[i][o], size = fabs(want);
            if (i < n_group && g[i].norm[o] > 0)
                want += slope_of(&a, &g[i], o, &size);
            check_near_scaled(c, "dmagnitude", &g[i].dmagnitude[o], &want, &size, 1, 1e-6, 1e-37);
        }
}

void check_dora_dw(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int i = 0; i < n; i++)
        dw_run(c, sizes[i], i % (N_GROUP + 1), i % 2, 0);
    dw_run(c, 130, N_GROUP, true, 100);
    dw_run(c, 70, N_GROUP, false, 2000);
}
