/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW and the sum of squares. Every step of AdamW is one rounding in f32, in PyTorch's order
 * and never fused, so all variants give the same bits; constants are rounded from f64 once.
 */
#include "kernels/optim.h"

#include <math.h>

#include "kernels/halves.h"
#include "kernels/linear.h"
#include "kernels/moments.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

/* The new value of number i, which was p. */
static float stepped(const struct k_adamw *a, const struct adamw_const *c, int64_t i, float p)
{
    float g = a->g[i] * c->g_scale;
    float m = a->m[i] + (g - a->m[i]) * c->m_in;
    float v = a->v[i] * c->v_keep + c->v_in * g * g;
    float denom = sqrtf(v) / c->root + c->eps;
    a->m[i] = m;
    a->v[i] = v;
    return p * c->keep - c->step * m / denom;
}

void adamw_ref(const void *args, const struct k_slice *s)
{
    const struct k_adamw *a = args;
    struct adamw_const c = adamw_const(a);
    int64_t hi = rows_min(s->hi * K_SUM_CHUNK, a->n);
    for (int64_t i = s->lo * K_SUM_CHUNK; i < hi; i++)
        a->p[i] = stepped(a, &c, i, a->p[i]);
}

void adamw_weight_ref(const void *args, const struct k_slice *s)
{
    const struct k_adamw_weight *a = args;
    struct adamw_const c = adamw_const(&a->a);
    size_t bytes = linear_panel_bytes(a->w.type, a->w.k);
    for (int64_t o = s->lo * K_NR; o < rows_min(s->hi * K_NR, a->w.n); o++) {
        void *panel = (char *)a->w.data + (size_t)(o / K_NR) * bytes;
        for (int64_t i = 0, at = o * a->w.k; i < a->w.k; i++, at++) {
            if (a->w.type == K_F32) {
                float *p = (float *)panel + linear_f32_at(o % K_NR, i);
                *p = stepped(&a->a, &c, at, *p);
                continue;
            }
            k_bf16 *high = (k_bf16 *)panel + linear_bf16_at(o % K_NR, i);
            float p = f32_from_bits(halves_join(*high, a->low[at]));
            uint32_t u = halves_fit(f32_bits(stepped(&a->a, &c, at, p)));
            *high = bf16_from_f32(f32_from_bits(u));
            a->low[at] = (uint16_t)u;
        }
    }
}

void moments_unpack_ref(const void *args, const struct k_slice *s)
{
    const struct k_moments *a = args;
    int64_t hi = rows_min(s->hi * K_SUM_CHUNK, a->n);
    for (int64_t i = s->lo * K_SUM_CHUNK; i < hi; i++)
        a->x[i] = moment_value(a->code[i], a->power[i / K_MOMENT], a->is_second);
}

static float largest(const float *x, int64_t n)
{
    float most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

void moments_pack_ref(const void *args, const struct k_slice *s)
{
    const struct k_moments *a = args;
    int64_t hi = rows_min(s->hi * K_SUM_CHUNK, a->n);
    for (int64_t lo = s->lo * K_SUM_CHUNK; lo < hi; lo += K_MOMENT) {
        int64_t end = rows_min(lo + K_MOMENT, hi);
        uint8_t power = moment_power(largest(a->x + lo, end - lo));
        a->power[lo / K_MOMENT] = power;
        for (int64_t i = lo; i < end; i++)
            a->code[i] =
                moment_code(a->x[i], power, a->is_second, moment_draw(a->seed, a->first + i));
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
