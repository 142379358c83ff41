/* SPDX-License-Identifier: Apache-2.0
 *
 * The norms, summed in f64. Where a residual is given, x + residual rounds to f32 first, as `add`
 * would have rounded it, and that is what is normalised. The factors stat and the result round to
 * f32 after each operation: (x * rstd) * weight.
 */
#include <math.h>

#include "kernels/shape/rows.h"
#include "kernels/variants.h"

/* The row that is normalised: x itself, or the sum, written as it is read. */
static const float *row_get(const struct k_norm *a, int64_t i)
{
    const float *x = a->x + rows_run_at(i, a->n_head, a->ld_x, a->d);
    if (!a->residual)
        return x;
    const float *r = a->residual + rows_run_at(i, a->n_head, a->ld_residual, a->d);
    float *sum = a->sum + rows_run_at(i, a->n_head, a->ld_sum, a->d);
    for (int64_t j = 0; j < a->d; j++)
        sum[j] = x[j] + r[j];
    return sum;
}

static float weight_at(const float *weight, int64_t j, bool plus_one)
{
    if (!weight)
        return 1;
    return plus_one ? 1 + weight[j] : weight[j];
}

void rmsnorm_ref(const void *args, const struct k_slice *s)
{
    const struct k_norm *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = row_get(a, i);
        float *y = a->y + rows_run_at(i, a->n_head, a->ld_y, a->d);
        double sq = 0;
        for (int64_t j = 0; j < a->d; j++)
            sq += (double)x[j] * x[j];
        float rstd = (float)(1 / sqrt(sq / (double)a->d + a->eps));
        for (int64_t j = 0; j < a->d; j++)
            y[j] = x[j] * rstd * weight_at(a->weight, j, a->plus_one);
        if (a->stat)
            a->stat[i] = rstd;
    }
}

void layernorm_ref(const void *args, const struct k_slice *s)
{
    const struct k_norm *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = row_get(a, i);
        float *y = a->y + rows_run_at(i, a->n_head, a->ld_y, a->d);
        double sum = 0, sq = 0;
        for (int64_t j = 0; j < a->d; j++)
            sum += x[j];
        float mean = (float)(sum / (double)a->d);
        for (int64_t j = 0; j < a->d; j++)
            sq += (x[j] - (double)mean) * (x[j] - (double)mean);
        float rstd = (float)(1 / sqrt(sq / (double)a->d + a->eps));
        for (int64_t j = 0; j < a->d; j++)
            y[j] = (x[j] - mean) * rstd * a->weight[j] + (a->bias ? a->bias[j] : 0.0f);
        if (a->stat) {
            a->stat[2 * i] = mean;
            a->stat[2 * i + 1] = rstd;
        }
    }
}

static void dx_put(const struct k_norm_bwd *a, int64_t i, int64_t j, double v)
{
    float *dx = a->dx + rows_run_at(i, a->n_head, a->ld_dx, a->d) + j;
    *dx = (float)(a->add ? *dx + v : v);
}

/* dx = rstd (g - xhat mean(g xhat)), g = weight dy, xhat = x rstd */
void rmsnorm_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_norm_bwd *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = a->x + rows_run_at(i, a->n_head, a->ld_x, a->d),
                    *dy = a->dy + rows_run_at(i, a->n_head, a->ld_dy, a->d);
        double rstd = a->stat[i], dot = 0;
        for (int64_t j = 0; j < a->d; j++)
            dot += (double)weight_at(a->weight, j, a->plus_one) * dy[j] * x[j];
        dot *= rstd / (double)a->d;
        for (int64_t j = 0; j < a->d; j++) {
            double g = (double)weight_at(a->weight, j, a->plus_one) * dy[j];
            dx_put(a, i, j, rstd * (g - x[j] * rstd * dot));
        }
    }
}

/* dx = rstd (g - mean(g) - xhat mean(g xhat)), xhat = (x - mean) rstd */
void layernorm_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_norm_bwd *a = args;
    double n = (double)a->d;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = a->x + rows_run_at(i, a->n_head, a->ld_x, a->d),
                    *dy = a->dy + rows_run_at(i, a->n_head, a->ld_dy, a->d);
        double mean = a->stat[2 * i], rstd = a->stat[2 * i + 1], sum = 0, dot = 0;
        for (int64_t j = 0; j < a->d; j++) {
            double g = (double)a->weight[j] * dy[j];
            sum += g;
            dot += g * (x[j] - mean) * rstd;
        }
        for (int64_t j = 0; j < a->d; j++) {
            double g = (double)a->weight[j] * dy[j], xhat = (x[j] - mean) * rstd;
            dx_put(a, i, j, rstd * (g - sum / n - xhat * dot / n));
        }
    }
}

void rmsnorm_dw_ref(const void *args, const struct k_slice *s)
{
    const struct k_norm_bwd *a = args;
    int64_t hi = rows_min(s->hi * ROWS_COLS, a->d);
    for (int64_t j = s->lo * ROWS_COLS; j < hi; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows_run_count(a->m, a->n_head); i++)
            sum += (double)a->dy[rows_run_at(i, a->n_head, a->ld_dy, a->d) + j] *
                   a->x[rows_run_at(i, a->n_head, a->ld_x, a->d) + j] * a->stat[i];
        a->dweight[j] = (float)(a->dweight[j] + sum);
    }
}

void layernorm_dw_ref(const void *args, const struct k_slice *s)
{
    const struct k_norm_bwd *a = args;
    int64_t hi = rows_min(s->hi * ROWS_COLS, a->d);
    for (int64_t j = s->lo * ROWS_COLS; j < hi; j++) {
        double sum = 0, sum_dy = 0;
        for (int64_t i = 0; i < rows_run_count(a->m, a->n_head); i++) {
            double dy = a->dy[rows_run_at(i, a->n_head, a->ld_dy, a->d) + j], mean = a->stat[2 * i],
                   rstd = a->stat[2 * i + 1];
            sum += dy * (a->x[rows_run_at(i, a->n_head, a->ld_x, a->d) + j] - mean) * rstd;
            sum_dy += dy;
        }
        a->dweight[j] = (float)(a->dweight[j] + sum);
        if (a->dbias)
            a->dbias[j] = (float)(a->dbias[j] + sum_dy);
    }
}

void l2norm_ref(const void *args, const struct k_slice *s)
{
    const struct k_l2norm *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = a->x + i * a->ld_x;
        double sq = 0;
        for (int64_t j = 0; j < a->d; j++)
            sq += (double)x[j] * x[j];
        float inv = (float)(1 / fmax(sqrt(sq), a->eps));
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = x[j] * inv;
    }
}

/* dx = (dy - u (u . dy)) / |x|, u = x / |x|; below eps the forward is x / eps, a constant factor */
void l2norm_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_l2norm *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = a->x + i * a->ld_x, *dy = a->dy + i * a->ld_dy;
        double sq = 0, dot = 0;
        for (int64_t j = 0; j < a->d; j++) {
            sq += (double)x[j] * x[j];
            dot += (double)x[j] * dy[j];
        }
        double norm = sqrt(sq), inv = 1 / fmax(norm, a->eps);
        double along = norm > a->eps ? dot * inv * inv : 0;
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = (float)((dy[j] - x[j] * along) * inv);
    }
}
