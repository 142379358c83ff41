/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants of Philox 4x32-10, the counter-based generator that engine/base/rng.c defines:
 * kernels draw the same numbers, so that a mask can be made anywhere from its counter. One round:
 * (c0, c1, c2, c3) becomes (hi(B c2) ^ c1 ^ k0, lo(B c2), hi(A c0) ^ c3 ^ k1, lo(A c0)), and the
 * keys step by two odd constants.
 *
 * Thread: any; there is no state.
 */
#ifndef KERNELS_PHILOX_H
#define KERNELS_PHILOX_H

#include <stdint.h>

#define PHILOX_A  0xd2511f53u
#define PHILOX_B  0xcd9e8d57u
#define PHILOX_K0 0x9e3779b9u
#define PHILOX_K1 0xbb67ae85u

enum { PHILOX_ROUNDS = 10 };

/* What a 32-bit number must reach for its element to be kept. */
static inline uint32_t philox_threshold(float p)
{
    return (uint32_t)((double)p * 0x1p32);
}

#endif
