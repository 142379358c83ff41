/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows to unit length and the gradient of that, for the width of kernels/x86/vec.h.
 */
#ifndef KERNELS_X86_L2NORM_H
#define KERNELS_X86_L2NORM_H

#include "kernels/x86/norm.h"

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
