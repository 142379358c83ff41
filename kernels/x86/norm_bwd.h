/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of the norms with respect to their input, for the width of kernels/x86/vec.h.
 */
#ifndef KERNELS_X86_NORM_BWD_H
#define KERNELS_X86_NORM_BWD_H

#include "kernels/x86/norm.h"

__attribute__((always_inline)) static inline void term_rms_dot(const struct norm_row *r, int64_t j,
                                                               int n, vf *a, vf *b)
{
    (void)b;
    vf g = vf_mul(norm_weight(r, j, n), vf_load(r->dy + j, n));
    *a = vf_fma(g, vf_mul(vf_load(r->x + j, n), vf_set(r->rstd)), *a);
}

__attribute__((always_inline)) static inline void term_layer_dot(const struct norm_row *r,
                                                                 int64_t j, int n, vf *a, vf *b)
{
    vf g = vf_mul(norm_weight(r, j, n), vf_load(r->dy + j, n));
    vf xhat = vf_mul(vf_sub(vf_load(r->x + j, n), vf_set(r->mean)), vf_set(r->rstd));
    *a = vf_fma(g, xhat, *a);
    *b = vf_add(*b, g);
}

/* dx (+)= rstd (g - c - xhat dot); rmsnorm has mean and c of zero. */
static inline void norm_dx_put(const struct norm_row *r, float dot, float c, bool add)
{
    vf mean = vf_set(r->mean), rstd = vf_set(r->rstd), vdot = vf_set(dot), vc = vf_set(c);
    for (int64_t j = 0; j < r->d; j += VF) {
        int n = vf_count(r->d, j);
        vf g = vf_mul(norm_weight(r, j, n), vf_load(r->dy + j, n));
        vf xhat = vf_mul(vf_sub(vf_load(r->x + j, n), mean), rstd);
        vf v = vf_mul(rstd, vf_fnma(xhat, vdot, vf_sub(g, vc)));
        if (add)
            v = vf_add(vf_load(r->dx + j, n), v);
        vf_store(r->dx + j, v, n);
    }
}

static inline void rmsnorm_bwd_rows(const struct k_norm_bwd *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        struct norm_row r = norm_bwd_row_at(a, i);
        float dot, none;
        r.rstd = a->stat[i];
        norm_sums(&r, term_rms_dot, &dot, &none);
        norm_dx_put(&r, dot / (float)a->d, 0.0f, a->add);
    }
}

static inline void layernorm_bwd_rows(const struct k_norm_bwd *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        struct norm_row r = norm_bwd_row_at(a, i);
        float dot, sum;
        r.mean = a->stat[2 * i];
        r.rstd = a->stat[2 * i + 1];
        norm_sums(&r, term_layer_dot, &dot, &sum);
        norm_dx_put(&r, dot / (float)a->d, sum / (float)a->d, a->add);
    }
}

#endif
