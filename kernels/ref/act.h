/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate, for swiglu and for the product that has it folded in; what the delta rule makes rates
 * with.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_REF_ACT_H
#define KERNELS_REF_ACT_H

#include <math.h>

static inline double ref_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* log(1 + e^x) */
static inline double ref_softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static inline double ref_most(double x, double most)
{
    return x > most ? most : x;
}

/* Rounded before it meets what it gates. */
static inline float ref_silu(float x)
{
    return (float)(x * ref_sigmoid(x));
}

#endif
