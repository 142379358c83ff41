/* SPDX-License-Identifier: Apache-2.0
 *
 * The rates of a state-space scan and what comes back to them, for the width of kernels/x86/vec.h;
 * the rows between are delta's.
 */
#ifndef KERNELS_X86_SCAN_H
#define KERNELS_X86_SCAN_H

#include "kernels/x86/delta_bwd.h"

/* dt + dt_bias of n heads from h on. */
static inline vf scan_input(const struct k_scan_rates *a, int64_t t, int64_t h, int n)
{
    return vf_add(vf_load(a->dt + t * a->ld_dt + h, n), vf_load(a->dt_bias + h, n));
}

static inline vf scan_bound(const struct k_scan_rates *a, vf step)
{
    return vf_min(vf_set(a->hi), vf_max(vf_set(a->lo), step));
}

static inline void scan_rates_rows(const struct k_scan_rates *a, int64_t lo, int64_t hi)
{
    for (int64_t t = lo; t < hi; t++) {
        float *decay = a->rate + t * delta_rate_cols(a->n_k, a->n_v), *beta = decay + a->n_v;
        for (int64_t h = 0; h < a->n_v; h += VF) {
            int n = vf_count(a->n_v, h);
            vf step = scan_bound(a, vf_softplus(scan_input(a, t, h, n)));
            vf g = vf_neg(vf_mul(vf_exp(vf_load(a->a_log + h, n)), step));
            vf_store(decay + h, vf_exp(g), n);
            vf_store(beta + h, step, n);
        }
        for (int64_t i = 0; i < 2 * a->n_k; i++)
            beta[a->n_v + i] = 1;
    }
}

/* ---- back ---- */

/* A step at a bound has no slope beyond it. */
static inline void scan_heads_bwd(const struct k_scan_rates_bwd *g, int64_t t, int64_t h, int n)
{
    const struct k_scan_rates *a = &g->fwd;
    float sum_g[VF], sum_beta[VF];
    delta_rate_sums(g->part, a->n_v, g->d_k, t, h, n, sum_g, sum_beta);
    vf x = scan_input(a, t, h, n), free = vf_softplus(x), step = scan_bound(a, free);
    vf down = vf_mul(vf_neg(vf_load(sum_g, n)), vf_exp(vf_load(a->a_log + h, n)));
    vf ddt = vf_mul(vf_add(vf_load(sum_beta, n), down), vf_sigmoid(x));
    ddt = vf_select(vf_gt(vf_set(a->lo), free), vf_zero(), ddt);
    ddt = vf_select(vf_gt(free, vf_set(a->hi)), vf_zero(), ddt);
    if (g->ddt)
        vf_store(g->ddt + t * g->ld_ddt + h, ddt, n);
    if (g->da_log)
        vf_store(g->da_log + t * a->n_v + h, vf_mul(down, step), n);
}

static inline float scan_skip_bwd(const struct k_scan_rates_bwd *g, int64_t t, int64_t h)
{
    const float *v = g->v + t * g->ld_v + h * g->d_v, *dy = g->dy + t * g->ld_dy + h * g->d_v;
    vf sum = vf_zero();
    for (int32_t j = 0; j < g->d_v; j += VF) {
        int n = vf_count(g->d_v, j);
        sum = vf_fma(vf_load(v + j, n), vf_load(dy + j, n), sum);
    }
    return vf_sum(sum);
}

static inline void scan_keys_bwd(const struct k_scan_rates_bwd *g, int64_t t, int64_t key)
{
    const struct k_scan_rates *a = &g->fwd;
    struct delta_key_parts p = delta_key_parts_of(g->part, a->n_k, a->n_v, g->d_k, t, key);
    for (int32_t i = 0; i < g->d_k; i += VF) {
        int n = vf_count(g->d_k, i);
        int64_t at = key * g->d_k + i;
        if (g->dq)
            vf_store(g->dq + t * g->ld_dq + at, delta_part_sum(&p, i, n), n);
        if (g->dk)
            vf_store(g->dk + t * g->ld_dk + at, delta_part_sum(&p, g->d_k + i, n), n);
    }
}

static inline void scan_rates_bwd_rows(const struct k_scan_rates_bwd *g, int64_t lo, int64_t hi)
{
    const struct k_scan_rates *a = &g->fwd;
    for (int64_t t = lo; t < hi; t++) {
        for (int64_t h = 0; h < a->n_v; h += VF)
            scan_heads_bwd(g, t, h, vf_count(a->n_v, h));
        for (int64_t h = 0; h < a->n_v && g->dskip; h++)
            g->dskip[t * a->n_v + h] = scan_skip_bwd(g, t, h);
        for (int64_t h = 0; h < a->n_k; h++)
            scan_keys_bwd(g, t, h);
    }
}

#endif
