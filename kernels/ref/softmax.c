/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and cross-entropy, in f64. The cross-entropy folds one chunk of the vocabulary into a
 * running (maximum, sum of exponentials relative to it); what it does with a chunk depends on the
 * chunk alone, so training and serving, which walk the same chunks, get the same bits.
 *
 * Logits of -infinity are entries that cannot be; NaN makes the sum NaN, and is never the best.
 */
#include <math.h>

#include "kernels/variants.h"

float k_ce_lse(const struct k_ce_state *s)
{
    return s->max + logf(s->sum);
}

static float row_max(const float *x, int64_t n)
{
    float max = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        max = x[j] > max ? x[j] : max;
    return max;
}

static double row_sum(const float *x, int64_t n, float max)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += exp((double)x[j] - max);
    return sum;
}

void softmax_ref(const void *args, const struct k_slice *s)
{
    const struct k_softmax *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = a->x + i * a->ld_x;
        float max = row_max(x, a->d);
        double sum = row_sum(x, a->d, max);
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = (float)(exp((double)x[j] - max) / sum);
    }
}

void log_softmax_ref(const void *args, const struct k_slice *s)
{
    const struct k_softmax *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = a->x + i * a->ld_x;
        float max = row_max(x, a->d);
        double log_sum = log(row_sum(x, a->d, max));
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = (float)((double)x[j] - max - log_sum);
    }
}

static void fold(struct k_ce_state *st, const float *x, int64_t n)
{
    float max = row_max(x, n);
    max = max > st->max ? max : st->max;
    float base = max == -INFINITY ? 0.0f : max; /* nothing possible so far: keep the sum at 0 */
    st->sum = (float)(st->sum * exp((double)st->max - base) + row_sum(x, n, base));
    st->max = max;
}

void ce_fwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_ce *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        struct k_ce_state *st = &a->state[i];
        const float *x = a->logits + i * a->ld;
        if (a->lo == 0)
            *st = (struct k_ce_state){-INFINITY, 0, 0, -INFINITY, -1};
        fold(st, x, a->n);
        for (int64_t j = 0; j < a->n; j++) {
            if (x[j] > st->best) {
                st->best = x[j];
                st->best_id = (int32_t)(a->lo + j);
            }
        }
        int64_t target = a->target[i];
        if (target >= a->lo && target < a->lo + a->n)
            st->target_logit = x[target - a->lo];
    }
}

void ce_take_ref(const void *args, const struct k_slice *s)
{
    const struct k_ce_top *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const int32_t *id = a->id + i * a->n_top;
        float *x = a->logits + i * a->ld, *logit = a->logit + i * a->n_top;
        for (int64_t k = 0; k < a->n_top; k++)
            logit[k] = id[k] >= 0 ? x[id[k]] : 0;
        for (int64_t k = 0; k < a->n_top && id[k] >= 0; k++)
            x[id[k]] = -INFINITY;
    }
}

void ce_put_ref(const void *args, const struct k_slice *s)
{
    const struct k_ce_top *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const int32_t *id = a->id + i * a->n_top;
        float *x = a->logits + i * a->ld, lse = k_ce_lse(&a->state[i]);
        double far = (double)k_ce_others(k_ce_lse(&a->others[i]), lse);
        double by = 1 - (double)a->rest[i] * exp(-far);
        for (int64_t j = 0; j < a->n && a->rest[i] > 0; j++)
            x[j] = (float)(x[j] * by);
        for (int64_t k = 0; k < a->n_top && id[k] >= 0; k++) {
            float z = a->logit[i * a->n_top + k], share = a->share[i * a->n_top + k];
            double p = exp((double)z - lse), t = a->cap > 0 ? (double)z / (double)a->cap : 0;
            x[id[k]] = (float)((p - share) * a->dloss[i] * (1 - t) * (1 + t));
        }
    }
}

void ce_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_ce *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        float *x = a->logits + i * a->ld, lse = k_ce_lse(&a->state[i]);
        for (int64_t j = 0; j < a->n; j++) {
            double p = exp((double)x[j] - lse), t = a->cap > 0 ? (double)x[j] / (double)a->cap : 0;
            if (a->target[i] < 0)
                x[j] = 0;
            else
                x[j] = (float)((p - (a->lo + j == a->target[i])) * a->dloss[i] * (1 - t) * (1 + t));
        }
    }
}
