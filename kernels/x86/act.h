/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the activations, for the width of kernels/x86/vec.h.
 */
#ifndef KERNELS_X86_ACT_H
#define KERNELS_X86_ACT_H

#include "kernels/kernels.h"
#include "kernels/x86/vmath.h"

/* Vectors whose steps run beside each other where each waits long for its own. */
enum { ACT_BESIDE = VF == 8 ? 2 : 1 };

static inline vf swiglu_of(vf gate, vf up)
{
    return vf_mul(vf_mul(gate, vf_sigmoid(gate)), up);
}

/* Of `vecs` vectors, each of n numbers. */
__attribute__((always_inline)) static inline void swiglu_put(const float *gate, const float *up,
                                                             float *y, int vecs, int n)
{
    vf v[ACT_BESIDE];
#pragma GCC unroll 2
    for (int t = 0; t < vecs; t++)
        v[t] = swiglu_of(vf_load(gate + t * VF, n), vf_load(up + t * VF, n));
#pragma GCC unroll 2
    for (int t = 0; t < vecs; t++)
        vf_store(y + t * VF, v[t], n);
}

static inline void swiglu_rows(const struct k_swiglu *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        float *y = a->y + i * a->ld_y;
        int64_t j = 0;
        for (; j + ACT_BESIDE * VF <= a->d; j += ACT_BESIDE * VF)
            swiglu_put(gate + j, up + j, y + j, ACT_BESIDE, VF);
        for (; j < a->d; j += VF)
            swiglu_put(gate + j, up + j, y + j, 1, vf_count(a->d, j));
    }
}

static inline void swiglu_bwd_rows(const struct k_swiglu_bwd *a, int64_t lo, int64_t hi)
{
    vf one = vf_set(1.0f);
    for (int64_t i = lo; i < hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        const float *dy = a->dy + i * a->ld_dy;
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf g = vf_load(gate + j, n), d = vf_load(dy + j, n), p = vf_sigmoid(g);
            vf silu = vf_mul(g, p), slope = vf_fma(silu, vf_sub(one, p), p);
            vf du = vf_mul(d, vf_load(up + j, n));
            vf_store(a->dgate + i * a->ld_dgate + j, vf_mul(du, slope), n);
            vf_store(a->dup + i * a->ld_dup + j, vf_mul(d, silu), n);
        }
    }
}

static inline void glu_rows(const struct k_swiglu *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf p = vf_sigmoid(vf_load(gate + j, n));
            vf_store(a->y + i * a->ld_y + j, vf_mul(p, vf_load(up + j, n)), n);
        }
    }
}

static inline void glu_bwd_rows(const struct k_swiglu_bwd *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        const float *dy = a->dy + i * a->ld_dy;
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf g = vf_load(gate + j, n), dup = vf_mul(vf_load(dy + j, n), vf_sigmoid(g));
            vf rest = vf_sigmoid(vf_neg(g)); /* 1 - sigmoid, which would cancel */
            vf dgate = vf_mul(vf_mul(dup, vf_load(up + j, n)), rest);
            vf_store(a->dgate + i * a->ld_dgate + j, dgate, n);
            vf_store(a->dup + i * a->ld_dup + j, dup, n);
        }
    }
}

/* The gate and up as swiglu_clamped takes them. NaN stays what it is. */
struct clamped {
    vf gate, up;
};

static inline struct clamped clamped_load(const struct k_swiglu_clamped *a, const float *gate,
                                          const float *up, int n)
{
    vf most = vf_set(a->limit);
    return (struct clamped){vf_min(most, vf_load(gate, n)),
                            vf_max(vf_neg(most), vf_min(most, vf_load(up, n)))};
}

static inline void swiglu_clamped_rows(const struct k_swiglu_clamped *a, int64_t lo, int64_t hi)
{
    vf one = vf_set(1.0f), alpha = vf_set(a->alpha);
    for (int64_t i = lo; i < hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            struct clamped x = clamped_load(a, gate + j, up + j, n);
            vf g = vf_mul(x.gate, vf_sigmoid(vf_mul(alpha, x.gate)));
            vf_store(a->y + i * a->ld_y + j, vf_mul(g, vf_add(x.up, one)), n);
        }
    }
}

static inline void swiglu_clamped_bwd_rows(const struct k_swiglu_clamped *a, int64_t lo, int64_t hi)
{
    vf one = vf_set(1.0f), alpha = vf_set(a->alpha), most = vf_set(a->limit), zero = vf_zero();
    for (int64_t i = lo; i < hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        const float *dy = a->dy + i * a->ld_dy;
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            struct clamped x = clamped_load(a, gate + j, up + j, n);
            vf d = vf_load(dy + j, n), p = vf_sigmoid(vf_mul(alpha, x.gate));
            vf slope = vf_fma(vf_mul(vf_mul(alpha, x.gate), p), vf_sub(one, p), p);
            vf dg = vf_mul(vf_mul(d, vf_add(x.up, one)), slope), du = vf_mul(d, vf_mul(x.gate, p));
            dg = vf_select(vf_gt(vf_load(gate + j, n), most), zero, dg);
            du = vf_select(vf_gt(vf_abs(vf_load(up + j, n)), most), zero, du);
            vf_store(a->dgate + i * a->ld_dgate + j, dg, n);
            vf_store(a->dup + i * a->ld_dup + j, du, n);
        }
    }
}

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static inline vf gelu_tanh_arg(vf x)
{
    vf c = vf_fma(vf_mul(x, x), vf_set(0.7978845608f * 0.044715f), vf_set(0.7978845608f));
    return vf_mul(x, c);
}

static inline vf gelu_of(vf x, bool is_tanh)
{
    vf t = is_tanh ? vf_tanh(gelu_tanh_arg(x)) : vf_erf(vf_mul(x, vf_set(0.7071067812f)));
    vf half = vf_mul(vf_set(0.5f), x);
    return vf_fma(half, t, half);
}

static inline vf gelu_slope_exact(vf x)
{
    vf half = vf_set(0.5f), t = vf_erf(vf_mul(x, vf_set(0.7071067812f)));
    vf density = vf_mul(vf_set(0.3989422804f), vf_exp(vf_mul(vf_mul(x, x), vf_set(-0.5f))));
    return vf_fma(x, density, vf_fma(half, t, half));
}

/* Past |x| of 16 the density is zero and must not meet the square of a large x. */
static inline vf gelu_slope_tanh(vf x)
{
    vf one = vf_set(1.0f), half = vf_set(0.5f), far = vf_set(16.0f);
    x = vf_min(far, vf_max(vf_neg(far), x));
    vf t = vf_tanh(gelu_tanh_arg(x));
    vf inner = vf_fma(vf_mul(x, x), vf_set(0.7978845608f * 3 * 0.044715f), vf_set(0.7978845608f));
    vf rise = vf_mul(vf_mul(half, x), vf_mul(vf_sub(one, t), vf_add(one, t)));
    return vf_fma(rise, inner, vf_fma(half, t, half));
}

static inline void softcap_rows(const struct k_softcap *a, int64_t lo, int64_t hi)
{
    vf cap = vf_set(a->cap), inv = vf_set(1 / a->cap);
    for (int64_t i = lo; i < hi; i++) {
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf t = vf_tanh(vf_mul(vf_load(a->x + i * a->ld_x + j, n), inv));
            vf_store(a->y + i * a->ld_y + j, vf_mul(cap, t), n);
        }
    }
}

static inline void softcap_bwd_rows(const struct k_softcap *a, int64_t lo, int64_t hi)
{
    vf inv = vf_set(1 / a->cap), one = vf_set(1.0f);
    for (int64_t i = lo; i < hi; i++) {
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf t = vf_mul(vf_load(a->x + i * a->ld_x + j, n), inv);
            vf slope = vf_mul(vf_sub(one, t), vf_add(one, t));
            vf_store(a->y + i * a->ld_y + j, vf_mul(vf_load(a->dy + i * a->ld_dy + j, n), slope),
                     n);
        }
    }
}

static inline void gelu_rows(const struct k_gelu *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf x = vf_load(a->x + i * a->ld_x + j, n);
            vf_store(a->y + i * a->ld_y + j, gelu_of(x, a->tanh), n);
        }
    }
}

static inline void gelu_bwd_rows(const struct k_gelu *a, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++) {
        for (int64_t j = 0; j < a->d; j += VF) {
            int n = vf_count(a->d, j);
            vf x = vf_load(a->x + i * a->ld_x + j, n), dy = vf_load(a->dy + i * a->ld_dy + j, n);
            vf slope = a->tanh ? gelu_slope_tanh(x) : gelu_slope_exact(x);
            vf_store(a->y + i * a->ld_y + j, vf_mul(dy, slope), n);
        }
    }
}

#endif
