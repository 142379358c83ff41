/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the gated delta rule, for the width of kernels/x86/vec.h. A row goes over its block
 * of the state twice: to read what k finds there, then to decay, learn and read for q. The block
 * lies in the first cache, but for the first and the last row of a sequence, which read and write
 * slots. A column's sums run over d_k in DELTA_TURNS parts, whatever stands beside it.
 */
#ifndef KERNELS_X86_DELTA_H
#define KERNELS_X86_DELTA_H

#include <string.h>

#include "kernels/delta.h"
#include "kernels/x86/norm.h"
#include "kernels/x86/vmath.h"

enum {
    DELTA_V = DELTA_COLS / VF, /* vectors of a whole block's row */
    DELTA_TURNS = VF / 4       /* so that DELTA_V sums in turns hide an instruction's time */
};

/* ---- rates ---- */

static inline float delta_sum_sq(const float *x, int64_t d)
{
    struct norm_row r = {.x = x, .d = d};
    float sq, none;
    norm_sums(&r, term_square, &sq, &none);
    return sq + DELTA_EPS;
}

/* g, below zero. */
static inline vf delta_log_decay(const struct k_delta_rates *a, int64_t t, int64_t h, int n)
{
    vf x = vf_add(vf_load(a->a + t * a->ld_a + h, n), vf_load(a->dt_bias + h, n));
    return vf_neg(vf_mul(vf_exp(vf_load(a->a_log + h, n)), vf_softplus(x)));
}

static inline void delta_rates_rows(const struct k_delta_rates *a, int64_t lo, int64_t hi)
{
    for (int64_t t = lo; t < hi; t++) {
        float *decay = a->rate + t * delta_rate_cols(a->n_k, a->n_v), *beta = decay + a->n_v;
        float *q = beta + a->n_v, *k = q + a->n_k;
        for (int64_t h = 0; h < a->n_v; h += VF) {
            int n = vf_count(a->n_v, h);
            vf_store(decay + h, vf_exp(delta_log_decay(a, t, h, n)), n);
            vf_store(beta + h, vf_sigmoid(vf_load(a->b + t * a->ld_b + h, n)), n);
        }
        for (int64_t h = 0; h < a->n_k; h++) {
            float q_sq = delta_sum_sq(a->q + t * a->ld_q + h * a->d_k, a->d_k);
            q[h] = 1.0f / sqrtf(q_sq * (float)a->d_k);
            k[h] = 1.0f / sqrtf(delta_sum_sq(a->k + t * a->ld_k + h * a->d_k, a->d_k));
        }
    }
}

/* ---- a row ---- */

/* As a unit sees it: k of unit length, q too and by sqrt(d_k); zeros up to a whole vector. */
struct delta_row {
    struct delta_rate rate;
    int32_t d_k;
    float q[K_DELTA_D_MAX], k[K_DELTA_D_MAX];
};

static inline void delta_row_open(const struct k_delta *a, const struct delta_unit *u, int64_t t,
                                  struct delta_row *r)
{
    int64_t key = delta_key_head(a, u->head) * a->d_k;
    const float *q = a->q + t * a->ld_q + key, *k = a->k + t * a->ld_k + key;
    r->rate = delta_rate_of(a, t, u->head);
    r->d_k = a->d_k;
    for (int32_t i = 0; i < a->d_k; i += VF) {
        int n = vf_count(a->d_k, i);
        vf_store(r->q + i, vf_mul(vf_load(q + i, n), vf_set(r->rate.q)), VF);
        vf_store(r->k + i, vf_mul(vf_load(k + i, n), vf_set(r->rate.k)), VF);
    }
}

/* kv = S^T k of `vecs` vectors of columns, n numbers each, in a state whose rows are `ld` long. */
__attribute__((always_inline)) static inline void
delta_find(const float *state, int64_t ld, const struct delta_row *r, int vecs, int n, vf *kv)
{
    vf sum[DELTA_TURNS][DELTA_V];
    int32_t i = 0;
#pragma GCC unroll 4
    for (int t = 0; t < DELTA_TURNS; t++) {
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++)
            sum[t][v] = vf_zero();
    }
    for (; i + DELTA_TURNS <= r->d_k; i += DELTA_TURNS) {
#pragma GCC unroll 4
        for (int t = 0; t < DELTA_TURNS; t++) {
            vf k = vf_set(r->k[i + t]);
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++)
                sum[t][v] = vf_fma(vf_load(state + (i + t) * ld + v * VF, n), k, sum[t][v]);
        }
    }
    for (; i < r->d_k; i++) {
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++)
            sum[0][v] = vf_fma(vf_load(state + i * ld + v * VF, n), vf_set(r->k[i]), sum[0][v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
        kv[v] = vf_add(sum[0][v], sum[1][v]);
        if (DELTA_TURNS == 4)
            kv[v] = vf_add(kv[v], vf_add(sum[DELTA_TURNS - 2][v], sum[DELTA_TURNS - 1][v]));
    }
}

/* rest = v - exp(g) S^T k, of a scan v; u = beta rest */
__attribute__((always_inline)) static inline void delta_rest(const float *state, int64_t ld,
                                                             const struct delta_row *r,
                                                             const float *v, int vecs, int n,
                                                             vf *rest, vf *u)
{
    vf kv[DELTA_V];
    if (!r->rate.is_scan)
        delta_find(state, ld, r, vecs, n, kv);
#pragma GCC unroll 4
    for (int i = 0; i < vecs; i++) {
        rest[i] = vf_load(v + i * VF, n);
        if (!r->rate.is_scan)
            rest[i] = vf_fnma(vf_set(r->rate.decay), kv[i], rest[i]);
        u[i] = vf_mul(vf_set(r->rate.beta), rest[i]);
    }
}

/* to = exp(g) S + k u^T */
__attribute__((always_inline)) static inline vf delta_learnt(const float *state, vf decay, vf k,
                                                             vf u, int n)
{
    return vf_fma(k, u, vf_mul(decay, vf_load(state, n)));
}

/* ---- forward ---- */

/* One row over `vecs` vectors of columns, from one state to another, which may be the same. */
__attribute__((always_inline)) static inline void delta_step(const float *from, float *to,
                                                             int64_t ld, const struct delta_row *r,
                                                             const float *v, float *y, int vecs,
                                                             int n)
{
    vf rest[DELTA_V], u[DELTA_V], sum[DELTA_V], decay = vf_set(r->rate.decay);
    delta_rest(from, ld, r, v, vecs, n, rest, u);
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++)
        sum[j] = vf_zero();
    for (int32_t i = 0; i < r->d_k; i++) {
        vf k = vf_set(r->k[i]), q = vf_set(r->q[i]);
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++) {
            vf s = delta_learnt(from + i * ld + j * VF, decay, k, u[j], n);
            vf_store(to + i * ld + j * VF, s, n);
            sum[j] = vf_fma(q, s, sum[j]);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++) {
        if (r->rate.is_scan)
            sum[j] = vf_fma(vf_set(r->rate.skip), rest[j], sum[j]);
        vf_store(y + j * VF, sum[j], n);
    }
}

static inline void delta_step_any(const float *from, float *to, int32_t width,
                                  const struct delta_row *r, const float *v, float *y)
{
    if (width == DELTA_COLS) {
        delta_step(from, to, DELTA_COLS, r, v, y, DELTA_V, VF);
        return;
    }
    for (int32_t j = 0; j < width; j += VF)
        delta_step(from + j, to + j, width, r, v + j, y + j, 1, vf_count(width, j));
}

static inline void delta_unit_run(const struct k_delta *a, const struct delta_unit *u, float *state)
{
    int64_t lo = a->batch.q_start[u->seq], hi = a->batch.q_start[u->seq + 1];
    int64_t at = u->head * a->d_v + u->col;
    size_t bytes = (size_t)(a->d_k * u->width) * sizeof *state;
    const float *from = delta_from(a, u);
    float *end = delta_to(a, u);
    struct delta_row r;
    if (!from && lo < hi)
        memset(state, 0, bytes);
    if (!from)
        from = state;
    for (int64_t t = lo; t < hi; t++) {
        float *to = end && t + 1 == hi ? end : state, *kept = delta_kept(a, u, t);
        delta_row_open(a, u, t, &r);
        delta_step_any(from, to, u->width, &r, a->v + t * a->ld_v + at, a->y + t * a->ld_y + at);
        if (kept)
            memcpy(kept, to, bytes);
        from = to;
    }
}

static inline void delta_units(const struct k_delta *a, const struct k_slice *s)
{
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct delta_unit u = delta_unit_of(a, i);
        delta_unit_run(a, &u, s->scratch);
    }
}

#endif
