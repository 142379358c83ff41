/* SPDX-License-Identifier: Apache-2.0
 *
 * Sinks, behind attention. Against the whole sum in f64: a sink that joins the sum of another head,
 * a y that is scaled by the wrong share, a log of sums that loses the smaller one. The gradient
 * against differences of that sum.
 */
#include <math.h>

#include "tests/kernels/check.h"

enum { N_KEY = 5 };

/* Attention of m rows over N_KEY scores and values of their own. */
struct sums {
    int64_t m;
    int32_t n_head, d_head;
    const float *score, *value; /* [m, n_head, N_KEY], [m, n_head, N_KEY, d_head] */
    const float *dy;            /* [m, n_head, d_head] */
};

static const struct {
    int64_t m;
    int32_t n_head, d_head;
} size[] = {{0, 2, 4}, {1, 1, 1}, {3, 2, 15}, {33, 9, 64}, {70, 3, 128}};

/* y of a row's head where its sum has `sink` too (-INFINITY: none); the log of the sum. */
static double attend(const struct sums *s, int64_t at, double sink, double *y)
{
    const float *score = s->score + at * N_KEY, *value = s->value + at * N_KEY * s->d_head;
    double most = sink, sum = 0;
    for (int i = 0; i < N_KEY; i++)
        most = fmax(most, score[i]);
    for (int32_t j = 0; j < s->d_head; j++)
        y[j] = 0;
    for (int i = 0; i < N_KEY; i++) {
        double p = exp((double)score[i] - most);
        sum += p;
        for (int32_t j = 0; j < s->d_head; j++)
            y[j] += p * (double)value[i * s->d_head + j];
    }
    sum += exp(sink - most);
    for (int32_t j = 0; j < s->d_head; j++)
        y[j] /= sum;
    return most + log(sum);
}

static struct sums sums_new(struct check *c, int i)
{
    struct sums s = {.m = size[i].m, .n_head = size[i].n_head, .d_head = size[i].d_head};
    int64_t n = s.m * s.n_head;
    check_begin(c);
    check_case(c, "rows %lld heads %d of %d", (long long)s.m, s.n_head, s.d_head);
    s.score = check_floats(c, n * N_KEY, CHECK_RANDOM);
    s.value = check_floats(c, n * N_KEY * s.d_head, CHECK_RANDOM);
    s.dy = check_floats(c, n * s.d_head, CHECK_RANDOM);
    return s;
}

/* What attention left: with the sinks, or without. */
static struct k_attn_sink left_of(struct check *c, const struct sums *s, bool has_sink)
{
    struct k_attn_sink a = {.sink = check_floats(c, s->n_head, CHECK_RANDOM),
                            .y = check_floats(c, s->m * s->n_head * s->d_head, CHECK_NAN),
                            .lse = check_floats(c, s->m * s->n_head, CHECK_NAN),
                            .dy = s->dy,
                            .dsink = check_floats(c, s->n_head, CHECK_RANDOM),
                            .ld_y = (int64_t)s->n_head * s->d_head,
                            .ld_dy = (int64_t)s->n_head * s->d_head,
                            .m = s->m,
                            .n_head = s->n_head,
                            .d_head = s->d_head};
    double y[256];
    for (int64_t i = 0; i < s->m * s->n_head; i++) {
        double sink = has_sink ? (double)a.sink[i % s->n_head] : -INFINITY;
        a.lse[i] = (float)attend(s, i, sink, y);
        for (int32_t j = 0; j < s->d_head; j++)
            a.y[i * s->d_head + j] = (float)y[j];
    }
    return a;
}

void check_attn_sink(struct check *c)
{
    for (int i = 0; i < (int)(sizeof size / sizeof *size); i++) {
        struct sums s = sums_new(c, i);
        struct k_attn_sink a = left_of(c, &s, false);
        int64_t n = s.m * s.n_head;
        double y[256];
        check_slices(c, &a,
                     (struct check_out[]){{a.y, (size_t)(n * s.d_head) * sizeof *a.y},
                                          {a.lse, (size_t)n * sizeof *a.lse}},
                     2);
        for (int64_t k = 0; k < n; k++) {
            double lse = attend(&s, k, (double)a.sink[k % s.n_head], y);
            check_near_f64(c, "y", a.y + k * s.d_head, y, s.d_head, 2e-6, 2e-6);
            check_near_f64(c, "lse", a.lse + k, &lse, 1, 1e-6, 1e-6);
        }
        if (s.m > 0) { /* a row that sees no key */
            a.m = 1;
            for (int32_t h = 0; h < s.n_head; h++)
                a.lse[h] = -INFINITY;
            for (int32_t j = 0; j < s.n_head * s.d_head; j++)
                a.y[j] = 0;
            check_run(c, &a);
            check_near(c, "lse of the sink alone", a.lse, a.sink, s.n_head, 1e-6, 1e-6);
            for (int32_t j = 0; j < s.n_head * s.d_head; j++)
                check_true(c, a.y[j] == 0, "number %d of a row without keys is %g", j,
                           (double)a.y[j]);
        }
    }
}

static double sink_loss(const void *ctx, const double *sink)
{
    const struct sums *s = ctx;
    double sum = 0, y[256];
    for (int64_t i = 0; i < s->m * s->n_head; i++) {
        attend(s, i, sink[i % s->n_head], y);
        for (int32_t j = 0; j < s->d_head; j++)
            sum += y[j] * (double)s->dy[i * s->d_head + j];
    }
    return sum;
}

void check_attn_sink_dw(struct check *c)
{
    for (int i = 0; i < (int)(sizeof size / sizeof *size); i++) {
        struct sums s = sums_new(c, i);
        struct k_attn_sink a = left_of(c, &s, true), ref = a;
        size_t bytes = (size_t)s.n_head * sizeof *a.dsink;
        ref.dsink = check_dup(c, a.dsink, bytes, 4);
        check_slices(c, &a, (struct check_out[]){{a.dsink, bytes}}, 1);
        check_run_ref(c, &ref);
        check_near(c, "dsink", a.dsink, ref.dsink, s.n_head, 1e-5, 1e-5);
        for (int32_t h = 0; h < s.n_head; h++)
            a.dsink[h] = 0;
        check_run(c, &a);
        if (s.m > 0)
            check_gradient(c, "dsink by differences", a.dsink, a.sink, s.n_head, sink_loss, &s,
                           1e-4);
    }
}
