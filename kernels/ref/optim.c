/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW and the sum of squares. Every step of AdamW is one rounding in f32, in PyTorch's order
 * and never fused, so all variants give the same bits; constants are rounded from f64 once.
 */
#include "kernels/optim.h"

#include <math.h>

#include "kernels/shape/rows.h"
#include "kernels/variants.h"

void adamw_ref(const void *args, const struct k_slice *s)
{
    const struct k_adamw *a = args;
    struct adamw_const c = adamw_const(a);
    int64_t hi = rows_min(s->hi * K_SUM_CHUNK, a->n);
    for (int64_t i = s->lo * K_SUM_CHUNK; i < hi; i++) {
        float g = a->g[i] * c.g_scale;
        float m = a->m[i] + (g - a->m[i]) * c.m_in;
        float v = a->v[i] * c.v_keep + c.v_in * g * g;
        float denom = sqrtf(v) / c.root + c.eps;
        a->p[i] = a->p[i] * c.keep - c.step * m / denom;
        a->m[i] = m;
        a->v[i] = v;
    }
}

void sum_sq_ref(const void *args, const struct k_slice *s)
{
    const struct k_sum_sq *a = args;
    for (int64_t u = s->lo; u < s->hi; u++) {
        int64_t hi = rows_min((u + 1) * K_SUM_CHUNK, a->n);
        double sum = 0;
        for (int64_t i = u * K_SUM_CHUNK; i < hi; i++)
            sum += (double)a->x[i] * a->x[i];
        a->part[u] = sum;
    }
}
