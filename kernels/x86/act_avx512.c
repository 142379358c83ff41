/* SPDX-License-Identifier: Apache-2.0
 *
 * The activations at this level: kernels/x86/act.h has the bodies.
 */
#include "kernels/variants.h"
#include "kernels/x86/act.h"

void swiglu_avx512(const void *args, const struct k_slice *s)
{
    swiglu_rows(args, s->lo, s->hi);
}

void swiglu_bwd_avx512(const void *args, const struct k_slice *s)
{
    swiglu_bwd_rows(args, s->lo, s->hi);
}

void glu_avx512(const void *args, const struct k_slice *s)
{
    glu_rows(args, s->lo, s->hi);
}

void glu_bwd_avx512(const void *args, const struct k_slice *s)
{
    glu_bwd_rows(args, s->lo, s->hi);
}

void swiglu_clamped_avx512(const void *args, const struct k_slice *s)
{
    swiglu_clamped_rows(args, s->lo, s->hi);
}

void swiglu_clamped_bwd_avx512(const void *args, const struct k_slice *s)
{
    swiglu_clamped_bwd_rows(args, s->lo, s->hi);
}

void gelu_avx512(const void *args, const struct k_slice *s)
{
    gelu_rows(args, s->lo, s->hi);
}

void gelu_bwd_avx512(const void *args, const struct k_slice *s)
{
    gelu_bwd_rows(args, s->lo, s->hi);
}

void softcap_avx512(const void *args, const struct k_slice *s)
{
    softcap_rows(args, s->lo, s->hi);
}

void softcap_bwd_avx512(const void *args, const struct k_slice *s)
{
    softcap_bwd_rows(args, s->lo, s->hi);
}
