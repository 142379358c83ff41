/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16 and f16 as bits, one number at a time: the definition that the vector conversions must
 * equal. To nearest even; overflow goes to infinity; a NaN stays a NaN (quiet, its sign kept).
 * bf16 of a denormal is the rounded denormal: nothing is flushed to zero.
 *
 * Thread: any.
 */
#ifndef KERNELS_FLOAT16_H
#define KERNELS_FLOAT16_H

#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

static inline uint32_t f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float bf16_to_f32(k_bf16 h)
{
    return f32_from_bits((uint32_t)h << 16);
}

static inline k_bf16 bf16_from_f32(float x)
{
    uint32_t u = f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (k_bf16)(u >> 16 | 0x40u);
    return (k_bf16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

static inline float f16_to_f32(k_f16 h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = h >> 10 & 0x1fu, frac = h & 0x3ffu;
    if (exp == 31) /* infinity, NaN (made quiet, as the hardware does) */
        return f32_from_bits(sign | 0x7f800000u | frac << 13 | (frac ? 0x400000u : 0u));
    if (exp == 0) { /* zero, denormal: frac * 2^-24 is exact in f32 */
        float mag = (float)frac * 0x1p-24f;
        return f32_from_bits(sign | f32_bits(mag));
    }
    return f32_from_bits(sign | (exp + 112u) << 23 | frac << 13);
}

static inline k_f16 f16_from_f32(float x)
{
    uint32_t u = f32_bits(x), mag = u & 0x7fffffffu;
    uint32_t sign = u >> 16 & 0x8000u;
    if (mag > 0x7f800000u)
        return (k_f16)(sign | 0x7e00u | (mag >> 13 & 0x3ffu));
    if (mag >= 0x477ff000u) /* 65520 and above round to infinity */
        return (k_f16)(sign | 0x7c00u);
    if (mag < 0x38800000u) { /* below 2^-14: adding 0.5 leaves units of 2^-24, rounded to even */
        float shifted = f32_from_bits(mag) + 0.5f;
        return (k_f16)(sign | (f32_bits(shifted) - 0x3f000000u));
    }
    return (k_f16)(sign | (mag - 0x38000000u + 0xfffu + (mag >> 13 & 1u)) >> 13);
}

#endif
