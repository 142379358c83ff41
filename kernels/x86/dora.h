/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of DoRA's kernels, for the width of kernels/x86/vec.h. Rows of a weight share what is
 * read of A; each has its own sums, the same alone as beside others.
 */
#ifndef KERNELS_X86_DORA_H
#define KERNELS_X86_DORA_H

#include <math.h>

#include "kernels/dora.h"
#include "kernels/shape/rows.h"
#include "kernels/x86/vec.h"

#define DORA_INLINE __attribute__((always_inline)) static inline

/* Adds the squares of `n` inputs from i on of `rows` rows from o on. */
DORA_INLINE void dora_squares(const struct k_dora_gain *a, int rows, int64_t o, int64_t i, int n,
                              vf sum[K_DORA_ROWS])
{
    vf added[K_DORA_ROWS], scale = vf_set(a->scale);
    for (int j = 0; j < rows; j++)
        added[j] = vf_zero();
    for (int64_t r = 0; r < a->rank; r++) {
        vf v = vf_load(a->a + r * a->k + i, n);
        for (int j = 0; j < rows; j++)
            added[j] = vf_fma(vf_set(a->b[(o + j) * a->rank + r]), v, added[j]);
    }
    for (int j = 0; j < rows; j++) {
        vf w = vf_fma(scale, added[j], vf_load(a->w + (o + j) * a->ld_w + i, n));
        sum[j] = vf_fma(w, w, sum[j]);
    }
}

DORA_INLINE void dora_lengths(const struct k_dora_gain *a, int rows, int64_t o)
{
    vf sum[K_DORA_ROWS];
    int64_t i = 0;
    for (int j = 0; j < rows; j++)
        sum[j] = vf_zero();
    for (; i + VF <= a->k; i += VF)
        dora_squares(a, rows, o, i, VF, sum);
    if (i < a->k)
        dora_squares(a, rows, o, i, vf_count(a->k, i), sum);
    for (int j = 0; j < rows; j++) {
        a->norm[o + j] = sqrtf(vf_sum(sum[j]));
        if (a->magnitude)
            a->gain[o + j] = dora_gain_of(a->magnitude[o + j], a->norm[o + j]);
    }
}

static inline void dora_gain_rows(const struct k_dora_gain *a, int64_t lo, int64_t hi)
{
    int64_t o = lo * K_DORA_ROWS, end = rows_min(hi * K_DORA_ROWS, a->n);
    for (; o + K_DORA_ROWS <= end; o += K_DORA_ROWS)
        dora_lengths(a, K_DORA_ROWS, o);
    for (; o < end; o++)
        dora_lengths(a, 1, o);
}

static inline void dora_rows(const struct k_dora *a, int64_t lo, int64_t hi)
{
    int64_t at = 0;
    for (int64_t row = lo; row < hi; row++) {
        const float *gain = dora_gains(a, row, &at);
        float *y = a->y + row * a->ld_y;
        for (int64_t o = 0; gain && o < a->n; o += VF) {
            int n = vf_count(a->n, o);
            vf g = vf_load(gain + o, n), v = vf_load(y + o, n);
            if (a->bias) {
                vf bias = vf_load(a->bias + o, n);
                v = vf_fma(g, v, vf_fnma(g, bias, bias));
            } else {
                v = vf_mul(g, v);
            }
            vf_store(y + o, v, n);
        }
    }
}

/* Of columns [o, o + n): ROWS_BLOCK rows make a partial sum, which joins the total. */
static inline vf dora_slopes(const struct k_dora_dw *a, const struct k_lora_group *g, int64_t o,
                             int n)
{
    vf total = vf_zero(), bias = a->bias ? vf_load(a->bias + o, n) : vf_zero();
    for (int64_t lo = g->row_lo; lo < g->row_hi; lo += ROWS_BLOCK) {
        vf part = vf_zero();
        for (int64_t row = lo; row < rows_min(lo + ROWS_BLOCK, g->row_hi); row++) {
            vf x = vf_sub(vf_load(a->x + row * a->ld_x + o, n), bias);
            part = vf_fma(vf_load(a->dy + row * a->ld_dy + o, n), x, part);
        }
        total = vf_add(total, part);
    }
    return total;
}

static inline void dora_dw_runs(const struct k_dora_dw *a, int64_t lo, int64_t hi)
{
    int64_t end = rows_min(hi * ROWS_COLS, a->n);
    for (int64_t i = 0; i < a->n_group; i++) {
        const struct k_lora_group *g = &a->group[i];
        for (int64_t o = lo * ROWS_COLS; g->dmagnitude && o < end; o += VF) {
            int n = vf_count(end, o);
            vf norm = vf_load(g->norm + o, n), to = vf_load(g->dmagnitude + o, n);
            vf sum = vf_div(dora_slopes(a, g, o, n), norm);
            to = vf_select(vf_gt(norm, vf_zero()), vf_add(to, sum), to);
            vf_store(g->dmagnitude + o, to, n);
        }
    }
}

#endif
