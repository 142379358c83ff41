/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate, for swiglu and for the product that has it folded in.
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

/* Rounded before it meets what it gates. */
static inline float ref_silu(float x)
{
    return (float)(x * ref_sigmoid(x));
}

#endif
