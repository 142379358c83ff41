/* SPDX-License-Identifier: Apache-2.0
 *
 * The way back through the gated delta rule, for the width of kernels/x86/vec.h, as
 * kernels/ref/delta_bwd.c has it. All columns of a half go through a run of rows before the next
 * run, so that what these rows read and write stays in the second cache; a few columns at a time,
 * each with its numbers in a row: what columns add to q and k are then sums of vectors, and only u
 * and its gradient cross lanes. What fills up a strip or a column are zeros, which stay zeros.
 */
#ifndef KERNELS_X86_DELTA_BWD_H
#define KERNELS_X86_DELTA_BWD_H

#include "kernels/x86/delta.h"

enum { DELTA_STRIP = 4, DELTA_RUN_MAX = 64 }; /* columns at a time; rows of a run at most */

/* A run of rows of a half, and the scratch for it. */
struct delta_run {
    const struct k_delta_bwd *g;
    struct delta_unit half;
    int64_t d;               /* numbers of a column: d_k, in whole vectors */
    int64_t index, lo, n;    /* of the sequence's runs; its first row in the call, and how many */
    float *q, *k;            /* [n, d] as the head sees them */
    struct delta_rate *rate; /* [n] */
    float *states;           /* [n, DELTA_STRIP, d] of each row, decayed */
    float *now;              /* [DELTA_STRIP, d] */
    float *rest, *learnt;    /* [n, DELTA_STRIP] */
    float *back;             /* [columns of the half, in whole strips, d] gradients of a state */
};

static inline struct delta_run delta_run_of(const struct k_delta_bwd *g,
                                            const struct delta_unit *half, float *scratch)
{
    int64_t d = (g->fwd.d_k + VF - 1) / VF * VF, n = delta_run_rows(g->fwd.d_k);
    struct delta_run r = {.g = g, .half = *half, .d = d, .q = scratch, .k = scratch + n * d};
    r.states = r.k + n * d;
    r.now = r.states + n * DELTA_STRIP * d;
    r.rest = r.now + DELTA_STRIP * d;
    r.learnt = r.rest + n * DELTA_STRIP;
    r.back = r.learnt + n * DELTA_STRIP;
    return r;
}

/* The rows of run `index` of the sequence. */
static inline void delta_run_open(struct delta_run *r, int64_t index)
{
    const struct k_delta *a = &r->g->fwd;
    int64_t rows = delta_run_rows(a->d_k), hi = a->batch.q_start[r->half.seq + 1];
    struct delta_row row;
    r->index = index;
    r->lo = a->batch.q_start[r->half.seq] + index * rows;
    r->n = rows_min(rows, hi - r->lo);
    for (int64_t i = 0; i < r->n; i++) {
        delta_row_open(a, &r->half, r->lo + i, &row);
        r->rate[i] = row.rate;
        memcpy(r->q + i * r->d, row.q, (size_t)r->d * sizeof *r->q);
        memcpy(r->k + i * r->d, row.k, (size_t)r->d * sizeof *r->k);
    }
}

/* A row's numbers in the columns from `col` of the half on. */
static inline void delta_strip_get(const struct delta_run *r, const float *x, int64_t ld, int64_t i,
                                   int32_t col, float *y)
{
    const float *row = x + (r->lo + i) * ld + r->half.head * r->g->fwd.d_v + r->half.col + col;
    for (int32_t c = 0; c < DELTA_STRIP; c++)
        y[c] = col + c < r->half.width ? row[c] : 0.0f;
}

/* ---- forward again ---- */

/* Row i: its decayed state stays where it keeps it. */
static inline void delta_again(const struct delta_run *r, int64_t i, int32_t col, bool keeps)
{
    const struct k_delta *a = &r->g->fwd;
    float *state = keeps ? r->states + i * DELTA_STRIP * r->d : r->now;
    float *rest = r->rest + i * DELTA_STRIP, *learnt = r->learnt + i * DELTA_STRIP;
    const float *key = r->k + i * r->d;
    vf sum[DELTA_STRIP], u[DELTA_STRIP], decay = vf_set(r->rate[i].decay);
    delta_strip_get(r, a->v, a->ld_v, i, col, rest);
#pragma GCC unroll 4
    for (int c = 0; c < DELTA_STRIP; c++)
        sum[c] = vf_zero();
    for (int64_t j = 0; j < r->d; j += VF) {
        vf k = vf_load(key + j, VF);
#pragma GCC unroll 4
        for (int c = 0; c < DELTA_STRIP; c++) {
            vf old = vf_mul(decay, vf_load(r->now + c * r->d + j, VF));
            vf_store(state + c * r->d + j, old, VF);
            sum[c] = vf_fma(old, k, sum[c]);
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < DELTA_STRIP; c++) {
        if (!r->rate[i].is_scan)
            rest[c] -= vf_sum(sum[c]);
        learnt[c] = r->rate[i].beta * rest[c];
        u[c] = vf_set(learnt[c]);
    }
    for (int64_t j = 0; j < r->d; j += VF) {
        vf k = vf_load(key + j, VF);
#pragma GCC unroll 4
        for (int c = 0; c < DELTA_STRIP; c++)
            vf_store(r->now + c * r->d + j, vf_fma(k, u[c], vf_load(state + c * r->d + j, VF)), VF);
    }
}

/* The state at the border of run `index`, column by column: from memory or to it. */
static inline void delta_border_move(const struct delta_run *r, int64_t index, int32_t col,
                                     bool is_out)
{
    int32_t d_k = r->g->fwd.d_k;
    float *border = delta_border(r->g, &r->half, index, r->half.col + col);
    for (int32_t c = 0; c < DELTA_STRIP && col + c < r->half.width; c++) {
        float *now = r->now + c * r->d;
        if (is_out)
            memcpy(border + c * d_k, now, (size_t)d_k * sizeof *now);
        else
            memcpy(now, border + c * d_k, (size_t)d_k * sizeof *now);
    }
}

/* From the border of a run to that of the next. */
static inline void delta_leave_border(const struct delta_run *r, int32_t col)
{
    delta_border_move(r, r->index, col, false);
    for (int64_t i = 0; i < r->n; i++)
        delta_again(r, i, col, false);
    delta_border_move(r, r->index + 1, col, true);
}

/* ---- back ---- */

/* What a row's backward reads, and what it adds to. */
struct delta_back {
    const float *q, *k, *state, *learnt; /* of the row */
    float *back;                         /* the state's gradient */
    int64_t d;
    int32_t d_k;
};

/* Through reading: dq is added to; du of each column. */
static inline void delta_back_read(const struct delta_back *b, const float *dy, float *dq,
                                   float *du)
{
    vf sum[DELTA_STRIP], in[DELTA_STRIP], u[DELTA_STRIP];
#pragma GCC unroll 4
    for (int c = 0; c < DELTA_STRIP; c++) {
        sum[c] = vf_zero();
        in[c] = vf_set(dy[c]);
        u[c] = vf_set(b->learnt[c]);
    }
    for (int64_t j = 0; j < b->d; j += VF) {
        int n = vf_count(b->d_k, j);
        vf q = vf_load(b->q + j, VF), k = vf_load(b->k + j, VF), to = vf_load(dq + j, n);
#pragma GCC unroll 4
        for (int c = 0; c < DELTA_STRIP; c++) {
            float *at = b->back + c * b->d + j;
            vf back = vf_fma(q, in[c], vf_load(at, VF));
            vf_store(at, back, VF);
            sum[c] = vf_fma(back, k, sum[c]);
            to = vf_fma(vf_fma(k, u[c], vf_load(b->state + c * b->d + j, VF)), in[c], to);
        }
        vf_store(dq + j, to, n);
    }
#pragma GCC unroll 4
    for (int c = 0; c < DELTA_STRIP; c++)
        du[c] = vf_sum(sum[c]);
}

/* Through learning and decay: dk is added to; dg. */
static inline float delta_back_learn(const struct delta_back *b, float rate, const float *dv,
                                     float *dk)
{
    vf g[DELTA_STRIP], out[DELTA_STRIP], u[DELTA_STRIP], decay = vf_set(rate);
#pragma GCC unroll 4
    for (int c = 0; c < DELTA_STRIP; c++) {
        g[c] = vf_zero();
        out[c] = vf_set(dv[c]);
        u[c] = vf_set(b->learnt[c]);
    }
    for (int64_t j = 0; j < b->d; j += VF) {
        int n = vf_count(b->d_k, j);
        vf k = vf_load(b->k + j, VF), to = vf_load(dk + j, n);
#pragma GCC unroll 4
        for (int c = 0; c < DELTA_STRIP; c++) {
            float *at = b->back + c * b->d + j;
            vf back = vf_load(at, VF), state = vf_load(b->state + c * b->d + j, VF);
            to = vf_fnma(state, out[c], vf_fma(back, u[c], to));
            back = vf_fnma(k, out[c], back);
            g[c] = vf_fma(state, back, g[c]);
            vf_store(at, vf_mul(decay, back), VF);
        }
        vf_store(dk + j, to, n);
    }
    return vf_sum(vf_add(vf_add(g[0], g[1]), vf_add(g[2], g[3])));
}

static inline void delta_back_row(const struct delta_run *r, int64_t i, int32_t col)
{
    const struct k_delta_bwd *g = r->g;
    const struct k_delta *a = &g->fwd;
    float *dq = delta_part_at(g, &r->half, r->lo + i), *dk = dq + a->d_k, *dg = dk + a->d_k;
    float dy[DELTA_STRIP], du[DELTA_STRIP], found[DELTA_STRIP]; /* found: of what k found */
    float *to = g->dv + (r->lo + i) * g->ld_dv + r->half.head * a->d_v + r->half.col + col;
    struct delta_back b = {.q = r->q + i * r->d,
                           .k = r->k + i * r->d,
                           .state = r->states + i * DELTA_STRIP * r->d,
                           .learnt = r->learnt + i * DELTA_STRIP,
                           .back = r->back + col * r->d,
                           .d = r->d,
                           .d_k = a->d_k};
    delta_strip_get(r, g->dy, g->ld_dy, i, col, dy);
    delta_back_read(&b, dy, dq, du);
    for (int32_t c = 0; c < DELTA_STRIP; c++) {
        float dv = r->rate[i].beta * du[c];
        found[c] = r->rate[i].is_scan ? 0.0f : dv;
        dg[1] += du[c] * r->rest[i * DELTA_STRIP + c];
        if (col + c < r->half.width)
            to[c] = r->rate[i].is_scan ? dv + r->rate[i].skip * dy[c] : dv;
    }
    dg[0] += delta_back_learn(&b, r->rate[i].decay, found, dk);
}

static inline void delta_back_run(const struct delta_run *r, int32_t col)
{
    delta_border_move(r, r->index, col, false);
    for (int64_t i = 0; i < r->n; i++)
        delta_again(r, i, col, true);
    for (int64_t i = r->n - 1; i >= 0; i--)
        delta_back_row(r, i, col);
}

/* Zeros: what the first run begins from, and what comes back from behind the last. */
static inline void delta_half_begin(const struct delta_run *r)
{
    const struct k_delta *a = &r->g->fwd;
    int64_t strips = (r->half.width + DELTA_STRIP - 1) / DELTA_STRIP;
    int64_t lo = a->batch.q_start[r->half.seq], hi = a->batch.q_start[r->half.seq + 1];
    for (int64_t t = lo; t < hi; t++)
        memset(delta_part_at(r->g, &r->half, t), 0, (size_t)(2 * a->d_k + 2) * sizeof(float));
    memset(r->now, 0, (size_t)(DELTA_STRIP * r->d) * sizeof *r->now);
    memset(r->back, 0, (size_t)(strips * DELTA_STRIP * r->d) * sizeof *r->back);
    for (int32_t col = 0; lo < hi && col < r->half.width; col += DELTA_STRIP)
        delta_border_move(r, 0, col, true);
}

static inline void delta_halves(const struct k_delta_bwd *g, const struct k_slice *s)
{
    const struct k_delta *a = &g->fwd;
    struct delta_rate rate[DELTA_RUN_MAX];
    for (int64_t h = s->lo; h < s->hi; h++) {
        struct delta_unit half = delta_half_of(a, h);
        struct delta_run r = delta_run_of(g, &half, s->scratch);
        int64_t n_row = a->batch.q_start[half.seq + 1] - a->batch.q_start[half.seq];
        int64_t n_run = delta_runs(a->d_k, n_row);
        r.rate = rate;
        delta_half_begin(&r);
        for (int64_t i = 0; i + 1 < n_run; i++) {
            delta_run_open(&r, i);
            for (int32_t col = 0; col < half.width; col += DELTA_STRIP)
                delta_leave_border(&r, col);
        }
        for (int64_t i = n_run - 1; i >= 0; i--) {
            delta_run_open(&r, i);
            for (int32_t col = 0; col < half.width; col += DELTA_STRIP)
                delta_back_run(&r, col);
        }
    }
}

/* ---- rates ---- */

/* n numbers from i on that a key head has of its heads of values: of q, or of k from d_k on. */
static inline vf delta_part_sum(const struct delta_key_parts *p, int64_t i, int n)
{
    vf sum = vf_load(p->at + i, n);
    for (int64_t k = 1; k < p->n; k++)
        sum = vf_add(sum, vf_load(p->at + k * p->cols + i, n));
    return sum;
}

/* dx = rate (d - x (x . d) inv^2), where rate is inv, of q by sqrt(d_k); d from `from` on */
static inline void delta_length_bwd(const struct k_delta_rates_bwd *g, int64_t t, int64_t key,
                                    const float *x, float rate, float inv_sq, int64_t from,
                                    float *dx)
{
    const struct k_delta_rates *a = &g->fwd;
    struct delta_key_parts part = delta_key_parts_of(g->part, a->n_k, a->n_v, a->d_k, t, key);
    int32_t d = a->d_k;
    vf dot = vf_zero(), along;
    for (int32_t i = 0; i < d; i += VF) {
        int n = vf_count(d, i);
        dot = vf_fma(vf_load(x + i, n), delta_part_sum(&part, from + i, n), dot);
    }
    along = vf_set(vf_sum(dot) * inv_sq);
    for (int32_t i = 0; i < d; i += VF) {
        int n = vf_count(d, i);
        vf v = vf_fnma(vf_load(x + i, n), along, delta_part_sum(&part, from + i, n));
        vf_store(dx + i, vf_mul(vf_set(rate), v), n);
    }
}

/* Gradients of g and beta, which stand apart in `part`. */
static inline void delta_rate_sums(const float *part, int32_t n_v, int32_t d_k, int64_t t,
                                   int64_t h, int n, float *dg, float *dbeta)
{
    for (int i = 0; i < n; i++) {
        struct delta_rate_grad d = delta_rate_grad_of(part, n_v, d_k, t, h + i);
        dg[i] = d.g;
        dbeta[i] = d.beta;
    }
}

static inline void delta_heads_bwd(const struct k_delta_rates_bwd *g, int64_t t, int64_t h, int n)
{
    const struct k_delta_rates *a = &g->fwd;
    float sum_g[VF], sum_beta[VF];
    delta_rate_sums(g->part, a->n_v, a->d_k, t, h, n, sum_g, sum_beta);
    vf x = vf_add(vf_load(a->a + t * a->ld_a + h, n), vf_load(a->dt_bias + h, n));
    vf down = vf_mul(vf_neg(vf_load(sum_g, n)), vf_exp(vf_load(a->a_log + h, n)));
    vf beta = vf_sigmoid(vf_load(a->b + t * a->ld_b + h, n));
    vf slope = vf_mul(beta, vf_sub(vf_set(1.0f), beta));
    if (g->da)
        vf_store(g->da + t * g->ld_da + h, vf_mul(down, vf_sigmoid(x)), n);
    if (g->db)
        vf_store(g->db + t * g->ld_db + h, vf_mul(vf_load(sum_beta, n), slope), n);
    if (g->da_log)
        vf_store(g->da_log + t * a->n_v + h, vf_mul(down, vf_softplus(x)), n);
}

static inline void delta_rates_bwd_rows(const struct k_delta_rates_bwd *g, int64_t lo, int64_t hi)
{
    const struct k_delta_rates *a = &g->fwd;
    for (int64_t t = lo; t < hi; t++) {
        const float *q = a->rate + t * delta_rate_cols(a->n_k, a->n_v) + 2 * a->n_v;
        const float *k = q + a->n_k;
        for (int64_t h = 0; h < a->n_v; h += VF)
            delta_heads_bwd(g, t, h, vf_count(a->n_v, h));
        for (int64_t h = 0; h < a->n_k; h++) {
            int64_t at = h * a->d_k;
            if (g->dq)
                delta_length_bwd(g, t, h, a->q + t * a->ld_q + at, q[h],
                                 q[h] * q[h] * (float)a->d_k, 0, g->dq + t * g->ld_dq + at);
            if (g->dk)
                delta_length_bwd(g, t, h, a->k + t * a->ld_k + at, k[h], k[h] * k[h], a->d_k,
                                 g->dk + t * g->ld_dk + at);
        }
    }
}

#endif
