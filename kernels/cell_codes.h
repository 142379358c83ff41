/* SPDX-License-Identifier: Apache-2.0
 *
 * K/V cells of codes (int8): how a head's numbers of a token become codes with one scale, and what
 * numbers these are. Defined here, once for all variants: a key's bits follow from its own numbers.
 *
 *   scale = max |x| / 127,  code = round(x (127 / max |x|)),  number = bf16(scale * code)
 *
 * So a cell of codes stands for a cell of bf16, and attention over it is attention over that. A key
 * that is nearly nothing is zeros; one with a number that is not finite has no number at all: its
 * scale is NaN. Codes lie in a cell as bf16 numbers do in theirs, then scales by slot.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_CELL_CODES_H
#define KERNELS_CELL_CODES_H

#include <math.h>

#include "kernels/kernels.h"

#ifdef __CUDACC__
#define CELL_FN static __host__ __device__ inline
#else
#define CELL_FN static inline
#endif

enum { CELL_CODE_MOST = 127 };

#define CELL_CODE_LEAST 0x1p-100f /* a key whose numbers are all smaller is zeros */

struct cell_scale {
    float scale; /* of codes; NaN: a number is not finite */
    float per;   /* what numbers are multiplied by before they are rounded */
};

/* most: the largest |x|; infinite where a number is not finite. */
CELL_FN struct cell_scale cell_scale_of(float most)
{
    struct cell_scale s = {0, 0};
    if (!(most < INFINITY)) {
        s.scale = NAN;
    } else if (most >= CELL_CODE_LEAST) {
        s.scale = most / CELL_CODE_MOST;
        s.per = CELL_CODE_MOST / most;
    }
    return s;
}

CELL_FN int8_t cell_code_of(float x, struct cell_scale s)
{
    return s.scale > 0 ? (int8_t)rintf(x * s.per) : 0;
}

/* Bytes from the start of a cell to its scales. */
CELL_FN size_t cell_scales_at(int32_t d_head)
{
    return (size_t)K_CELL * (size_t)d_head;
}

#endif
