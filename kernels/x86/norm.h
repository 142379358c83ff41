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
    float base; /* added to the weights: 1, or -0, which changes no number */
};

static inline vf norm_weight(const struct norm_row *r, int64_t j, int n)
{
    if (!r->weight)
        return vf_set(1);
    return vf_add(vf_load(r->weight + j, n), vf_set(r->base));
}

static inline struct norm_row norm_row_at(const struct k_norm *a, int64_t i)
{
    struct norm_row r = {.x = a->x + rows_run_at(i, a->n_head, a->ld_x, a->d),
                         .weight = a->weight,
                         .bias = a->bias,
                         .y = a->y + rows_run_at(i, a->n_head, a->ld_y, a->d),
                         .d = a->d,
                         .base = a->plus_one ? 1.0f : -0.0f};
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
                             .d = a->d,
                             .base = a->plus_one ? 1.0f : -0.0f};
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
            vf_store(r.y + j, vf_mul(v, norm_weight(&r, j, n)), n);
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

#endif
