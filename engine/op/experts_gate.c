/* SPDX-License-Identifier: Apache-2.0
 *
 * What experts make of their gates' halves: SwiGLU, as it is or clamped, or GELU in its place,
 * which is two kernels: rows beside those of large products.
 */
#include "engine/op/experts.h"

static struct k_swiglu_clamped clamped_of(const struct experts_run *r)
{
    int64_t d = r->a->gate->n;
    return (struct k_swiglu_clamped){.gate = r->k.gate,
                                     .up = r->k.up,
                                     .ld_gate = 2 * d,
                                     .ld_up = 2 * d,
                                     .ld_dy = d,
                                     .ld_y = d,
                                     .ld_dgate = 2 * d,
                                     .ld_dup = 2 * d,
                                     .m = r->m * r->a->top,
                                     .d = d,
                                     .limit = r->a->limit,
                                     .alpha = r->a->alpha};
}

/* y = gelu(gate); with dy [d] the gradient of that. */
static void gelu_gate(const struct experts_run *r, const float *dy, float *y, int64_t ld_y)
{
    int64_t d = r->a->gate->n;
    struct k_gelu a = {.x = r->k.gate,
                       .dy = dy,
                       .y = y,
                       .ld_x = 2 * d,
                       .ld_dy = d,
                       .ld_y = ld_y,
                       .m = r->m * r->a->top,
                       .d = d,
                       .tanh = r->a->gelu == EXPERTS_GELU_TANH};
    LAUNCH_ROUTED(r, dy ? K_gelu_bwd : K_gelu, a);
}

/* y = x * of; x may be y. */
static void times(const struct experts_run *r, const float *x, int64_t ld_x, const float *of,
                  int64_t ld_of, float *y)
{
    struct k_binary a = {.a = x,
                         .b = of,
                         .y = y,
                         .ld_a = ld_x,
                         .ld_b = ld_of,
                         .ld_y = ld_x,
                         .m = r->m * r->a->top,
                         .d = r->a->gate->n};
    LAUNCH_ROUTED(r, K_mul, a);
}

void experts_gate(const struct experts_run *r, float *h)
{
    int64_t d = r->a->gate->n;
    if (r->a->gelu) {
        gelu_gate(r, NULL, h, d);
        times(r, h, d, r->k.up, 2 * d, h);
        return;
    }
    if (r->a->limit > 0) {
        struct k_swiglu_clamped c = clamped_of(r);
        c.y = h;
        LAUNCH_ROUTED(r, K_swiglu_clamped, c);
        return;
    }
    struct k_swiglu a = {.gate = r->k.gate,
                         .up = r->k.up,
                         .y = h,
                         .ld_gate = 2 * d,
                         .ld_up = 2 * d,
                         .ld_y = d,
                         .m = r->m * r->a->top,
                         .d = d};
    LAUNCH_ROUTED(r, K_swiglu, a);
}

static void geglu_bwd(const struct experts_run *r, const float *dh, float *dgate)
{
    int64_t d = r->a->gate->n;
    float *dup = dgate + d;
    gelu_gate(r, NULL, dup, 2 * d);
    times(r, dup, 2 * d, dh, d, dup);
    gelu_gate(r, dh, dgate, 2 * d);
    times(r, dgate, 2 * d, r->k.up, 2 * d, dgate);
}

void experts_gate_bwd(const struct experts_run *r, const float *dh, float *dgate)
{
    int64_t d = r->a->gate->n;
    if (r->a->gelu) {
        geglu_bwd(r, dh, dgate);
        return;
    }
    if (r->a->limit > 0) {
        struct k_swiglu_clamped c = clamped_of(r);
        c.dy = dh;
        c.dgate = dgate;
        c.dup = dgate + d;
        LAUNCH_ROUTED(r, K_swiglu_clamped_bwd, c);
        return;
    }
    struct k_swiglu_bwd a = {.gate = r->k.gate,
                             .up = r->k.up,
                             .dy = dh,
                             .dgate = dgate,
                             .dup = dgate + d,
                             .ld_gate = 2 * d,
                             .ld_up = 2 * d,
                             .ld_dy = d,
                             .ld_dgate = 2 * d,
                             .ld_dup = 2 * d,
                             .m = r->m * r->a->top,
                             .d = d};
    LAUNCH_ROUTED(r, K_swiglu_bwd, a);
}
