/* SPDX-License-Identifier: Apache-2.0
 *
 * The rates of a state-space scan, and what comes back to them; the rows between are delta's.
 */
#include <math.h>

#include "kernels/ref/act.h"
#include "kernels/ref/delta.h"
#include "kernels/variants.h"

void scan_rates_ref(const void *args, const struct k_slice *s)
{
    const struct k_scan_rates *a = args;
    for (int64_t t = s->lo; t < s->hi; t++) {
        float *decay = a->rate + t * delta_rate_cols(a->n_k, a->n_v), *beta = decay + a->n_v;
        for (int64_t h = 0; h < a->n_v; h++) {
            double x = ref_softplus((double)a->dt[t * a->ld_dt + h] + (double)a->dt_bias[h]);
            x = fmin(fmax(x, (double)a->lo), (double)a->hi);
            decay[h] = (float)exp(-exp(a->a_log[h]) * x);
            beta[h] = (float)x;
        }
        for (int64_t i = 0; i < 2 * a->n_k; i++)
            beta[a->n_v + i] = 1;
    }
}

/* A step at a bound has no slope beyond it. */
static void head_bwd(const struct k_scan_rates_bwd *g, int64_t t, int64_t h)
{
    const struct k_scan_rates *a = &g->fwd;
    struct delta_rate_grad d = delta_rate_grad_of(g->part, a->n_v, g->d_k, t, h);
    const float *v = g->v + t * g->ld_v + h * g->d_v, *dy = g->dy + t * g->ld_dy + h * g->d_v;
    double x = (double)a->dt[t * a->ld_dt + h] + (double)a->dt_bias[h];
    double step = ref_softplus(x), e = exp(a->a_log[h]), skip = 0;
    bool is_within = step >= (double)a->lo && step <= (double)a->hi;
    step = fmin(fmax(step, (double)a->lo), (double)a->hi);
    if (g->ddt)
        g->ddt[t * g->ld_ddt + h] = is_within ? (float)((d.beta - d.g * e) * ref_sigmoid(x)) : 0.0f;
    if (g->da_log)
        g->da_log[t * a->n_v + h] = (float)(-d.g * e * step);
    for (int32_t j = 0; j < g->d_v; j++)
        skip += (double)v[j] * dy[j];
    if (g->dskip)
        g->dskip[t * a->n_v + h] = (float)skip;
}

void scan_rates_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_scan_rates_bwd *g = args;
    const struct k_scan_rates *a = &g->fwd;
    for (int64_t t = s->lo; t < s->hi; t++) {
        for (int64_t h = 0; h < a->n_v; h++)
            head_bwd(g, t, h);
        for (int64_t h = 0; h < a->n_k; h++) {
            struct delta_key_parts p = delta_key_parts_of(g->part, a->n_k, a->n_v, g->d_k, t, h);
            for (int32_t i = 0; i < g->d_k; i++) {
                if (g->dq)
                    g->dq[t * g->ld_dq + h * g->d_k + i] = (float)ref_delta_part_sum(&p, i);
                if (g->dk)
                    g->dk[t * g->ld_dk + h * g->d_k + i] =
                        (float)ref_delta_part_sum(&p, g->d_k + i);
            }
        }
    }
}
