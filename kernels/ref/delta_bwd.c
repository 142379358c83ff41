/* SPDX-License-Identifier: Apache-2.0
 *
 * The way back through the gated delta rule. Some columns of a state at a time: once forward,
 * leaving the state at each border; then run by run from the last, whose states are made again
 * from its border, row by row from the last. With dS what later rows want of a state:
 *
 *     dS += q dy^T,  dq = S dy,  du = dS^T k,  dv = beta du
 *     dk = dS u - S' dv,  dS' = dS - k dv^T     S': decayed, before the row has learnt
 *     dbeta = du (v - S'^T k),  dg = S' dS',  dS = exp(g) dS'
 *
 * Of a scan dv = beta du + skip dy and dbeta = du v, and what k finds has no way back.
 */
#include <math.h>
#include <string.h>

#include "kernels/ref/act.h"
#include "kernels/ref/delta.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

/* DELTA_BACK_COLS columns of a half or what is left, and the scratch for them. */
struct strip {
    const struct k_delta_bwd *g;
    struct delta_unit u;  /* these columns; u.part is the half */
    float *states;        /* [delta_run_rows, d_k, width] of each row, decayed */
    float *now, *back;    /* [d_k, width] a state, and its gradient */
    float *rest, *learnt; /* [delta_run_rows, width] */
    int64_t lo, hi;       /* rows of the sequence */
};

static struct strip strip_of(const struct k_delta_bwd *g, const struct delta_unit *half,
                             int32_t col, float *scratch)
{
    const struct k_delta *a = &g->fwd;
    int64_t state = (int64_t)a->d_k * DELTA_BACK_COLS, rows = delta_run_rows(a->d_k);
    struct strip r = {.g = g,
                      .u = *half,
                      .states = scratch,
                      .now = scratch + rows * state,
                      .lo = a->batch.q_start[half->seq],
                      .hi = a->batch.q_start[half->seq + 1]};
    r.back = r.now + state;
    r.rest = r.back + state;
    r.learnt = r.rest + rows * DELTA_BACK_COLS;
    r.u.col = half->col + col;
    r.u.width = (int32_t)rows_min(half->width - col, DELTA_BACK_COLS);
    return r;
}

static size_t state_bytes(const struct strip *r)
{
    return (size_t)(r->g->fwd.d_k * r->u.width) * sizeof(float);
}

/* Row t, number i of its run, leaves its decayed state where the run keeps it. */
static void forward_row(const struct strip *r, int64_t t, int64_t i)
{
    const struct k_delta *a = &r->g->fwd;
    float *learnt = r->learnt + i * r->u.width;
    struct ref_delta_row row;
    ref_delta_open(a, &r->u, t, &row);
    ref_delta_decay(r->now, &row, a->d_k, r->u.width, r->rest + i * r->u.width, learnt);
    memcpy(r->states + i * a->d_k * r->u.width, r->now, state_bytes(r));
    ref_delta_learn(r->now, &row, a->d_k, r->u.width, learnt);
}

static void leave_borders(const struct strip *r)
{
    int64_t rows = delta_run_rows(r->g->fwd.d_k);
    memset(r->now, 0, state_bytes(r));
    for (int64_t t = r->lo; t < r->hi; t++) {
        if ((t - r->lo) % rows == 0)
            memcpy(delta_border(r->g, &r->u, (t - r->lo) / rows, r->u.col), r->now, state_bytes(r));
        forward_row(r, t, 0);
    }
}

/* Through reading: dq is added to, du written. */
static void back_read(const struct strip *r, const struct ref_delta_row *row, const float *state,
                      const float *learnt, const float *dy, float *dq, float *du)
{
    int32_t width = r->u.width;
    double sum[DELTA_BACK_COLS] = {0};
    for (int32_t i = 0; i < r->g->fwd.d_k; i++) {
        double q = 0;
        for (int32_t j = 0; j < width; j++) {
            float *back = r->back + i * width + j;
            *back = fmaf(row->q[i], dy[j], *back);
            sum[j] += (double)*back * row->k[i];
            q += (double)fmaf(row->k[i], learnt[j], state[i * width + j]) * dy[j];
        }
        dq[i] = (float)(dq[i] + q);
    }
    for (int32_t j = 0; j < width; j++)
        du[j] = (float)sum[j];
}

/* Through learning and decay: dk and dg are added to. dv: of what k found. */
static void back_learn(const struct strip *r, const struct ref_delta_row *row, const float *state,
                       const float *learnt, const float *dv, float *dk, float *dg)
{
    int32_t width = r->u.width;
    double g = 0;
    for (int32_t i = 0; i < r->g->fwd.d_k; i++) {
        double k = 0;
        for (int32_t j = 0; j < width; j++) {
            float *back = r->back + i * width + j, s = state[i * width + j];
            k += (double)*back * learnt[j] - (double)s * dv[j];
            *back = fmaf(-row->k[i], dv[j], *back);
            g += (double)s * *back;
            *back *= row->rate.decay;
        }
        dk[i] = (float)(dk[i] + k);
    }
    *dg = (float)(*dg + g);
}

static void back_row(const struct strip *r, int64_t t, int64_t i)
{
    const struct k_delta_bwd *g = r->g;
    const struct k_delta *a = &g->fwd;
    int32_t width = r->u.width;
    int64_t at = r->u.head * a->d_v + r->u.col;
    const float *state = r->states + i * a->d_k * width, *learnt = r->learnt + i * width;
    float *dq = delta_part_at(g, &r->u, t), *dk = dq + a->d_k, *dg = dk + a->d_k;
    const float *dy = g->dy + t * g->ld_dy + at;
    float *dv = g->dv + t * g->ld_dv + at, du[DELTA_BACK_COLS], found[DELTA_BACK_COLS] = {0};
    double dbeta = 0;
    struct ref_delta_row row;
    ref_delta_open(a, &r->u, t, &row);
    back_read(r, &row, state, learnt, dy, dq, du);
    for (int32_t j = 0; j < width; j++) {
        dv[j] = row.rate.beta * du[j];
        dbeta += (double)du[j] * r->rest[i * width + j];
        if (row.rate.is_scan)
            dv[j] = fmaf(row.rate.skip, dy[j], dv[j]);
        else
            found[j] = dv[j];
    }
    back_learn(r, &row, state, learnt, found, dk, dg);
    dg[1] = (float)(dg[1] + dbeta);
}

static void back_run(const struct strip *r, int64_t run)
{
    int64_t rows = delta_run_rows(r->g->fwd.d_k), lo = r->lo + run * rows;
    int64_t n = rows_min(rows, r->hi - lo);
    memcpy(r->now, delta_border(r->g, &r->u, run, r->u.col), state_bytes(r));
    for (int64_t i = 0; i < n; i++)
        forward_row(r, lo + i, i);
    for (int64_t i = n - 1; i >= 0; i--)
        back_row(r, lo + i, i);
}

void delta_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_delta_bwd *g = args;
    const struct k_delta *a = &g->fwd;
    for (int64_t h = s->lo; h < s->hi; h++) {
        struct delta_unit half = delta_half_of(a, h);
        for (int64_t t = a->batch.q_start[half.seq]; t < a->batch.q_start[half.seq + 1]; t++)
            memset(delta_part_at(g, &half, t), 0, (size_t)(2 * a->d_k + 2) * sizeof(float));
        for (int32_t col = 0; col < half.width; col += DELTA_BACK_COLS) {
            struct strip r = strip_of(g, &half, col, s->scratch);
            leave_borders(&r);
            memset(r.back, 0, state_bytes(&r));
            for (int64_t run = delta_runs(a->d_k, r.hi - r.lo) - 1; run >= 0; run--)
                back_run(&r, run);
        }
    }
}

/* ---- rates ---- */

double ref_delta_part_sum(const struct delta_key_parts *p, int64_t i)
{
    double sum = 0;
    for (int64_t k = 0; k < p->n; k++)
        sum += p->at[k * p->cols + i];
    return sum;
}

/* dx = rate (d - x (x . d) inv^2), where rate is inv, of q by sqrt(d_k) */
static void length_bwd(const struct k_delta_rates_bwd *g, int64_t t, int64_t key, const float *x,
                       double rate, double inv_sq, int64_t from, float *dx)
{
    const struct k_delta_rates *a = &g->fwd;
    struct delta_key_parts part = delta_key_parts_of(g->part, a->n_k, a->n_v, a->d_k, t, key);
    double dot = 0;
    for (int32_t i = 0; i < a->d_k; i++)
        dot += x[i] * ref_delta_part_sum(&part, from + i);
    for (int32_t i = 0; i < a->d_k; i++)
        dx[i] = (float)(rate * (ref_delta_part_sum(&part, from + i) - x[i] * dot * inv_sq));
}

static void head_bwd(const struct k_delta_rates_bwd *g, int64_t t, int64_t h)
{
    const struct k_delta_rates *a = &g->fwd;
    const float *part = g->part + (t * a->n_v + h) * K_DELTA_PARTS * (2 * a->d_k + 2);
    double x = (double)a->a[t * a->ld_a + h] + (double)a->dt_bias[h], e = exp(a->a_log[h]);
    double beta = ref_sigmoid(a->b[t * a->ld_b + h]), dg = 0, dbeta = 0;
    for (int p = 0; p < K_DELTA_PARTS; p++, part += 2 * a->d_k + 2) {
        dg += part[2 * a->d_k];
        dbeta += part[2 * a->d_k + 1];
    }
    if (g->da)
        g->da[t * g->ld_da + h] = (float)(-dg * e * ref_sigmoid(x));
    if (g->db)
        g->db[t * g->ld_db + h] = (float)(dbeta * beta * (1 - beta));
    if (g->da_log)
        g->da_log[t * a->n_v + h] = (float)(-dg * e * ref_softplus(x));
}

void delta_rates_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_delta_rates_bwd *g = args;
    const struct k_delta_rates *a = &g->fwd;
    for (int64_t t = s->lo; t < s->hi; t++) {
        const float *q = a->rate + t * delta_rate_cols(a->n_k, a->n_v) + 2 * a->n_v;
        const float *k = q + a->n_k;
        for (int64_t h = 0; h < a->n_v; h++)
            head_bwd(g, t, h);
        for (int64_t h = 0; h < a->n_k; h++) {
            int64_t at = h * a->d_k;
            if (g->dq)
                length_bwd(g, t, h, a->q + t * a->ld_q + at, q[h], (double)q[h] * q[h] * a->d_k, 0,
                           g->dq + t * g->ld_dq + at);
            if (g->dk)
                length_bwd(g, t, h, a->k + t * a->ld_k + at, k[h], (double)k[h] * k[h], a->d_k,
                           g->dk + t * g->ld_dk + at);
        }
    }
}
