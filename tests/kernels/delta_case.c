/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds calls of the gated delta rule and of scans, and their truth in f64.
 */
#include "tests/kernels/delta_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 3 }; /* floats between rows: nothing is aligned by luck */

static const float SCAN_LO = 0.3f, SCAN_HI = 1.1f; /* some steps lie within, some beyond */

void delta_case_name(struct check *c, const struct delta_spec *s, enum check_kind kind)
{
    check_case(c, "%s%s %d/%d heads of %d by %d, %d sequences, first of %d",
               s->is_scan ? "scan, " : "", check_kind_name(kind), s->n_v, s->n_k, s->d_k, s->d_v,
               s->n_seq, s->len[0]);
}

static void rates_make(struct check *c, struct delta_case *v)
{
    const struct delta_spec *s = &v->spec;
    int64_t m = v->t.all.n_tok;
    v->rates = (struct k_delta_rates){
        .q = check_floats(c, m * v->ld_k, CHECK_RANDOM),
        .k = check_floats(c, m * v->ld_k, CHECK_RANDOM),
        .a = check_floats(c, m * v->ld_h, CHECK_RANDOM),
        .b = check_floats(c, m * v->ld_h, CHECK_RANDOM),
        .a_log = check_floats(c, s->n_v, CHECK_RANDOM),
        .dt_bias = check_floats(c, s->n_v, CHECK_RANDOM),
        .rate = check_floats(c, m * delta_rate_cols(s->n_k, s->n_v), CHECK_NAN),
        .ld_q = v->ld_k,
        .ld_k = v->ld_k,
        .ld_a = v->ld_h,
        .ld_b = v->ld_h,
        .m = m,
        .n_k = s->n_k,
        .n_v = s->n_v,
        .d_k = s->d_k};
    v->scan = (struct k_scan_rates){.dt = v->rates.a,
                                    .a_log = v->rates.a_log,
                                    .dt_bias = v->rates.dt_bias,
                                    .rate = v->rates.rate,
                                    .ld_dt = v->ld_h,
                                    .m = m,
                                    .n_k = s->n_k,
                                    .n_v = s->n_v,
                                    .lo = SCAN_LO,
                                    .hi = SCAN_HI};
    if (s->is_scan)
        check_run_row(c, K_scan_rates, &v->scan);
    else
        check_run_row(c, K_delta_rates, &v->rates);
}

void delta_case_make(struct check *c, struct delta_case *v, const struct delta_spec *s,
                     enum check_kind kind)
{
    struct attn_spec a = {.type = K_F32, .d = 2, .n_head = 1, .n_kv_head = 1, .n_seq = s->n_seq};
    for (int i = 0; i < s->n_seq; i++)
        a.n_row[i] = a.kv_len[i] = s->len[i];
    *v = (struct delta_case){.spec = *s};
    attn_case_make(c, &v->t, &a);
    delta_case_name(c, s, kind);
    v->ld_k = s->n_k * s->d_k + GAP;
    v->ld_v = s->n_v * s->d_v + GAP;
    v->ld_h = s->n_v + GAP;
    rates_make(c, v);
    v->args = (struct k_delta){.batch = v->t.all,
                               .q = v->rates.q,
                               .k = v->rates.k,
                               .v = check_floats(c, v->t.all.n_tok * v->ld_v, kind),
                               .rate = v->rates.rate,
                               .skip = s->is_scan ? check_floats(c, s->n_v, CHECK_RANDOM) : NULL,
                               .y = check_floats(c, v->t.all.n_tok * v->ld_v, CHECK_NAN),
                               .ld_q = v->ld_k,
                               .ld_k = v->ld_k,
                               .ld_v = v->ld_v,
                               .ld_y = v->ld_v,
                               .n_k = s->n_k,
                               .n_v = s->n_v,
                               .d_k = s->d_k,
                               .d_v = s->d_v};
    v->n_slot = 3 * s->n_seq + 1;
    v->slot_bytes = (size_t)(s->n_v * s->d_k * s->d_v) * sizeof(float);
}

/* ---- the definition ---- */

static double *widened(struct check *c, const float *x, int64_t n)
{
    double *y = check_buf(c, (size_t)n * sizeof *y, 8);
    for (int64_t i = 0; i < n; i++)
        y[i] = (double)x[i];
    return y;
}

struct delta_inputs delta_inputs_of(struct check *c, const struct delta_case *v)
{
    int64_t m = v->t.all.n_tok;
    return (struct delta_inputs){.q = widened(c, v->rates.q, m * v->ld_k),
                                 .k = widened(c, v->rates.k, m * v->ld_k),
                                 .v = widened(c, v->args.v, m * v->ld_v),
                                 .a = widened(c, v->rates.a, m * v->ld_h),
                                 .b = widened(c, v->rates.b, m * v->ld_h),
                                 .a_log = widened(c, v->rates.a_log, v->spec.n_v),
                                 .dt_bias = widened(c, v->rates.dt_bias, v->spec.n_v),
                                 .skip =
                                     v->args.skip ? widened(c, v->args.skip, v->spec.n_v) : NULL};
}

static void to_unit(const double *x, int32_t d, double scale, double *y)
{
    double sum = 1e-6;
    for (int32_t i = 0; i < d; i++)
        sum += x[i] * x[i];
    for (int32_t i = 0; i < d; i++)
        y[i] = x[i] * scale / sqrt(sum);
}

/* One row of one head over S [d_k, d_v]. */
static void define_row(const struct delta_case *v, const struct delta_inputs *in, int64_t t,
                       int32_t h, double *state, double *y)
{
    const struct delta_spec *s = &v->spec;
    int64_t key = t * v->ld_k + h / (s->n_v / s->n_k) * s->d_k;
    double q[K_DELTA_D_MAX], k[K_DELTA_D_MAX];
    double x = log1p(exp(in->a[t * v->ld_h + h] + in->dt_bias[h]));
    double beta = 1 / (1 + exp(-in->b[t * v->ld_h + h]));
    if (s->is_scan) {
        beta = x = fmin(fmax(x, (double)v->scan.lo), (double)v->scan.hi);
        memcpy(q, in->q + key, (size_t)s->d_k * sizeof *q);
        memcpy(k, in->k + key, (size_t)s->d_k * sizeof *k);
    } else {
        to_unit(in->q + key, s->d_k, 1 / sqrt(s->d_k), q);
        to_unit(in->k + key, s->d_k, 1, k);
    }
    double decay = exp(-exp(in->a_log[h]) * x);
    for (int32_t j = 0; j < s->d_v; j++) {
        double value = in->v[t * v->ld_v + h * s->d_v + j], kv = 0, sum = 0, u;
        for (int32_t i = 0; i < s->d_k; i++) {
            state[i * s->d_v + j] *= decay;
            kv += state[i * s->d_v + j] * k[i];
        }
        u = (s->is_scan ? value : value - kv) * beta;
        for (int32_t i = 0; i < s->d_k; i++) {
            state[i * s->d_v + j] += k[i] * u;
            sum += state[i * s->d_v + j] * q[i];
        }
        y[(t * s->n_v + h) * s->d_v + j] = s->is_scan ? sum + in->skip[h] * value : sum;
    }
}

void delta_define(const struct delta_case *v, const struct delta_inputs *in, const double *from,
                  double *y, double *state)
{
    const struct delta_spec *s = &v->spec;
    const struct k_ragged *b = &v->t.all;
    size_t n = (size_t)(s->d_k * s->d_v);
    double *now = malloc(n * sizeof *now);
    for (int64_t i = 0; now && i < b->n_seq * s->n_v; i++) {
        for (size_t j = 0; j < n; j++)
            now[j] = from ? from[(size_t)i * n + j] : 0;
        for (int64_t t = b->q_start[i / s->n_v]; t < b->q_start[i / s->n_v + 1]; t++)
            define_row(v, in, t, (int32_t)(i % s->n_v), now, y);
        if (state)
            memcpy(state + (size_t)i * n, now, n * sizeof *now);
    }
    free(now);
}
