/* SPDX-License-Identifier: Apache-2.0
 *
 * The activations, in f64 but for the rounding that fusion must keep: silu(gate), and
 * sigmoid(gate), round to f32 before they meet up.
 */
#include <math.h>

#include "kernels/ref/act.h"
#include "kernels/variants.h"

void swiglu_ref(const void *args, const struct k_slice *s)
{
    const struct k_swiglu *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = ref_silu(gate[j]) * up[j];
    }
}

/* dup = dy silu(g); dgate = dy up silu'(g), silu' = p + g p (1 - p), p = ref_sigmoid(g) */
void swiglu_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_swiglu_bwd *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        const float *dy = a->dy + i * a->ld_dy;
        for (int64_t j = 0; j < a->d; j++) {
            double g = gate[j], p = ref_sigmoid(g), u = up[j], d = dy[j];
            a->dgate[i * a->ld_dgate + j] = (float)(d * u * (p + g * p * (1 - p)));
            a->dup[i * a->ld_dup + j] = (float)(d * g * p);
        }
    }
}

void glu_ref(const void *args, const struct k_slice *s)
{
    const struct k_swiglu *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = (float)ref_sigmoid(gate[j]) * up[j];
    }
}

/* dup = dy p; dgate = dy up p (1 - p), p = ref_sigmoid(g) */
void glu_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_swiglu_bwd *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        const float *dy = a->dy + i * a->ld_dy;
        for (int64_t j = 0; j < a->d; j++) {
            double p = ref_sigmoid(gate[j]), d = dy[j];
            a->dgate[i * a->ld_dgate + j] = (float)(d * up[j] * p * ref_sigmoid(-gate[j]));
            a->dup[i * a->ld_dup + j] = (float)(d * p);
        }
    }
}

void row_gate_ref(const void *args, const struct k_slice *s)
{
    const struct k_row_gate *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        float p = (float)ref_sigmoid(a->gate[i * a->ld_gate]);
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = p * a->x[i * a->ld_x + j];
    }
}

/* dx = dy p; dgate = (dy . x) p (1 - p), p = ref_sigmoid(g) */
void row_gate_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_row_gate_bwd *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *x = a->x + i * a->ld_x, *dy = a->dy + i * a->ld_dy;
        double g = a->gate[i * a->ld_gate], p = ref_sigmoid(g), dot = 0;
        for (int64_t j = 0; j < a->d; j++)
            dot += (double)dy[j] * x[j];
        if (a->dgate)
            a->dgate[i * a->ld_dgate] = (float)(dot * p * ref_sigmoid(-g));
        for (int64_t j = 0; a->dx && j < a->d; j++)
            a->dx[i * a->ld_dx + j] = (float)p * dy[j];
    }
}

void swiglu_clamped_ref(const void *args, const struct k_slice *s)
{
    const struct k_swiglu_clamped *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        for (int64_t j = 0; j < a->d; j++) {
            double g = ref_most(gate[j], a->limit), u = ref_most(up[j], a->limit);
            u = u < -(double)a->limit ? -(double)a->limit : u;
            a->y[i * a->ld_y + j] = (float)(g * ref_sigmoid((double)a->alpha * g) * (u + 1));
        }
    }
}

/* With p = sigmoid(alpha g): dg = dy (u + 1) (p + alpha g p (1 - p)), du = dy g p */
void swiglu_clamped_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_swiglu_clamped *a = args;
    double limit = a->limit, alpha = a->alpha;
    for (int64_t i = s->lo; i < s->hi; i++) {
        const float *gate = a->gate + i * a->ld_gate, *up = a->up + i * a->ld_up;
        const float *dy = a->dy + i * a->ld_dy;
        for (int64_t j = 0; j < a->d; j++) {
            double g = ref_most(gate[j], limit), u = ref_most(up[j], limit), d = dy[j];
            u = u < -limit ? -limit : u;
            double p = ref_sigmoid(alpha * g), slope = p + alpha * g * p * (1 - p);
            a->dgate[i * a->ld_dgate + j] =
                (double)gate[j] > limit ? 0 : (float)(d * (u + 1) * slope);
            a->dup[i * a->ld_dup + j] = fabs((double)up[j]) > limit ? 0 : (float)(d * g * p);
        }
    }
}

void softcap_ref(const void *args, const struct k_slice *s)
{
    const struct k_softcap *a = args;
    for (int64_t i = s->lo; i < s->hi; i++)
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] =
                (float)(a->cap * tanh((double)a->x[i * a->ld_x + j] / (double)a->cap));
}

void softcap_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_softcap *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t j = 0; j < a->d; j++) {
            double t = (double)a->x[i * a->ld_x + j] / (double)a->cap;
            a->y[i * a->ld_y + j] = (float)(a->dy[i * a->ld_dy + j] * (1 - t) * (1 + t));
        }
    }
}

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static double tanh_arg(double x)
{
    return 0.7978845608028654 * (x + 0.044715 * x * x * x);
}

void gelu_ref(const void *args, const struct k_slice *s)
{
    const struct k_gelu *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t j = 0; j < a->d; j++) {
            double x = a->x[i * a->ld_x + j];
            double t = a->tanh ? tanh(tanh_arg(x)) : erf(x * 0.7071067811865476);
            a->y[i * a->ld_y + j] = (float)(0.5 * x * (1 + t));
        }
    }
}

static double gelu_slope(double x, bool is_tanh)
{
    if (!is_tanh) /* the normal distribution, and x times its density */
        return 0.5 * (1 + erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * exp(-x * x / 2);
    double t = tanh(tanh_arg(x)), inner = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t) * (1 + t) * inner;
}

void gelu_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_gelu *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t j = 0; j < a->d; j++) {
            double slope = gelu_slope(a->x[i * a->ld_x + j], a->tanh);
            a->y[i * a->ld_y + j] = (float)(a->dy[i * a->ld_dy + j] * slope);
        }
    }
}
