/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows on several tracks, and what is cut off of a row. Sums are f64.
 */
#include <math.h>

#include "kernels/variants.h"

static float factor(const struct k_mix *a, int64_t row, int32_t i, int32_t j)
{
    return a->plus + (a->c ? a->c[row * a->ld_c + i * a->step_i + j * a->step_j] : 0);
}

void mix_ref(const void *args, const struct k_slice *s)
{
    const struct k_mix *a = args;
    for (int64_t r = s->lo; r < s->hi; r++) {
        for (int32_t i = 0; i < a->n; i++) {
            const float *base = a->base ? a->base + r * a->ld_base + i * a->d : NULL;
            float *y = a->y + r * a->ld_y + i * a->d;
            for (int64_t t = 0; t < a->d; t++)
                y[t] = base ? base[t] : 0;
            for (int32_t j = 0; j < a->k; j++) {
                const float *x = a->x + r * a->ld_x + j * a->d;
                float c = factor(a, r, i, j);
                for (int64_t t = 0; t < a->d; t++)
                    y[t] = fmaf(c, x[t], y[t]);
            }
        }
    }
}

static double dot(const float *x, const float *y, int64_t d)
{
    double sum = 0;
    for (int64_t t = 0; t < d; t++)
        sum += (double)x[t] * (double)y[t];
    return sum;
}

void mix_dot_ref(const void *args, const struct k_slice *s)
{
    const struct k_mix_dot *a = args;
    for (int64_t r = s->lo; r < s->hi; r++)
        for (int32_t i = 0; i < a->n; i++)
            for (int32_t j = 0; j < a->k; j++)
                a->y[r * a->ld_y + i * a->k + j] =
                    (float)dot(a->a + r * a->ld_a + i * a->d, a->b + r * a->ld_b + j * a->d, a->d);
}

/* ---- as large as others ---------------------------------------------------------------------- */

static double rms(const float *x, int64_t d)
{
    return sqrt(dot(x, x, d) / (double)d);
}

void match_ref(const void *args, const struct k_slice *s)
{
    const struct k_match *a = args;
    for (int64_t r = s->lo; r < s->hi && a->d; r++) {
        const float *x = a->x + r * a->ld_x;
        double size = rms(x, a->d), like = rms(a->like + r * a->ld_like, a->d);
        double f = like / (size > (double)a->least ? size : (double)a->least);
        for (int64_t t = 0; t < a->d; t++)
            a->y[r * a->ld_y + t] = (float)(f * (double)x[t]);
    }
}

/* With p = dy . x, of rows of d numbers: dlike = p like / (size rms(like) d), and dx = dy f - p f x
 * / (size^2 d), whose last part is missing where the size is `least`. */
void match_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_match *a = args;
    for (int64_t r = s->lo; r < s->hi && a->d; r++) {
        const float *x = a->x + r * a->ld_x, *other = a->like + r * a->ld_like;
        const float *dy = a->dy + r * a->ld_dy;
        double size = rms(x, a->d), like = rms(other, a->d), p = dot(dy, x, a->d);
        bool is_least = size <= (double)a->least;
        size = is_least ? (double)a->least : size;
        double back = is_least ? 0 : p / (size * size * (double)a->d);
        double of_like = like > 0 ? p / (size * like * (double)a->d) : 0;
        for (int64_t t = 0; a->dx && t < a->d; t++)
            a->dx[r * a->ld_dx + t] = (float)(like / size * ((double)dy[t] - back * (double)x[t]));
        for (int64_t t = 0; a->dlike && t < a->d; t++)
            a->dlike[r * a->ld_dlike + t] = (float)(of_like * (double)other[t]);
    }
}

/* ---- what is cut off ------------------------------------------------------------------------- */

struct spread {
    double mean, std;
};

static struct spread spread_of(const float *x, int64_t d)
{
    double sum = 0, sq = 0;
    for (int64_t t = 0; t < d; t++)
        sum += (double)x[t];
    double mean = sum / (double)d;
    for (int64_t t = 0; t < d; t++)
        sq += ((double)x[t] - mean) * ((double)x[t] - mean);
    return (struct spread){mean, sqrt(sq / (double)d)};
}

void cutoff_ref(const void *args, const struct k_slice *s)
{
    const struct k_cutoff *a = args;
    for (int64_t r = s->lo; r < s->hi && a->d; r++) {
        const float *x = a->x + r * a->ld_x;
        struct spread p = spread_of(x, a->d);
        double cut = p.mean + p.std * (double)a->times;
        for (int64_t t = 0; t < a->d; t++) {
            double y = (double)x[t] - cut;
            a->y[r * a->ld_y + t] = y > 0 ? (float)y : 0;
        }
    }
}

/* With g = dy where something is left, and G its sum: dx = g - G (1 + times (x - mean) / std) / d.
 */
void cutoff_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_cutoff *a = args;
    for (int64_t r = s->lo; r < s->hi && a->d; r++) {
        const float *x = a->x + r * a->ld_x, *dy = a->dy + r * a->ld_dy;
        struct spread p = spread_of(x, a->d);
        double cut = p.mean + p.std * (double)a->times, all = 0;
        for (int64_t t = 0; t < a->d; t++)
            all += (double)x[t] > cut ? (double)dy[t] : 0;
        double slope = p.std > 0 ? (double)a->times / p.std : 0;
        for (int64_t t = 0; t < a->d; t++) {
            double g = (double)x[t] > cut ? (double)dy[t] : 0;
            g -= all / (double)a->d * (1 + slope * ((double)x[t] - p.mean));
            a->y[r * a->ld_y + t] = (float)g;
        }
    }
}
