/* SPDX-License-Identifier: Apache-2.0
 *
 * The short convolution. A sum begins with the bias, takes the taps in order and rounds once for
 * each, so every variant equals these bit for bit.
 */
#include "kernels/conv.h"

#include <math.h>

#include "kernels/float16.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

/* As the cells hold it. */
static float rounded(const struct k_conv *a, float x)
{
    return a->cache.type == K_BF16 ? bf16_to_f32(bf16_from_f32(x)) : x;
}

/* Number j of the row `back` places before row t, which is there. */
static float x_get(const struct k_conv *a, int64_t t, int64_t back, int64_t j)
{
    int64_t seq = a->batch.seq_of[t];
    if (t - back >= a->batch.q_start[seq])
        return rounded(a, a->x[(t - back) * a->ld_x + j]);
    const char *row = (const char *)a->cache.k + conv_row_at(a, seq, a->batch.pos[t] - back);
    return a->cache.type == K_BF16 ? bf16_to_f32(((const k_bf16 *)(const void *)row)[j])
                                   : ((const float *)(const void *)row)[j];
}

void conv_ref(const void *args, const struct k_slice *s)
{
    const struct k_conv *a = args;
    for (int64_t t = s->lo; t < s->hi; t++) {
        int32_t first = a->n_tap - 1 - (int32_t)rows_min(a->n_tap - 1, a->batch.pos[t]);
        for (int64_t j = 0; j < a->d; j++) {
            float sum = a->bias ? a->bias[j] : 0.0f;
            for (int32_t i = first; i < a->n_tap; i++)
                sum = fmaf(a->weight[j * a->n_tap + i], x_get(a, t, a->n_tap - 1 - i, j), sum);
            a->y[t * a->ld_y + j] = sum;
        }
    }
}

void conv_keep_ref(const void *args, const struct k_slice *s)
{
    const struct k_conv *a = args;
    for (int64_t t = s->lo; t < s->hi; t++) {
        if (!conv_is_kept(a, t))
            continue;
        char *row = (char *)a->cache.k + conv_row_at(a, a->batch.seq_of[t], a->batch.pos[t]);
        for (int64_t j = 0; j < a->d; j++) {
            float x = a->x[t * a->ld_x + j];
            if (a->cache.type == K_BF16)
                ((k_bf16 *)(void *)row)[j] = bf16_from_f32(x);
            else
                ((float *)(void *)row)[j] = x;
        }
    }
}

/* The row's own tap first, then those that later rows have for it. */
void conv_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_conv_bwd *g = args;
    const struct k_conv *a = &g->fwd;
    for (int64_t t = s->lo; t < s->hi; t++) {
        int64_t n = rows_min(a->n_tap, a->batch.q_start[a->batch.seq_of[t] + 1] - t);
        for (int64_t j = 0; j < a->d; j++) {
            float sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum =
                    fmaf(a->weight[(j + 1) * a->n_tap - 1 - i], g->dy[(t + i) * g->ld_dy + j], sum);
            g->dx[t * g->ld_dx + j] = sum;
        }
    }
}

/* dweight of the tap that is `back` places before the row's own. */
static void tap_dw(const struct k_conv_bwd *g, int64_t j, int32_t back)
{
    const struct k_conv *a = &g->fwd;
    float *dw = g->dweight + (j + 1) * a->n_tap - 1 - back;
    double sum = 0;
    for (int64_t t = 0; t < a->batch.n_tok; t++)
        if (t - back >= a->batch.q_start[a->batch.seq_of[t]])
            sum += (double)g->dy[t * g->ld_dy + j] * rounded(a, a->x[(t - back) * a->ld_x + j]);
    *dw = (float)(*dw + sum);
}

void conv_dw_ref(const void *args, const struct k_slice *s)
{
    const struct k_conv_bwd *g = args;
    const struct k_conv *a = &g->fwd;
    int64_t hi = rows_min(s->hi * ROWS_COLS, a->d);
    for (int64_t j = s->lo * ROWS_COLS; j < hi; j++) {
        for (int32_t back = 0; back < a->n_tap; back++)
            tap_dw(g, j, back);
    }
}
