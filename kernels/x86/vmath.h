/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, sigmoid, softplus, tanh and erf of a vector, to about an ulp or two. The polynomials are
 * minimax fits of the remainders named beside them. NaN gives NaN, infinities their limits, and a
 * result below the smallest normal is the rounded denormal.
 */
#ifndef KERNELS_X86_VMATH_H
#define KERNELS_X86_VMATH_H

#include "kernels/x86/vec.h"

static inline vf vf_exp(vf x)
{
    /* x = n log 2 + r; beyond the clamps the result is infinity or zero all the same */
    x = vf_min(vf_set(90.0f), vf_max(vf_set(-110.0f), x));
    vf n = vf_round(vf_mul(x, vf_set(1.44269504f)));
    vf r = vf_fnma(n, vf_set(0x1.62e4p-1f), x);
    r = vf_fnma(n, vf_set(0x1.7f7d1cp-20f), r);
    vf p = vf_set(1.395059749e-03f); /* (e^r - 1 - r) / r^2 */
    p = vf_fma(p, r, vf_set(8.368954062e-03f));
    p = vf_fma(p, r, vf_set(4.166620597e-02f));
    p = vf_fma(p, r, vf_set(1.666651815e-01f));
    p = vf_fma(p, r, vf_set(0.5f));
    p = vf_add(vf_fma(vf_mul(r, r), p, r), vf_set(1.0f));
    return vf_scale2(p, n);
}

static inline vf vf_neg(vf x)
{
    return vf_sub(vf_set(-0.0f), x);
}

/* 1 / (1 + e^-x) */
static inline vf vf_sigmoid(vf x)
{
    vf one = vf_set(1.0f);
    return vf_div(one, vf_add(one, vf_exp(vf_neg(x))));
}

/* log(1 + e^x) */
static inline vf vf_softplus(vf x)
{
    vf t = vf_exp(vf_sub(vf_zero(), vf_abs(x)));
    vf s = vf_div(t, vf_add(t, vf_set(2.0f))), r = vf_mul(s, s);
    vf p = vf_set(1.0f / 13); /* log(1 + t) = 2 artanh(s); its series, s <= 1/3 */
    p = vf_fma(p, r, vf_set(1.0f / 11));
    p = vf_fma(p, r, vf_set(1.0f / 9));
    p = vf_fma(p, r, vf_set(1.0f / 7));
    p = vf_fma(p, r, vf_set(1.0f / 5));
    p = vf_fma(p, r, vf_set(1.0f / 3));
    p = vf_fma(vf_mul(s, r), p, s);
    return vf_add(vf_max(vf_zero(), x), vf_add(p, p));
}

static inline vf vf_tanh(vf x)
{
    vf a = vf_abs(x), s = vf_mul(x, x), one = vf_set(1.0f), two = vf_set(2.0f);
    vf p = vf_set(-5.717025604e-03f); /* (tanh x / x - 1) / x^2 over s = x^2, below 0.625 */
    p = vf_fma(p, s, vf_set(2.065056935e-02f));
    p = vf_fma(p, s, vf_set(-5.374349281e-02f));
    p = vf_fma(p, s, vf_set(1.333149076e-01f));
    p = vf_fma(p, s, vf_set(-3.333328366e-01f));
    vf small = vf_fma(vf_mul(x, s), p, x);
    vf big = vf_sub(one, vf_div(two, vf_add(vf_exp(vf_add(a, a)), one)));
    return vf_select(vf_gt(vf_set(0.625f), a), small, vf_copysign(big, x));
}

static inline vf vf_erf(vf x)
{
    vf a = vf_abs(x), s = vf_mul(x, x);
    vf p = vf_set(7.889114931e-05f); /* erf x / x - 1 over s = x^2, below 1 */
    p = vf_fma(p, s, vf_set(-8.020839887e-04f));
    p = vf_fma(p, s, vf_set(5.189535208e-03f));
    p = vf_fma(p, s, vf_set(-2.685444430e-02f));
    p = vf_fma(p, s, vf_set(1.128360033e-01f));
    p = vf_fma(p, s, vf_set(-3.761262596e-01f));
    p = vf_fma(p, s, vf_set(1.283791661e-01f));
    vf small = vf_fma(x, p, x);
    vf t = vf_min(vf_set(4.0f), a);
    vf q = vf_set(1.717612213e-05f); /* -log(1 - erf t) / t, from 0.95 to 4 */
    q = vf_fma(q, t, vf_set(-3.819793928e-04f));
    q = vf_fma(q, t, vf_set(3.880846314e-03f));
    q = vf_fma(q, t, vf_set(-2.426006831e-02f));
    q = vf_fma(q, t, vf_set(1.068066210e-01f));
    q = vf_fma(q, t, vf_set(6.348123550e-01f));
    q = vf_fma(q, t, vf_set(1.128730536e+00f));
    vf big = vf_sub(vf_set(1.0f), vf_exp(vf_neg(vf_mul(t, q))));
    return vf_select(vf_gt(vf_set(1.0f), a), small, vf_copysign(big, x));
}

#endif
