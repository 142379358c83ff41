/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of the gated delta rule and of scans. Faults they can catch: a term that is lost or
 * doubled, a gradient that crosses sequences, heads of values whose parts do not all reach their
 * key head, a state that is not the one which the row saw, a border between runs of rows.
 */
#include <math.h>
#include <string.h>

#include "tests/kernels/delta_case.h"

static const struct delta_spec specs[] = {
    {1, 2, 5, 20, 2, {3, 4}, false},    {1, 1, 4, 3, 1, {70}, false},
    {2, 4, 24, 48, 2, {66, 1}, false},  {1, 1, 128, 128, 1, {130}, false},
    {1, 1, 200, 33, 2, {35, 5}, false}, {2, 2, 9, 16, 3, {1, 64, 2}, false},
};

static const struct delta_spec scans[] = {
    {1, 2, 5, 20, 2, {3, 4}, true}, {1, 1, 4, 3, 1, {70}, true}, {1, 24, 33, 24, 2, {66, 1}, true}};

struct bwd_case {
    struct delta_case v;
    struct k_delta_bwd g;
    struct k_delta_rates_bwd rates;
    struct k_scan_rates_bwd scan;
    int64_t n_part;
};

static void bwd_make(struct check *c, struct bwd_case *b, const struct delta_spec *s,
                     enum check_kind kind)
{
    struct delta_case *v = &b->v;
    check_begin(c);
    delta_case_make(c, v, s, CHECK_RANDOM);
    int64_t m = v->t.all.n_tok, borders = delta_borders(s->d_k, m, s->n_seq);
    b->n_part = m * s->n_v * K_DELTA_PARTS * (2 * s->d_k + 2);
    b->g = (struct k_delta_bwd){.fwd = v->args,
                                .dy = check_floats(c, m * v->ld_v, kind),
                                .dv = check_floats(c, m * v->ld_v, CHECK_NAN),
                                .part = check_floats(c, b->n_part, CHECK_NAN),
                                .border =
                                    check_floats(c, borders * s->n_v * s->d_k * s->d_v, CHECK_NAN),
                                .ld_dy = v->ld_v,
                                .ld_dv = v->ld_v};
    b->g.fwd.y = NULL;
    b->rates = (struct k_delta_rates_bwd){.fwd = v->rates,
                                          .part = b->g.part,
                                          .dq = check_floats(c, m * v->ld_k, CHECK_NAN),
                                          .dk = check_floats(c, m * v->ld_k, CHECK_NAN),
                                          .da = check_floats(c, m * v->ld_h, CHECK_NAN),
                                          .db = check_floats(c, m * v->ld_h, CHECK_NAN),
                                          .da_log = check_floats(c, m * s->n_v, CHECK_NAN),
                                          .ld_dq = v->ld_k,
                                          .ld_dk = v->ld_k,
                                          .ld_da = v->ld_h,
                                          .ld_db = v->ld_h};
    b->scan = (struct k_scan_rates_bwd){.fwd = v->scan,
                                        .part = b->g.part,
                                        .v = v->args.v,
                                        .dy = b->g.dy,
                                        .dq = b->rates.dq,
                                        .dk = b->rates.dk,
                                        .ddt = b->rates.da,
                                        .da_log = b->rates.da_log,
                                        .dskip = check_floats(c, m * s->n_v, CHECK_NAN),
                                        .ld_v = v->ld_v,
                                        .ld_dy = v->ld_v,
                                        .ld_dq = v->ld_k,
                                        .ld_dk = v->ld_k,
                                        .ld_ddt = v->ld_h,
                                        .d_k = s->d_k,
                                        .d_v = s->d_v};
}

/* ---- by differences ---- */

/* One of the inputs as the variable. */
struct loss {
    const struct delta_case *v;
    struct delta_inputs in;
    double **at; /* the member of `in` */
    double *y;
    const float *dy;
};

static double loss_of(const void *ctx, const double *x)
{
    const struct loss *l = ctx;
    const struct delta_spec *s = &l->v->spec;
    int64_t cols = (int64_t)s->n_v * s->d_v;
    double sum = 0;
    memcpy((void *)l->at, &x, sizeof x);
    delta_define(l->v, &l->in, NULL, l->y, NULL);
    for (int64_t t = 0; t < l->v->t.all.n_tok; t++)
        for (int64_t j = 0; j < cols; j++)
            sum += l->y[t * cols + j] * (double)l->dy[t * l->v->ld_v + j];
    return sum;
}

/* Rows [m, cols] with a gap: each row's numbers against differences. */
static void differ(struct check *c, struct loss *l, const char *name, double **at, const float *x,
                   const float *got, int64_t m, int64_t ld, int64_t cols)
{
    float *dense = check_buf(c, (size_t)(m * ld) * sizeof *dense, 4);
    double *mine = *at;
    memcpy(dense, got, (size_t)(m * ld) * sizeof *dense);
    for (int64_t t = 0; t < m; t++)
        for (int64_t j = cols; j < ld; j++)
            dense[t * ld + j] = 0; /* what nobody reads has no gradient */
    l->at = at;
    check_gradient(c, name, dense, x, m * ld, loss_of, l, 2e-5);
    *at = mine;
}

/* The sum of rows [m, n] against differences. */
static void differ_sum(struct check *c, struct loss *l, const char *name, double **at,
                       const float *x, const float *rows, int64_t m, int64_t ld, int64_t n)
{
    float *sum = check_buf(c, (size_t)n * sizeof *sum, 4);
    for (int64_t j = 0; j < n; j++) {
        double total = 0;
        for (int64_t t = 0; t < m; t++)
            total += (double)rows[t * ld + j];
        sum[j] = (float)total;
    }
    differ(c, l, name, at, x, sum, 1, n, n);
}

static void bwd_run(struct check *c, const struct bwd_case *b)
{
    check_run_row(c, K_delta_bwd, &b->g);
    if (b->v.spec.is_scan)
        check_run_row(c, K_scan_rates_bwd, &b->scan);
    else
        check_run_row(c, K_delta_rates_bwd, &b->rates);
}

static void differences(struct check *c, const struct delta_spec *s)
{
    struct bwd_case b;
    bwd_make(c, &b, s, CHECK_RANDOM);
    const struct delta_case *v = &b.v;
    int64_t m = v->t.all.n_tok, n_v = s->n_v;
    struct loss l = {.v = v, .in = delta_inputs_of(c, v), .dy = b.g.dy};
    l.y = check_buf(c, (size_t)(m * n_v * s->d_v) * sizeof *l.y, 8);
    bwd_run(c, &b);
    differ(c, &l, "dv", &l.in.v, v->args.v, b.g.dv, m, v->ld_v, n_v * s->d_v);
    differ(c, &l, "dq", &l.in.q, v->args.q, b.rates.dq, m, v->ld_k, (int64_t)s->n_k * s->d_k);
    differ(c, &l, "dk", &l.in.k, v->args.k, b.rates.dk, m, v->ld_k, (int64_t)s->n_k * s->d_k);
    differ(c, &l, "da", &l.in.a, v->rates.a, b.rates.da, m, v->ld_h, n_v);
    if (s->is_scan)
        differ_sum(c, &l, "dskip", &l.in.skip, v->args.skip, b.scan.dskip, m, n_v, n_v);
    else
        differ(c, &l, "db", &l.in.b, v->rates.b, b.rates.db, m, v->ld_h, n_v);
    differ_sum(c, &l, "da_log", &l.in.a_log, v->rates.a_log, b.rates.da_log, m, n_v, n_v);
    differ_sum(c, &l, "ddt_bias", &l.in.dt_bias, v->rates.dt_bias, b.rates.da, m, v->ld_h, n_v);
}

/* ---- beside the reference ---- */

static void bwd_one(struct check *c, const struct delta_spec *s, enum check_kind kind)
{
    struct bwd_case b;
    bwd_make(c, &b, s, kind);
    int64_t m = b.v.t.all.n_tok;
    struct k_delta_bwd ref = b.g;
    ref.dv = check_floats(c, m * b.v.ld_v, CHECK_NAN);
    ref.part = check_floats(c, b.n_part, CHECK_NAN);
    check_slices(c, &b.g,
                 (struct check_out[]){{b.g.dv, (size_t)(m * b.v.ld_v) * sizeof(float)},
                                      {b.g.part, (size_t)b.n_part * sizeof(float)}},
                 2);
    check_run_ref(c, &ref);
    double size = kind == CHECK_HUGE ? 1e18 : kind == CHECK_RANDOM ? s->is_scan ? 200 : 10 : 0;
    for (int64_t t = 0; t < m; t++)
        check_near(c, "dv", b.g.dv + t * b.v.ld_v, ref.dv + t * b.v.ld_v, s->n_v * s->d_v, 1e-5,
                   1e-6 * size + 1e-36);
    check_near(c, "part", b.g.part, ref.part, b.n_part, 1e-4, 2e-5 * size + 1e-36);
}

void check_delta_bwd(struct check *c)
{
    differences(c, &specs[0]);
    differences(c, &specs[1]);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int kind = 0; kind < (i ? 1 : CHECK_KINDS); kind++)
            bwd_one(c, &specs[i], (enum check_kind)kind);
    for (size_t i = 0; i < sizeof scans / sizeof *scans; i++) {
        if (i < 2)
            differences(c, &scans[i]);
        bwd_one(c, &scans[i], CHECK_RANDOM);
    }
}

static void rates_one(struct check *c, const struct delta_spec *s)
{
    struct bwd_case b;
    bwd_make(c, &b, s, CHECK_RANDOM);
    int64_t m = b.v.t.all.n_tok, n_k = m * b.v.ld_k, n_h = m * b.v.ld_h;
    check_fill(c, b.g.part, b.n_part, CHECK_RANDOM);
    struct k_delta_rates_bwd *a = &b.rates, ref = *a;
    ref.dq = check_floats(c, n_k, CHECK_NAN);
    ref.dk = check_floats(c, n_k, CHECK_NAN);
    ref.da = check_floats(c, n_h, CHECK_NAN);
    ref.db = check_floats(c, n_h, CHECK_NAN);
    ref.da_log = check_floats(c, m * s->n_v, CHECK_NAN);
    check_slices(c, a,
                 (struct check_out[]){{a->dq, (size_t)n_k * sizeof(float)},
                                      {a->dk, (size_t)n_k * sizeof(float)},
                                      {a->da, (size_t)n_h * sizeof(float)},
                                      {a->db, (size_t)n_h * sizeof(float)},
                                      {a->da_log, (size_t)(m * s->n_v) * sizeof(float)}},
                 5);
    check_run_ref(c, &ref);
    check_near(c, "dq", a->dq, ref.dq, n_k, 1e-5, 1e-5);
    check_near(c, "dk", a->dk, ref.dk, n_k, 1e-5, 1e-5);
    check_near(c, "da", a->da, ref.da, n_h, 1e-5, 1e-5);
    check_near(c, "db", a->db, ref.db, n_h, 1e-5, 1e-5);
    check_near(c, "da_log", a->da_log, ref.da_log, m * s->n_v, 1e-5, 1e-5);
    a->dq = a->dk = a->da = a->db = a->da_log = NULL;
    check_run(c, a); /* what nobody wants is not written */
}

void check_delta_rates_bwd(struct check *c)
{
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        rates_one(c, &specs[i]);
}

/* ---- scans ---- */

/* In each array what a scan's row gives. */
static void scan_one(struct check *c, const struct delta_spec *s)
{
    struct bwd_case b;
    bwd_make(c, &b, s, CHECK_RANDOM);
    int64_t m = b.v.t.all.n_tok, n_k = m * b.v.ld_k, n_h = m * b.v.ld_h, n_v = m * s->n_v;
    check_fill(c, b.g.part, b.n_part, CHECK_RANDOM);
    struct k_scan_rates_bwd *a = &b.scan, ref = *a;
    ref.dq = check_floats(c, n_k, CHECK_NAN);
    ref.dk = check_floats(c, n_k, CHECK_NAN);
    ref.ddt = check_floats(c, n_h, CHECK_NAN);
    ref.da_log = check_floats(c, n_v, CHECK_NAN);
    ref.dskip = check_floats(c, n_v, CHECK_NAN);
    check_slices(c, a,
                 (struct check_out[]){{a->dq, (size_t)n_k * sizeof(float)},
                                      {a->dk, (size_t)n_k * sizeof(float)},
                                      {a->ddt, (size_t)n_h * sizeof(float)},
                                      {a->da_log, (size_t)n_v * sizeof(float)},
                                      {a->dskip, (size_t)n_v * sizeof(float)}},
                 5);
    check_run_ref(c, &ref);
    check_near(c, "dq", a->dq, ref.dq, n_k, 1e-5, 1e-5);
    check_near(c, "dk", a->dk, ref.dk, n_k, 1e-5, 1e-5);
    check_near(c, "ddt", a->ddt, ref.ddt, n_h, 1e-5, 1e-5);
    check_near(c, "da_log", a->da_log, ref.da_log, n_v, 1e-5, 1e-5);
    check_near(c, "dskip", a->dskip, ref.dskip, n_v, 1e-5, 1e-5);
    a->dq = a->dk = a->ddt = a->da_log = a->dskip = NULL;
    check_run(c, a); /* what nobody wants is not written */
}

void check_scan_rates_bwd(struct check *c)
{
    for (size_t i = 0; i < sizeof scans / sizeof *scans; i++)
        scan_one(c, &scans[i]);
}

void check_scan_rates(struct check *c)
{
    for (size_t i = 0; i < sizeof scans / sizeof *scans; i++) {
        struct delta_case v;
        check_begin(c);
        delta_case_make(c, &v, &scans[i], CHECK_RANDOM);
        const struct k_scan_rates *a = &v.scan;
        int32_t n_v = a->n_v;
        int64_t cols = delta_rate_cols(a->n_k, n_v);
        check_slices(c, a, (struct check_out[]){{a->rate, (size_t)(a->m * cols) * sizeof(float)}},
                     1);
        for (int64_t t = 0; t < a->m; t++) {
            double want[64];
            for (int32_t h = 0; h < n_v; h++) {
                double x = log1p(exp((double)a->dt[t * a->ld_dt + h] + (double)a->dt_bias[h]));
                want[n_v + h] = fmin(fmax(x, (double)a->lo), (double)a->hi);
                want[h] = exp(-exp((double)a->a_log[h]) * want[n_v + h]);
            }
            for (int32_t h = 0; h < 2 * a->n_k; h++)
                want[2 * n_v + h] = 1;
            check_near_f64(c, "rates", a->rate + t * cols, want, cols, 3e-6, 1e-36);
        }
    }
}
