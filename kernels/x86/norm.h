/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the norms, for the width of kernels/x86/vec.h. A row is read from memory once and
 * from the first cache after that. Its sums run in four vectors, the last odd vectors of the row
 * into the first, and are added by a fixed tree: a function of d alone.
 */
#ifndef KERNELS_X86_NORM_H
#define KERNELS_X86_NORM_H

#include <math.h>

#include "kernels/kernels.h"
#include "kernels/shape/rows.h"
#include "kernels/x86/vec.h"

/* A row as it is walked: all pointers at its first number, NULL where the call has none. */
struct norm_row {
    const float *x, *residual, *weight, *bias, *dy;
    float *y, *sum, *dx;
    int64_t d;
    float mean, rstd;
};

static inline struct norm_row norm_row_at(const struct k_norm *a, int64_t i)
{
    struct norm_row r = {.x = a->x + rows_run_at(i, a->n_head, a->ld_x, a->d),
                         .weight = a->weight,
                         .bias = a->bias,
                         .y = a->y + rows_run_at(i, a->n_head, a->ld_y, a->d),
                         .d = a->d};
    if (a->residual) {
        r.residual = a->residual + rows_run_at(i, a->n_head, a->ld_residual, a->d);
        r.sum = a->sum + rows_run_at(i, a->n_head, a->ld_sum, a->d);
    }
    return r;
}

static inline struct norm_row norm_bwd_row_at(const struct k_norm_bwd *a, int64_t i)
{
    return (struct norm_row){.x = a->x + rows_run_at(i, a->n_head, a->ld_x, a->d),
                             .weight = a->weight,
                             .dy = a->dy + rows_run_at(i, a->n_head, a->ld_dy, a->d),
                             .dx = a->dx + rows_run_at(i, a->n_head, a->ld_dx, a->d),
                             .d = a->d};
}

/* x + residual as it rounds, kept in sum. */
static inline vf norm_in(const struct norm_row *r, int64_t j, int n)
{
    vf v = vf_load(r->x + j, n);
    if (r->residual) {
        v = vf_add(v, vf_load(r->residual + j, n));
        vf_store(r->sum + j, v, n);
    }
    return v;
}

/* What one vector adds to a pair of sums; a term is zero where the row has ended. */
typedef void norm_term_fn(const struct norm_row *r, int64_t j, int n, vf *a, vf *b);

__attribute__((always_inline)) static inline void norm_sums(const struct norm_row *r,
                                                            norm_term_fn *term, float *a, float *b)
{
    struct vf_sums s = {{vf_zero(), vf_zero(), vf_zero(), vf_zero()}}, t = s;
    int64_t j = 0;
    for (; j + 4 * VF <= r->d; j += 4 * VF) {
        term(r, j, VF, &s.v[0], &t.v[0]);
        term(r, j + VF, VF, &s.v[1], &t.v[1]);
        term(r, j + 2 * VF, VF, &s.v[2], &t.v[2]);
        term(r, j + 3 * VF, VF, &s.v[3], &t.v[3]);
    }
    for (; j < r->d; j += VF)
        term(r, j, vf_count(r->d, j), &s.v[0], &t.v[0]);
    *a = vf_sums_total(&s);
    *b = vf_sums_total(&t);
}

__attribute__((always_inline)) static inline void term_square(const struct norm_row *r, int64_t j,
                                                              int n, vf *a, vf *b)
{
    (void)b;
    vf v = norm_in(r, j, n);
    *a = vf_fma(v, v, *a);
}

__attribute__((always_inline)) static inline void term_value(const struct norm_row *r, int64_t j,
                                                             int n, vf *a, vf *b)
{
    (void)b;
    *a = vf_add(*a, norm_in(r, j, n));
}

__attribute__((always_inline)) static inline void term_deviation(const struct norm_row *r,
                                                                 int64_t j, int n, vf *a, vf *b)
{
    (void)b;
    vf v = vf_sub(vf_load(r->x + j, n), vf_set(r->mean));
    v = vf_select(vm_first(n), v, vf_zero());
    *a = vf_fma(v, v, *a);
}

static inline void rmsnorm_rows(const struct k_norm *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        struct norm_row r = norm_row_at(a, i);
        float sq, none;
        norm_sums(&r, term_square, &sq, &none);
        r.rstd = 1.0f / sqrtf(sq / (float)a->d + a->eps);
        const float *x = r.residual ? r.sum : r.x;
        vf rstd = vf_set(r.rstd);
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf v = vf_mul(vf_load(x + j, n), rstd);
            vf_store(r.y + j, vf_mul(v, vf_load(r.weight + j, n)), n);
        }
        if (a->stat)
            a->stat[i] = r.rstd;
    }
}

static inline void layernorm_put(const struct norm_row *r)
{
    vf mean = vf_set(r->mean), rstd = vf_set(r->rstd);
    for (int64_t j = 0; j < r->d; j += VF) {
        int n = vf_count(r->d, j);
        vf v = vf_mul(vf_sub(vf_load(r->x + j, n), mean), rstd);
        v = vf_mul(v, vf_load(r->weight + j, n));
        if (r->bias)
            v = vf_add(v, vf_load(r->bias + j, n));
        vf_store(r->y + j, v, n);
    }
}

static inline void layernorm_rows(const struct k_norm *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        struct norm_row r = norm_row_at(a, i);
        float sum, sq, none;
        norm_sums(&r, term_value, &sum, &none);
        if (r.residual) /* from here on the row is the sum */
            r.x = r.sum;
        r.mean = sum / (float)a->d;
        norm_sums(&r, term_deviation, &sq, &none);
        r.rstd = 1.0f / sqrtf(sq / (float)a->d + a->eps);
        layernorm_put(&r);
        if (a->stat) {
            a->stat[2 * i] = r.mean;
            a->stat[2 * i + 1] = r.rstd;
        }
    }
}

/* ---- dx ---- */

__attribute__((always_inline)) static inline void term_rms_dot(const struct norm_row *r, int64_t j,
                                                               int n, vf *a, vf *b)
{
    (void)b;
    vf g = vf_mul(vf_load(r->weight + j, n), vf_load(r->dy + j, n));
    *a = vf_fma(g, vf_mul(vf_load(r->x + j, n), vf_set(r->rstd)), *a);
}

__attribute__((always_inline)) static inline void term_layer_dot(const struct norm_row *r,
                                                                 int64_t j, int n, vf *a, vf *b)
{
    vf g = vf_mul(vf_load(r->weight + j, n), vf_load(r->dy + j, n));
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
        vf g = vf_mul(vf_load(r->weight + j, n), vf_load(r->dy + j, n));
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

/* ---- to unit length ---- */

static inline void l2norm_rows(const struct k_l2norm *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        struct norm_row r = {.x = a->x + i * a->ld_x, .d = a->d};
        float sq, none;
        norm_sums(&r, term_square, &sq, &none);
        vf inv = vf_set(1.0f / fmaxf(sqrtf(sq), a->eps));
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf_store(a->y + i * a->ld_y + j, vf_mul(vf_load(r.x + j, n), inv), n);
        }
    }
}

__attribute__((always_inline)) static inline void term_l2(const struct norm_row *r, int64_t j,
                                                          int n, vf *a, vf *b)
{
    vf x = vf_load(r->x + j, n);
    *a = vf_fma(x, x, *a);
    *b = vf_fma(x, vf_load(r->dy + j, n), *b);
}

static inline void l2norm_bwd_rows(const struct k_l2norm *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        struct norm_row r = {.x = a->x + i * a->ld_x, .dy = a->dy + i * a->ld_dy, .d = a->d};
        float sq, dot;
        norm_sums(&r, term_l2, &sq, &dot);
        float norm = sqrtf(sq), inv = 1.0f / fmaxf(norm, a->eps);
        vf along = vf_set(norm > a->eps ? dot * inv * inv : 0.0f), vinv = vf_set(inv);
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf v = vf_fnma(vf_load(r.x + j, n), along, vf_load(r.dy + j, n));
            vf_store(a->y + i * a->ld_y + j, vf_mul(v, vinv), n);
        }
    }
}

#endif
