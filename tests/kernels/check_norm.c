/* SPDX-License-Identifier: Apache-2.0
 *
 * The norms. Faults they can catch: a tail that joins the sum, a sum that depends on the rows
 * beside it, eps outside the root, a residual that is added after the statistics or not kept, a
 * gradient without its second term, weight gradients that replace instead of adding.
 */
#include <math.h>
#include <string.h>

#include "tests/kernels/check.h"

struct norm_case {
    int64_t m, d, pad;
    bool residual, is_rms;
    enum check_kind kind;
    int by; /* weights, or: */
};

enum { BY_ONE_MORE = 1, BY_NOTHING };

static struct k_norm norm_make(struct check *c, const struct norm_case *k)
{
    int64_t ld = k->d + k->pad, n = k->m * ld;
    struct k_norm a = {.ld_x = ld, .ld_y = ld, .m = k->m, .d = k->d, .eps = 1e-5f};
    a.plus_one = k->by == BY_ONE_MORE;
    check_begin(c);
    check_case(c, "%s m %lld d %lld ld %lld residual %d by %d", check_kind_name(k->kind),
               (long long)k->m, (long long)k->d, (long long)ld, k->residual, k->by);
    a.x = check_floats(c, n, k->kind);
    a.weight = k->by == BY_NOTHING ? NULL : check_floats(c, k->d, CHECK_RANDOM);
    if (!k->is_rms)
        a.bias = check_floats(c, k->d, CHECK_RANDOM);
    a.y = check_floats(c, n, CHECK_NAN);
    a.stat = check_floats(c, (k->is_rms ? 1 : 2) * k->m, CHECK_NAN);
    if (k->residual) {
        a.residual = check_floats(c, n, k->kind);
        a.sum = check_floats(c, n, CHECK_NAN);
        a.ld_residual = a.ld_sum = ld;
    }
    return a;
}

/* Each row alone, in its own call. */
static void norm_rows_alone(struct check *c, const struct k_norm *a)
{
    float *y = check_floats(c, a->d, CHECK_NAN), *sum = check_floats(c, a->d, CHECK_NAN);
    for (int64_t i = 0; i < a->m; i++) {
        struct k_norm one = *a;
        one.x += i * a->ld_x;
        one.m = 1;
        one.y = y;
        one.stat = NULL;
        if (a->residual) {
            one.residual += i * a->ld_x;
            one.sum = sum;
        }
        check_run(c, &one);
        check_bits(c, "a row alone", y, a->y + i * a->ld_y, (size_t)a->d * sizeof *y);
    }
}

/* Rows of n_head runs under one weight are the rows that the runs would be by themselves. */
static void norm_heads(struct check *c, bool is_rms, int64_t n_head, int64_t d)
{
    int64_t m = 3, ld = n_head * d + 7, n_stat = (is_rms ? 1 : 2) * m * n_head;
    check_begin(c);
    check_case(c, "m %lld, %lld runs of %lld", (long long)m, (long long)n_head, (long long)d);
    struct k_norm a = {.x = check_floats(c, m * ld, CHECK_RANDOM),
                       .weight = check_floats(c, d, CHECK_RANDOM),
                       .y = check_floats(c, m * ld, CHECK_NAN),
                       .stat = check_floats(c, n_stat, CHECK_NAN),
                       .ld_x = ld,
                       .ld_y = ld,
                       .m = m,
                       .d = d,
                       .n_head = n_head,
                       .eps = 1e-5f};
    struct check_out out[] = {{a.y, (size_t)(m * ld) * sizeof *a.y},
                              {a.stat, (size_t)n_stat * sizeof *a.stat}};
    float *y = check_floats(c, d, CHECK_NAN), *stat = check_floats(c, 2, CHECK_NAN);
    check_slices(c, &a, out, 2);
    for (int64_t i = 0; i < m * n_head; i++) {
        struct k_norm one = a;
        int64_t at = i / n_head * ld + i % n_head * d;
        one.x += at;
        one.y = y;
        one.stat = stat;
        one.m = one.n_head = 1;
        check_run(c, &one);
        check_bits(c, "a run alone", y, a.y + at, (size_t)d * sizeof *y);
        check_bits(c, "its stat", stat, a.stat + i * (is_rms ? 1 : 2),
                   (is_rms ? 1 : 2) * sizeof *stat);
    }
}

/* The norm of x + residual as `add` and a norm without residual give it. */
static void norm_unfused(struct check *c, const struct k_norm *a)
{
    int64_t n = a->m * a->ld_x;
    float *sum = check_floats(c, n, CHECK_NAN), *y = check_floats(c, n, CHECK_NAN);
    struct k_binary add = {.a = a->x,
                           .b = a->residual,
                           .y = sum,
                           .ld_a = a->ld_x,
                           .ld_b = a->ld_x,
                           .ld_y = a->ld_x,
                           .m = a->m,
                           .d = a->d};
    struct k_norm plain = *a;
    check_run_row(c, K_add, &add);
    plain.x = sum;
    plain.residual = plain.sum = NULL;
    plain.y = y;
    check_run(c, &plain);
    check_bits(c, "unfused", a->y, y, (size_t)n * sizeof *y);
    check_bits(c, "unfused sum", a->sum, sum, (size_t)n * sizeof *sum);
}

static void norm_run(struct check *c, const struct norm_case *k)
{
    struct k_norm a = norm_make(c, k), ref = a;
    int64_t n = k->m * a.ld_x, n_stat = (k->is_rms ? 1 : 2) * k->m;
    ref.y = check_floats(c, n, CHECK_NAN);
    ref.stat = check_floats(c, n_stat, CHECK_NAN);
    if (k->residual)
        ref.sum = check_floats(c, n, CHECK_NAN);
    struct check_out out[] = {{a.y, (size_t)n * sizeof *a.y},
                              {a.stat, (size_t)n_stat * sizeof *a.stat},
                              {a.sum, k->residual ? (size_t)n * sizeof *a.sum : 0}};
    check_slices(c, &a, out, k->residual ? 3 : 2);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < k->m; i++)
        check_near(c, "y", a.y + i * a.ld_y, ref.y + i * a.ld_y, k->d, 2e-6, 4e-6);
    check_near(c, "stat", a.stat, ref.stat, n_stat, 2e-6, k->kind == CHECK_HUGE ? 1e11 : 1e-6);
    if (k->residual)
        norm_unfused(c, &a);
    norm_rows_alone(c, &a);
}

static void norm_check(struct check *c, bool is_rms)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++) {
            norm_run(c, &(struct norm_case){3, sizes[i], 0, false, is_rms, kind, false});
            norm_run(c, &(struct norm_case){2, sizes[i], 5, true, is_rms, kind, is_rms});
            if (is_rms)
                norm_run(c, &(struct norm_case){2, sizes[i], 3, false, true, kind, BY_NOTHING});
        }
    }
    norm_run(c, &(struct norm_case){0, 16, 0, false, is_rms, CHECK_RANDOM, false});
    norm_heads(c, is_rms, 5, 24);
    norm_heads(c, is_rms, 2, 64);
}

void check_rmsnorm(struct check *c)
{
    norm_check(c, true);
}

void check_layernorm(struct check *c)
{
    norm_check(c, false);
}

/* ---- gradients ---- */

struct loss {
    const float *weight, *dy;
    int64_t d;
    bool is_rms;
    double eps, base; /* base: added to the weights */
};

/* dy . norm(x) for one row */
static double norm_loss(const void *ctx, const double *x)
{
    const struct loss *l = ctx;
    double mean = 0, sq = 0, sum = 0;
    for (int64_t j = 0; j < l->d && !l->is_rms; j++)
        mean += x[j] / (double)l->d;
    for (int64_t j = 0; j < l->d; j++)
        sq += (x[j] - mean) * (x[j] - mean);
    for (int64_t j = 0; j < l->d; j++)
        sum += (x[j] - mean) / sqrt(sq / (double)l->d + l->eps) *
               (l->weight ? l->base + (double)l->weight[j] : 1) * l->dy[j];
    return sum;
}

static struct k_norm_bwd bwd_make(struct check *c, const struct norm_case *k, float *y)
{
    int64_t ld = k->d + k->pad, n = k->m * ld;
    float *x = check_floats(c, n, k->kind);
    float *weight = k->by == BY_NOTHING ? NULL : check_floats(c, k->d, CHECK_RANDOM);
    float *stat = check_floats(c, (k->is_rms ? 1 : 2) * k->m, CHECK_NAN);
    struct k_norm fwd = {.x = x,
                         .weight = weight,
                         .y = y,
                         .stat = stat,
                         .ld_x = ld,
                         .ld_y = ld,
                         .m = k->m,
                         .d = k->d,
                         .eps = 1e-5f,
                         .plus_one = k->by == BY_ONE_MORE};
    check_run_row(c, k->is_rms ? K_rmsnorm : K_layernorm, &fwd);
    return (struct k_norm_bwd){.x = x,
                               .weight = weight,
                               .stat = stat,
                               .dy = check_floats(c, n, CHECK_RANDOM),
                               .ld_x = ld,
                               .ld_dy = ld,
                               .ld_dx = ld,
                               .m = k->m,
                               .d = k->d,
                               .plus_one = k->by == BY_ONE_MORE};
}

static void bwd_differences(struct check *c, const struct k_norm_bwd *a, bool is_rms)
{
    for (int64_t i = 0; i < a->m; i++) {
        struct loss l = {.weight = a->weight,
                         .dy = a->dy + i * a->ld_dy,
                         .d = a->d,
                         .is_rms = is_rms,
                         .eps = 1e-5f,
                         .base = a->plus_one};
        check_gradient(c, "differences", a->dx + i * a->ld_dx, a->x + i * a->ld_x, a->d, norm_loss,
                       &l, 1e-5);
    }
}

static void bwd_run(struct check *c, const struct norm_case *k, bool add)
{
    int64_t n = k->m * (k->d + k->pad);
    check_begin(c);
    check_case(c, "%s m %lld d %lld add %d", check_kind_name(k->kind), (long long)k->m,
               (long long)k->d, add);
    struct k_norm_bwd a = bwd_make(c, k, check_floats(c, n, CHECK_NAN)), ref;
    a.add = add;
    a.dx = check_floats(c, n, add ? CHECK_RANDOM : CHECK_NAN);
    ref = a;
    ref.dx = check_dup(c, a.dx, (size_t)n * sizeof *a.dx, 4);
    check_slices(c, &a, (struct check_out[]){{a.dx, (size_t)n * sizeof *a.dx}}, 1);
    check_run_ref(c, &ref);
    double abs = k->kind == CHECK_ZERO || k->kind == CHECK_DENORMAL ? 5e-3 : 2e-5;
    for (int64_t i = 0; i < k->m; i++)
        check_near(c, "dx", a.dx + i * a.ld_dx, ref.dx + i * a.ld_dx, k->d, 1e-5, abs);
    if (!add && k->kind == CHECK_RANDOM && k->d > 1 && k->d < 70)
        bwd_differences(c, &a, k->is_rms);
}

static void bwd_check(struct check *c, bool is_rms)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++) {
            bwd_run(c, &(struct norm_case){3, sizes[i], 0, false, is_rms, kind, false}, false);
            bwd_run(c, &(struct norm_case){2, sizes[i], 5, false, is_rms, kind, false}, true);
            if (is_rms) {
                bwd_run(c, &(struct norm_case){2, sizes[i], 1, false, true, kind, BY_ONE_MORE},
                        false);
                bwd_run(c, &(struct norm_case){2, sizes[i], 0, false, true, kind, BY_NOTHING},
                        true);
            }
        }
    }
}

/* Gradients through rows of runs are those through the runs as rows: dx, or dweight and dbias. */
static void bwd_heads(struct check *c, bool is_rms, bool wants_dw)
{
    int64_t m = 5, n_head = 3, d = 20, n = m * n_head * d;
    struct norm_case k = {m * n_head, d, 0, false, is_rms, CHECK_RANDOM, false};
    check_begin(c);
    check_case(c, "m %lld, %lld runs of %lld", (long long)m, (long long)n_head, (long long)d);
    struct k_norm_bwd rows = bwd_make(c, &k, check_floats(c, n, CHECK_NAN)), runs;
    rows.dx = check_floats(c, n, CHECK_NAN);
    rows.dweight = check_floats(c, d, CHECK_ZERO);
    rows.dbias = is_rms ? NULL : check_floats(c, d, CHECK_ZERO);
    runs = rows;
    runs.m = m;
    runs.n_head = n_head;
    runs.ld_x = runs.ld_dy = runs.ld_dx = n_head * d;
    runs.dx = check_floats(c, n, CHECK_NAN);
    runs.dweight = check_floats(c, d, CHECK_ZERO);
    runs.dbias = is_rms ? NULL : check_floats(c, d, CHECK_ZERO);
    check_run(c, &rows);
    check_run(c, &runs);
    if (!wants_dw)
        check_bits(c, "dx", runs.dx, rows.dx, (size_t)n * sizeof *runs.dx);
    if (wants_dw)
        check_bits(c, "dweight", runs.dweight, rows.dweight, (size_t)d * sizeof(float));
    if (wants_dw && !is_rms)
        check_bits(c, "dbias", runs.dbias, rows.dbias, (size_t)d * sizeof(float));
}

void check_rmsnorm_bwd(struct check *c)
{
    bwd_check(c, true);
    bwd_heads(c, true, false);
}

void check_layernorm_bwd(struct check *c)
{
    bwd_check(c, false);
    bwd_heads(c, false, false);
}

/* What the sums of a column are made of, in absolute value: the measure of their rounding. */
static void dw_run(struct check *c, const struct norm_case *k)
{
    int64_t n = k->m * (k->d + k->pad);
    check_begin(c);
    check_case(c, "%s m %lld d %lld", check_kind_name(k->kind), (long long)k->m, (long long)k->d);
    struct k_norm_bwd a = bwd_make(c, k, check_floats(c, n, CHECK_NAN)), ref;
    size_t bytes = (size_t)k->d * sizeof(float);
    a.dweight = check_floats(c, k->d, CHECK_RANDOM);
    a.dbias = k->is_rms ? NULL : check_floats(c, k->d, CHECK_RANDOM);
    ref = a;
    ref.dweight = check_dup(c, a.dweight, bytes, 4);
    if (a.dbias)
        ref.dbias = check_dup(c, a.dbias, bytes, 4);
    struct check_out out[] = {{a.dweight, bytes}, {a.dbias, bytes}};
    check_slices(c, &a, out, a.dbias ? 2 : 1);
    check_run_ref(c, &ref);
    double abs = 4e-7 * (4 + 4 * sqrt((double)k->m));
    check_near(c, "dweight", a.dweight, ref.dweight, k->d, 1e-6, abs);
    if (a.dbias)
        check_near(c, "dbias", a.dbias, ref.dbias, k->d, 1e-6, abs);
}

static void dw_check(struct check *c, bool is_rms)
{
    static const int64_t rows[] = {0, 1, 31, 32, 33, 100};
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            dw_run(c, &(struct norm_case){rows[i % 6], sizes[i], i, false, is_rms, kind, false});
    }
    dw_run(c, &(struct norm_case){1000, 130, 0, false, is_rms, CHECK_RANDOM, false});
    bwd_heads(c, is_rms, true);
}

void check_rmsnorm_dw(struct check *c)
{
    dw_check(c, true);
}

void check_layernorm_dw(struct check *c)
{
    dw_check(c, false);
}

/* ---- to unit length ---- */

static double l2_loss(const void *ctx, const double *x)
{
    const struct loss *l = ctx;
    double sq = 0, sum = 0;
    for (int64_t j = 0; j < l->d; j++)
        sq += x[j] * x[j];
    for (int64_t j = 0; j < l->d; j++)
        sum += x[j] / fmax(sqrt(sq), l->eps) * l->dy[j];
    return sum;
}

static void l2_run(struct check *c, int64_t d, int64_t pad, enum check_kind kind, bool bwd)
{
    int64_t ld = d + pad, m = 3, n = m * ld;
    check_begin(c);
    check_case(c, "%s d %lld", check_kind_name(kind), (long long)d);
    float *x = check_floats(c, n, kind), *dy = check_floats(c, n, CHECK_RANDOM);
    float *y = check_floats(c, n, CHECK_NAN), *want = check_floats(c, n, CHECK_NAN);
    struct k_l2norm a = {.x = x,
                         .dy = bwd ? dy : NULL,
                         .y = y,
                         .ld_x = ld,
                         .ld_dy = ld,
                         .ld_y = ld,
                         .m = m,
                         .d = d,
                         .eps = 1e-12f};
    struct k_l2norm ref = a;
    ref.y = want;
    check_slices(c, &a, (struct check_out[]){{y, (size_t)n * sizeof *y}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < m; i++) {
        double sq = 0;
        for (int64_t j = 0; j < d; j++)
            sq += (double)x[i * ld + j] * x[i * ld + j];
        double abs = bwd ? 3e-6 / fmax(sqrt(sq), a.eps) : 1e-6; /* dx is a difference, over |x| */
        check_near(c, "y", y + i * ld, want + i * ld, d, 2e-6, abs);
        struct loss l = {.dy = dy + i * ld, .d = d, .eps = a.eps};
        if (bwd && kind == CHECK_RANDOM && d > 2 && d < 70)
            check_gradient(c, "differences", y + i * ld, x + i * ld, d, l2_loss, &l, 1e-5);
    }
}

void check_l2norm(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            l2_run(c, sizes[i], i, kind, false);
    }
}

void check_l2norm_bwd(struct check *c)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int kind = 0; kind < CHECK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            l2_run(c, sizes[i], i, kind, true);
    }
}
