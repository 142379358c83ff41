/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the optimizer's kernels, for the width of kernels/x86/vec.h. Products and sums stay
 * apart where kernels/ref/optim.c has them apart: the bits are the same.
 */
#ifndef KERNELS_X86_OPTIM_H
#define KERNELS_X86_OPTIM_H

#include "kernels/optim.h"
#include "kernels/shape/rows.h"
#include "kernels/x86/vec.h"

static inline void adamw_chunks(const struct k_adamw *a, int64_t lo, int64_t hi)
{
    struct adamw_const c = adamw_const(a);
    vf g_scale = vf_set(c.g_scale), keep = vf_set(c.keep), m_in = vf_set(c.m_in);
    vf v_keep = vf_set(c.v_keep), v_in = vf_set(c.v_in), root = vf_set(c.root);
    vf eps = vf_set(c.eps), step = vf_set(c.step);
    int64_t end = rows_min(hi * K_SUM_CHUNK, a->n);
    for (int64_t j = lo * K_SUM_CHUNK; j < end; j += VF) {
        int n = vf_count(end, j);
        vf g = vf_mul(vf_load(a->g + j, n), g_scale), m = vf_load(a->m + j, n);
        m = vf_add(m, vf_mul(vf_sub(g, m), m_in));
        vf v = vf_mul(vf_load(a->v + j, n), v_keep);
        v = vf_add(v, vf_mul(vf_mul(v_in, g), g));
        vf denom = vf_add(vf_div(vf_sqrt(v), root), eps);
        vf p = vf_mul(vf_load(a->p + j, n), keep);
        vf_store(a->p + j, vf_sub(p, vf_div(vf_mul(step, m), denom)), n);
        vf_store(a->m + j, m, n);
        vf_store(a->v + j, v, n);
    }
}

static inline void sum_sq_chunks(const struct k_sum_sq *a, int64_t lo, int64_t hi)
{
    for (int64_t u = lo; u < hi; u++) {
        int64_t end = rows_min((u + 1) * K_SUM_CHUNK, a->n), j = u * K_SUM_CHUNK;
        struct vd s0 = vd_zero(), s1 = s0;
        for (; j + 2 * VF <= end; j += 2 * VF) {
            s0 = vd_add_squares(s0, vf_load(a->x + j, VF));
            s1 = vd_add_squares(s1, vf_load(a->x + j + VF, VF));
        }
        for (; j < end; j += VF)
            s0 = vd_add_squares(s0, vf_load(a->x + j, vf_count(end, j)));
        a->part[u] = vd_sum(s0) + vd_sum(s1);
    }
}

#endif
