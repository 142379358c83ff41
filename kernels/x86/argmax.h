/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest of a row, for the width of kernels/x86/vec.h. The row is read once, in blocks; the
 * place of the largest is then looked for in the first block that holds it.
 *
 * What is not finite shows in a sum of zeros: x * 0 is 0, or NaN.
 */
#ifndef KERNELS_X86_ARGMAX_H
#define KERNELS_X86_ARGMAX_H

#include <math.h>

#include "kernels/kernels.h"
#include "kernels/x86/vec.h"

enum { ARGMAX_BLOCK = 64 * VF };

/* The largest of a block, NaN left out; adds its zeros. */
static inline float argmax_block(const float *x, int64_t n, vf *zeros)
{
    vf m0 = vf_set(-INFINITY), m1 = m0, m2 = m0, m3 = m0, z0 = *zeros, z1 = vf_zero();
    int64_t j = 0;
    for (; j + 4 * VF <= n; j += 4 * VF) {
        vf a = vf_load(x + j, VF), b = vf_load(x + j + VF, VF);
        vf c = vf_load(x + j + 2 * VF, VF), d = vf_load(x + j + 3 * VF, VF);
        m0 = vf_max(a, m0);
        m1 = vf_max(b, m1);
        m2 = vf_max(c, m2);
        m3 = vf_max(d, m3);
        z0 = vf_fma(a, vf_zero(), z0);
        z1 = vf_fma(b, vf_zero(), z1);
        z0 = vf_fma(c, vf_zero(), z0);
        z1 = vf_fma(d, vf_zero(), z1);
    }
    for (; j < n; j += VF) {
        int c = vf_count(n, j);
        vf a = vf_load(x + j, c); /* zeros behind the end */
        m0 = vf_max(c == VF ? a : vf_select(vm_first(c), a, vf_set(-INFINITY)), m0);
        z0 = vf_fma(a, vf_zero(), z0);
    }
    *zeros = vf_add(z0, z1);
    return vf_max_lane(vf_max(vf_max(m0, m1), vf_max(m2, m3)));
}

static inline struct k_best argmax_row(const float *x, int64_t n)
{
    struct k_best best = {.max = -INFINITY, .id = -1};
    vf zeros = vf_zero();
    int64_t at = -1;
    for (int64_t lo = 0; lo < n; lo += ARGMAX_BLOCK) {
        float max = argmax_block(x + lo, n - lo < ARGMAX_BLOCK ? n - lo : ARGMAX_BLOCK, &zeros);
        if (max > best.max) {
            best.max = max;
            at = lo;
        }
    }
    best.is_finite = vf_sum(zeros) == 0;
    for (; at >= 0 && best.id < 0; at++)
        if (x[at] == best.max)
            best.id = (int32_t)at;
    return best;
}

static inline void argmax_rows(const struct k_argmax *a, const struct k_slice *s)
{
    for (int64_t i = s->lo; i < s->hi; i++)
        a->best[i] = argmax_row(a->x + i * a->ld, a->n);
}

#endif
