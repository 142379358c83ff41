/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW's moments in 8 bits: blocks of K_MOMENT numbers that stand one behind the other share a
 * power of two, 2^E, the largest that is not above the largest of them; each is a small float
 * beside it.
 *
 *   first moment    a sign, 4 bits of exponent, 3 of fraction: 2^(E - 14) to 2^E * 1.875
 *   second moment   5 bits of exponent, 3 of fraction: 2^(E - 30) to 2^E * 1.875
 *
 * Below the smallest both go on evenly, and a second moment that is not zero stays so: what it
 * divides is no larger than it was. What is cut off is rounded by a draw of the number's place and
 * the step: up as often as it was near to it, since a moment moves by less in a step than codes are
 * apart, and would stay where it was if it went to the nearest. A number that a code stands for is
 * its own code whatever is drawn, so codes made of what codes stand for are the same.
 *
 * Powers of two make all of it exact: an f32's bits, moved to where its exponent is the code's, are
 * the code and what is cut off.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_MOMENTS_H
#define KERNELS_MOMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define MOMENTS static __host__ __device__ inline
#else
#define MOMENTS static inline
#endif

enum {
    MOMENT_CUT = 20,    /* bits of an f32 that a code has not */
    MOMENT_POWER = 253, /* the largest exponent of an f32 that a block has */
    MOMENT_FIRST = 112, /* from the exponent of a block's largest, 15 in codes, to 127 in f32 */
    MOMENT_SECOND = 96, /* and from 31 */
    MOMENT_TOP = 0x7f,  /* the largest magnitude of a first moment's code */
    MOMENT_SIGN = 0x80
};

MOMENTS uint32_t moment_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

MOMENTS float moment_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* A block's byte, of the largest magnitude in it. */
MOMENTS uint8_t moment_power(float largest)
{
    uint32_t e = moment_bits(largest) >> 23 & 0xff, most = MOMENT_POWER;
    return (uint8_t)(e < most ? e : most);
}

/* Draws of a step, for the rounding of either moment. */
MOMENTS uint32_t moment_seed(int64_t step, bool is_second)
{
    return (uint32_t)step * 0x9e3779b9u + (is_second ? 0x7f4a7c15u : 0);
}

MOMENTS uint32_t moment_draw(uint32_t seed, int64_t at)
{
    uint32_t h = ((uint32_t)at ^ (uint32_t)(at >> 32) * 0x27d4eb2fu) + seed;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return (h ^ h >> 16) >> (32 - MOMENT_CUT);
}

MOMENTS int moment_shift(bool is_second)
{
    return is_second ? (int)MOMENT_SECOND : (int)MOMENT_FIRST;
}

/* The code of x in a block, by a draw below 2^MOMENT_CUT. */
MOMENTS uint8_t moment_code(float x, uint8_t power, bool is_second, uint32_t draw)
{
    float unit = moment_float((uint32_t)(254 - power) << 23);
    float down = moment_float((uint32_t)(127 - moment_shift(is_second)) << 23);
    uint32_t u = moment_bits(x * unit * down), size = ((u & 0x7fffffffu) + draw) >> MOMENT_CUT;
    uint32_t top = is_second ? 0xffu : (uint32_t)MOMENT_TOP;
    if (power == 0) /* below f32's normal numbers there is nothing */
        return 0;
    size = size < top ? size : top;
    if (is_second)
        return (uint8_t)(size | (uint32_t)(size == 0 && x > 0));
    return (uint8_t)(size | (u >> 31) * MOMENT_SIGN);
}

/* What a code stands for. */
MOMENTS float moment_value(uint8_t code, uint8_t power, bool is_second)
{
    uint32_t size = is_second ? code : code & (uint32_t)MOMENT_TOP;
    uint32_t sign = is_second ? 0 : (code & (uint32_t)MOMENT_SIGN) << 24;
    float up = moment_float((uint32_t)(127 + moment_shift(is_second)) << 23);
    return moment_float(size << MOMENT_CUT | sign) * up * moment_float((uint32_t)power << 23);
}

#endif
