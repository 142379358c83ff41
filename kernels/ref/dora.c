/* SPDX-License-Identifier: Apache-2.0
 *
 * dora_gain, dora, dora_dw: lengths and sums over rows in f64. Of dora each result is rounded in
 * one given way, so every variant equals this one bit for bit; a gain of 1 changes nothing.
 */
#include <math.h>

#include "kernels/dora.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

static double length_of(const struct k_dora_gain *a, int64_t o)
{
    double sum = 0;
    for (int64_t i = 0; i < a->k; i++) {
        double added = 0;
        for (int64_t r = 0; r < a->rank; r++)
            added += (double)a->b[o * a->rank + r] * a->a[r * a->k + i];
        double w = a->w[o * a->ld_w + i] + a->scale * added;
        sum += w * w;
    }
    return sqrt(sum);
}

void dora_gain_ref(const void *args, const struct k_slice *s)
{
    const struct k_dora_gain *a = args;
    int64_t hi = rows_min(s->hi * K_DORA_ROWS, a->n);
    for (int64_t o = s->lo * K_DORA_ROWS; o < hi; o++) {
        a->norm[o] = (float)length_of(a, o);
        if (a->magnitude)
            a->gain[o] = dora_gain_of(a->magnitude[o], a->norm[o]);
    }
}

void dora_ref(const void *args, const struct k_slice *s)
{
    const struct k_dora *a = args;
    int64_t at = 0;
    for (int64_t row = s->lo; row < s->hi; row++) {
        const float *gain = dora_gains(a, row, &at);
        float *y = a->y + row * a->ld_y;
        for (int64_t o = 0; gain && o < a->n; o++)
            y[o] = a->bias ? fmaf(gain[o], y[o], fmaf(-gain[o], a->bias[o], a->bias[o]))
                           : gain[o] * y[o];
    }
}

static double slope_of(const struct k_dora_dw *a, const struct k_lora_group *g, int64_t o)
{
    double sum = 0, bias = a->bias ? a->bias[o] : 0;
    for (int64_t row = g->row_lo; row < g->row_hi; row++)
        sum += a->dy[row * a->ld_dy + o] * (a->x[row * a->ld_x + o] - bias);
    return sum;
}

void dora_dw_ref(const void *args, const struct k_slice *s)
{
    const struct k_dora_dw *a = args;
    int64_t hi = rows_min(s->hi * ROWS_COLS, a->n);
    for (int64_t i = 0; i < a->n_group; i++) {
        const struct k_lora_group *g = &a->group[i];
        for (int64_t o = s->lo * ROWS_COLS; g->dmagnitude && o < hi; o++)
            if (g->norm[o] > 0)
                g->dmagnitude[o] += (float)(slope_of(a, g, o) / g->norm[o]);
    }
}
