/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on several tracks. Faults they can catch: a weight of another pair of tracks, a run of
 * columns that is a track's neighbour's, a size taken with its eps, a slope that forgets that the
 * mean and the spread move with each number.
 */
#include <math.h>

#include "tests/kernels/check.h"

enum { ROWS = 3, MOST = 4 };

static void begin(struct check *c, const char *what, int64_t d, int32_t n, int32_t k)
{
    check_begin(c);
    check_case(c, "%s d %lld, %d by %d", what, (long long)d, n, k);
}

/* ---- mix ------------------------------------------------------------------------------------- */

/* kind 0: all there is; 1: no base; 2: no weights; 3: the other way round. */
static void mix_run(struct check *c, int64_t d, int32_t n, int32_t k, int kind)
{
    static const char *const what[] = {"whole", "no base", "no weights", "back"};
    int64_t ld_y = n * d + 1, ld_x = k * d + 2, ld_c = n * k + 3;
    begin(c, what[kind], d, n, k);
    float *base = check_floats(c, ROWS * ld_y, CHECK_RANDOM);
    float *x = check_floats(c, ROWS * ld_x, CHECK_RANDOM);
    float *w = check_floats(c, ROWS * ld_c, CHECK_RANDOM);
    float *y = check_floats(c, ROWS * ld_y, CHECK_NAN);
    struct k_mix a = {.base = kind == 1 ? NULL : base,
                      .x = x,
                      .c = kind == 2 ? NULL : w,
                      .y = y,
                      .ld_base = ld_y,
                      .ld_x = ld_x,
                      .ld_c = ld_c,
                      .ld_y = ld_y,
                      .m = ROWS,
                      .d = d,
                      .n = n,
                      .k = k,
                      .step_i = kind == 3 ? 1 : k,
                      .step_j = kind == 3 ? n : 1,
                      .plus = kind % 2 ? 1 : 0.5f};
    check_slices(c, &a, (struct check_out[]){{y, (size_t)(ROWS * ld_y) * sizeof *y}}, 1);
    for (int64_t at = 0; at < ROWS * n * d; at++) {
        int64_t r = at / (n * d), i = at / d % n, t = at % d;
        double want = a.base ? (double)base[r * ld_y + i * d + t] : 0, size = fabs(want);
        for (int64_t j = 0; j < k; j++) {
            float by = a.c ? w[r * ld_c + i * a.step_i + j * a.step_j] : 0;
            double one = ((double)by + (double)a.plus) * (double)x[r * ld_x + j * d + t];
            want += one, size += fabs(one);
        }
        double got = (double)y[r * ld_y + i * d + t];
        check_true(c, fabs(got - want) <= 1e-6 * size, "row %lld, track %lld, %lld: %g, not %g",
                   (long long)r, (long long)i, (long long)t, got, want);
    }
    if (!a.base)
        return;
    a.y = base; /* in place */
    check_run(c, &a);
    for (int64_t r = 0; r < ROWS; r++)
        check_bits(c, "in place", base + r * ld_y, y + r * ld_y, (size_t)(n * d) * sizeof *y);
}

void check_mix(struct check *c)
{
    int count;
    const int64_t *sizes = check_sizes(&count);
    for (int i = 0; i < count; i++)
        for (int kind = 0; kind < 4; kind++)
            for (int32_t k = 1; k <= MOST; k += 3)
                mix_run(c, sizes[i], kind % 2 ? MOST : 3, k, kind);
}

void check_mix_dot(struct check *c)
{
    int count;
    const int64_t *sizes = check_sizes(&count);
    for (int at = 0; at < 2 * count; at++) {
        int64_t d = sizes[at / 2];
        int32_t n = MOST, k = at % 2 ? MOST : 1;
        if (d < 1)
            continue;
        begin(c, "dot", d, n, k);
        int64_t ld_a = n * d + 1, ld_b = k * d + 2, ld_y = n * k + 3;
        struct k_mix_dot a = {.a = check_floats(c, ROWS * ld_a, CHECK_RANDOM),
                              .b = check_floats(c, ROWS * ld_b, CHECK_RANDOM),
                              .y = check_floats(c, ROWS * ld_y, CHECK_NAN),
                              .ld_a = ld_a,
                              .ld_b = ld_b,
                              .ld_y = ld_y,
                              .m = ROWS,
                              .d = d,
                              .n = n,
                              .k = k};
        check_slices(c, &a, (struct check_out[]){{a.y, (size_t)(ROWS * ld_y) * sizeof *a.y}}, 1);
        for (int64_t p = 0; p < ROWS * n * k; p++) {
            int64_t r = p / (n * k), i = p / k % n, j = p % k;
            double want = 0, size = 0;
            for (int64_t t = 0; t < d; t++) {
                double one = (double)a.a[r * ld_a + i * d + t] * (double)a.b[r * ld_b + j * d + t];
                want += one, size += fabs(one);
            }
            double got = (double)a.y[r * ld_y + i * k + j];
            check_true(c, fabs(got - want) <= 1e-5 * size, "row %lld, %lld by %lld: %g, not %g",
                       (long long)r, (long long)i, (long long)j, got, want);
        }
    }
}

/* ---- as large as others, and cut off --------------------------------------------------------- */

struct row_loss {
    const float *other, *dy;
    int64_t d;
    double by; /* least, or times */
};

static double size_of(const double *x, int64_t d)
{
    double sq = 0;
    for (int64_t t = 0; t < d; t++)
        sq += x[t] * x[t];
    return sqrt(sq / (double)d);
}

static double size_of_floats(const float *x, int64_t d)
{
    double sq = 0;
    for (int64_t t = 0; t < d; t++)
        sq += (double)x[t] * (double)x[t];
    return sqrt(sq / (double)d);
}

/* Of x, which is to be as large as other. */
static double match_loss(const void *ctx, const double *x)
{
    const struct row_loss *l = ctx;
    double loss = 0, size = size_of(x, l->d);
    double f = size_of_floats(l->other, l->d) / (size > l->by ? size : l->by);
    for (int64_t t = 0; t < l->d; t++)
        loss += (double)l->dy[t] * f * x[t];
    return loss;
}

/* Of what other is to be as large as. */
static double like_loss(const void *ctx, const double *x)
{
    const struct row_loss *l = ctx;
    double loss = 0, size = size_of_floats(l->other, l->d);
    double f = size_of(x, l->d) / (size > l->by ? size : l->by);
    for (int64_t t = 0; t < l->d; t++)
        loss += (double)l->dy[t] * f * (double)l->other[t];
    return loss;
}

static double cutoff_loss(const void *ctx, const double *x)
{
    const struct row_loss *l = ctx;
    double mean = 0, sq = 0, loss = 0;
    for (int64_t t = 0; t < l->d; t++)
        mean += x[t] / (double)l->d;
    for (int64_t t = 0; t < l->d; t++)
        sq += (x[t] - mean) * (x[t] - mean);
    double cut = mean + l->by * sqrt(sq / (double)l->d);
    for (int64_t t = 0; t < l->d; t++)
        loss += x[t] > cut ? (double)l->dy[t] * (x[t] - cut) : 0;
    return loss;
}

static struct k_match match_new(struct check *c, int64_t d, enum check_kind kind, float least)
{
    int64_t ld = d + 1, n = ROWS * ld;
    return (struct k_match){.x = check_floats(c, n, kind),
                            .like = check_floats(c, n, CHECK_RANDOM),
                            .dy = check_floats(c, n, CHECK_RANDOM),
                            .y = check_floats(c, n, CHECK_NAN),
                            .dx = check_floats(c, n, CHECK_NAN),
                            .dlike = check_floats(c, n, CHECK_NAN),
                            .ld_x = ld,
                            .ld_like = ld,
                            .ld_dy = ld,
                            .ld_y = ld,
                            .ld_dx = ld,
                            .ld_dlike = ld,
                            .m = ROWS,
                            .d = d,
                            .least = least};
}

void check_match(struct check *c)
{
    int count;
    const int64_t *sizes = check_sizes(&count);
    for (int i = 0; i < 3 * count; i++) {
        int64_t d = sizes[i / 3];
        enum check_kind kind = i % 3 == 2 ? CHECK_ZERO : CHECK_RANDOM;
        begin(c, check_kind_name(kind), d, 1, 1);
        struct k_match a = match_new(c, d, kind, i % 3 ? 5 : 0.001f);
        check_slices(c, &a, (struct check_out[]){{a.y, (size_t)(ROWS * a.ld_y) * sizeof *a.y}}, 1);
        for (int64_t r = 0; r < ROWS; r++) {
            double size = d ? size_of_floats(a.x + r * a.ld_x, d) : 0;
            double like = d ? size_of_floats(a.like + r * a.ld_like, d) : 0;
            double f = like / (size > (double)a.least ? size : (double)a.least);
            for (int64_t t = 0; t < d; t++) {
                float want = (float)(f * (double)a.x[r * a.ld_x + t]);
                check_near(c, "y", a.y + r * a.ld_y + t, &want, 1, 1e-5, 1e-30);
            }
        }
    }
}

void check_match_bwd(struct check *c)
{
    int count;
    const int64_t *sizes = check_sizes(&count);
    for (int i = 0; i < 2 * count; i++) {
        int64_t d = sizes[i / 2];
        if (d < 1 || d > 70)
            continue;
        begin(c, i % 2 ? "least" : "free", d, 1, 1);
        struct k_match a = match_new(c, d, CHECK_RANDOM, i % 2 ? 5 : 0.001f);
        size_t bytes = (size_t)(ROWS * a.ld_dx) * sizeof *a.dx;
        check_slices(c, &a, (struct check_out[]){{a.dx, bytes}, {a.dlike, bytes}}, 2);
        for (int64_t r = 0; r < ROWS; r++) {
            struct row_loss l = {.other = a.like + r * a.ld_like,
                                 .dy = a.dy + r * a.ld_dy,
                                 .d = d,
                                 .by = (double)a.least};
            check_gradient(c, "dx", a.dx + r * a.ld_dx, a.x + r * a.ld_x, d, match_loss, &l, 1e-4);
            l.other = a.x + r * a.ld_x;
            check_gradient(c, "dlike", a.dlike + r * a.ld_dlike, a.like + r * a.ld_like, d,
                           like_loss, &l, 1e-4);
        }
        float *dlike = check_dup(c, a.dlike, bytes, 4);
        a.dx = NULL;
        check_run(c, &a);
        for (int64_t r = 0; r < ROWS; r++)
            check_bits(c, "dlike alone", a.dlike + r * a.ld_dlike, dlike + r * a.ld_dlike,
                       (size_t)d * sizeof *dlike);
    }
}

static struct k_cutoff cutoff_new(struct check *c, int64_t d, enum check_kind kind, float times)
{
    int64_t ld = d + 1, n = ROWS * ld;
    return (struct k_cutoff){.x = check_floats(c, n, kind),
                             .dy = check_floats(c, n, CHECK_RANDOM),
                             .y = check_floats(c, n, CHECK_NAN),
                             .ld_x = ld,
                             .ld_dy = ld,
                             .ld_y = ld,
                             .m = ROWS,
                             .d = d,
                             .times = times};
}

/* No number of a row is as near to its cut that a difference would turn it over. */
static void keep_off(struct k_cutoff *a)
{
    for (int64_t at = 0; at < a->m * a->d; at++) {
        const float *x = a->x + at / a->d * a->ld_x;
        double mean = 0, sq = 0;
        for (int64_t t = 0; t < a->d; t++)
            mean += (double)x[t] / (double)a->d;
        for (int64_t t = 0; t < a->d; t++)
            sq += ((double)x[t] - mean) * ((double)x[t] - mean);
        double std = sqrt(sq / (double)a->d);
        if (fabs((double)x[at % a->d] - mean - (double)a->times * std) < 1e-2 * std) {
            a->times += 0.01f;
            at = -1;
        }
    }
}

void check_cutoff(struct check *c)
{
    int count;
    const int64_t *sizes = check_sizes(&count);
    for (int i = 0; i < 2 * count; i++) {
        int64_t d = sizes[i / 2];
        begin(c, i % 2 ? "zero" : "random", d, 1, 1);
        struct k_cutoff a = cutoff_new(c, d, i % 2 ? CHECK_ZERO : CHECK_RANDOM, 0.6f), ref = a;
        ref.y = check_floats(c, ROWS * a.ld_y, CHECK_NAN);
        check_slices(c, &a, (struct check_out[]){{a.y, (size_t)(ROWS * a.ld_y) * sizeof *a.y}}, 1);
        check_run_ref(c, &ref);
        for (int64_t r = 0; r < ROWS; r++)
            check_near(c, "y", a.y + r * a.ld_y, ref.y + r * ref.ld_y, d, 1e-5, 1e-6);
    }
}

void check_cutoff_bwd(struct check *c)
{
    int count;
    const int64_t *sizes = check_sizes(&count);
    for (int i = 0; i < count; i++) {
        int64_t d = sizes[i];
        if (d < 2 || d > 70)
            continue;
        begin(c, "back", d, 1, 1);
        struct k_cutoff a = cutoff_new(c, d, CHECK_RANDOM, 0.6f);
        keep_off(&a);
        check_slices(c, &a, (struct check_out[]){{a.y, (size_t)(ROWS * a.ld_y) * sizeof *a.y}}, 1);
        for (int64_t r = 0; r < ROWS; r++) {
            struct row_loss l = {.dy = a.dy + r * a.ld_dy, .d = d, .by = (double)a.times};
            check_gradient(c, "dx", a.y + r * a.ld_y, a.x + r * a.ld_x, d, cutoff_loss, &l, 1e-4);
        }
    }
}
