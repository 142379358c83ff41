/* SPDX-License-Identifier: Apache-2.0
 *
 * An f32 in two halves of 16 bits, as bits: `high`, the bf16 that it rounds to, which is what
 * products read of a trained weight, and `low`, its own lower half. So a weight that is trained
 * costs no more than an f32, and what is packed is always its rounded value.
 *
 * The halves tell the number again, since whether it was rounded up is seen in its lower half; but
 * of the two numbers that lie in the middle between a bf16 with an even last bit and its
 * neighbours both would have the same halves. The one that is rounded up to it, halves_fit moves by
 * a unit in the last place of f32, away from zero, which changes neither its high half nor anything
 * else: that is part of what storing a trained value means, in every variant. One number in 131,072
 * is moved. A NaN stays one.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_HALVES_H
#define KERNELS_HALVES_H

#include <stdint.h>

#ifdef __CUDACC__
#define HALVES static __host__ __device__ inline
#else
#define HALVES static inline
#endif

enum {
    HALVES_MIDDLE = 0x8000,
    HALVES_TIE = 0x1ffff, /* of these bits: */
    HALVES_TIE_UP = 0x18000
};

/* The number that is stored. */
HALVES uint32_t halves_fit(uint32_t u)
{
    return (u & HALVES_TIE) == HALVES_TIE_UP ? u + 1 : u;
}

/* high is the bf16 of a number that fits, low its lower half. */
HALVES uint32_t halves_join(uint32_t high, uint32_t low)
{
    return (high << 16 | low) - (low > HALVES_MIDDLE ? 0x10000u : 0u);
}

#endif
