/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of softmax and cross-entropy, for the width of kernels/x86/vec.h.
 */
#ifndef KERNELS_X86_SOFTMAX_H
#define KERNELS_X86_SOFTMAX_H

#include <math.h>

#include "kernels/kernels.h"
#include "kernels/x86/vmath.h"

/* The numbers of a row where it has any, -infinity past its end. */
static inline vf softmax_load(const float *x, int n)
{
    vf v = vf_load(x, n);
    return n == VF ? v : vf_select(vm_first(n), v, vf_set(-INFINITY));
}

static inline float softmax_max(const float *x, int64_t d) /* ignores NaN */
{
    vf m0 = vf_set(-INFINITY), m1 = m0, m2 = m0, m3 = m0;
    int64_t j = 0;
    for (; j + 4 * VF <= d; j += 4 * VF) {
        m0 = vf_max(vf_load(x + j, VF), m0);
        m1 = vf_max(vf_load(x + j + VF, VF), m1);
        m2 = vf_max(vf_load(x + j + 2 * VF, VF), m2);
        m3 = vf_max(vf_load(x + j + 3 * VF, VF), m3);
    }
    for (; j < d; j += VF)
        m0 = vf_max(softmax_load(x + j, vf_count(d, j)), m0);
    return vf_max_lane(vf_max(vf_max(m0, m1), vf_max(m2, m3)));
}

/* The sum of exp(x - base); y, where given, keeps the exponentials and may be x. */
static inline float softmax_sum(const float *x, float *y, int64_t d, float base)
{
    struct vf_sums s = {{vf_zero(), vf_zero(), vf_zero(), vf_zero()}};
    vf b = vf_set(base);
    int64_t j = 0;
    for (; j + 4 * VF <= d; j += 4 * VF) {
#pragma GCC unroll 4
        for (int t = 0; t < 4; t++) {
            vf e = vf_exp(vf_sub(vf_load(x + j + t * VF, VF), b));
            s.v[t] = vf_add(s.v[t], e);
            if (y)
                vf_store(y + j + t * VF, e, VF);
        }
    }
    for (; j < d; j += VF) {
        int n = vf_count(d, j);
        vf e = vf_exp(vf_sub(softmax_load(x + j, n), b));
        s.v[0] = vf_add(s.v[0], e);
        if (y)
            vf_store(y + j, e, n);
    }
    return vf_sums_total(&s);
}

static inline void softmax_rows(const struct k_softmax *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        const float *x = a->x + i * a->ld_x;
        float *y = a->y + i * a->ld_y;
        vf inv = vf_set(1.0f / softmax_sum(x, y, a->d, softmax_max(x, a->d)));
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf_store(y + j, vf_mul(vf_load(y + j, n), inv), n);
        }
    }
}

static inline void log_softmax_rows(const struct k_softmax *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        const float *x = a->x + i * a->ld_x;
        float max = softmax_max(x, a->d), log_sum = logf(softmax_sum(x, NULL, a->d, max));
        vf m = vf_set(max), l = vf_set(log_sum);
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf_store(a->y + i * a->ld_y + j, vf_sub(vf_sub(vf_load(x + j, n), m), l), n);
        }
    }
}

/* ---- cross-entropy ---- */

/* The lowest place of `value` in x, which has it. */
static inline int64_t ce_find(const float *x, int64_t n, float value)
{
    vf v = vf_set(value);
    for (int64_t j = 0; j < n; j += VF) {
        uint32_t hit = vm_bits(vf_ge(softmax_load(x + j, vf_count(n, j)), v));
        if (hit)
            return j + __builtin_ctz(hit);
    }
    return 0;
}

static inline void ce_fwd_rows(const struct k_ce *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        struct k_ce_state *st = &a->state[i];
        const float *x = a->logits + i * a->ld;
        if (a->lo == 0)
            *st = (struct k_ce_state){-INFINITY, 0, 0, -INFINITY, -1};
        float here = softmax_max(x, a->n), max = here > st->max ? here : st->max;
        float base = max == -INFINITY ? 0.0f : max; /* nothing possible so far: the sum stays 0 */
        st->sum = st->sum * expf(st->max - base) + softmax_sum(x, NULL, a->n, base);
        st->max = max;
        if (here > st->best) {
            st->best = here;
            st->best_id = (int32_t)(a->lo + ce_find(x, a->n, here));
        }
        int64_t target = a->target[i];
        if (target >= a->lo && target < a->lo + a->n)
            st->target_logit = x[target - a->lo];
    }
}

/* The slope of softcap where it gave x. */
static inline vf ce_slope(vf x, float inv_cap)
{
    vf one = vf_set(1.0f), t = vf_mul(x, vf_set(inv_cap));
    return vf_mul(vf_sub(one, t), vf_add(one, t));
}

static inline void ce_bwd_rows(const struct k_ce *a, int64_t lo, int64_t hi)
{
    float inv_cap = a->cap > 0 ? 1 / a->cap : 0;
    for (int64_t i = lo; i < hi; i++) {
        float *x = a->logits + i * a->ld;
        int64_t target = a->target[i];
        vf lse = vf_set(k_ce_lse(&a->state[i])), dloss = vf_set(target < 0 ? 0.0f : a->dloss[i]);
        float hit = 0; /* the target's, before it is written over */
        bool is_here = target >= a->lo && target < a->lo + a->n;
        if (is_here)
            hit = x[target - a->lo];
        for (int64_t j = 0; j < a->n; j += VF) {
            int n = vf_count(a->n, j);
            vf v = vf_load(x + j, n);
            vf p = target < 0 ? vf_zero() : vf_exp(vf_sub(v, lse));
            p = vf_mul(p, dloss);
            vf_store(x + j, inv_cap > 0 ? vf_mul(p, ce_slope(v, inv_cap)) : p, n);
        }
        if (is_here) {
            float t = hit * inv_cap, p = (expf(hit - k_ce_lse(&a->state[i])) - 1.0f) * a->dloss[i];
            x[target - a->lo] = inv_cap > 0 ? p * ((1 - t) * (1 + t)) : p;
        }
    }
}

static inline void ce_put_rows(const struct k_ce_top *a, int64_t lo, int64_t hi)
{
    float inv_cap = a->cap > 0 ? 1 / a->cap : 0;
    for (int64_t i = lo; i < hi; i++) {
        const int32_t *id = a->id + i * a->n_top;
        float *x = a->logits + i * a->ld, lse = k_ce_lse(&a->state[i]), rest = a->rest[i];
        if (rest > 0) {
            float far = k_ce_others(k_ce_lse(&a->others[i]), lse);
            vf by = vf_set(1.0f - rest * expf(-far));
            for (int64_t j = 0; j < a->n; j += VF) {
                int n = vf_count(a->n, j);
                vf_store(x + j, vf_mul(vf_load(x + j, n), by), n);
            }
        }
        for (int64_t k = 0; k < a->n_top && id[k] >= 0; k++) { /* as ce_bwd's target */
            float z = a->logit[i * a->n_top + k], t = z * inv_cap;
            float p = (expf(z - lse) - a->share[i * a->n_top + k]) * a->dloss[i];
            x[id[k]] = inv_cap > 0 ? p * ((1 - t) * (1 + t)) : p;
        }
    }
}

#endif
