/* SPDX-License-Identifier: Apache-2.0
 *
 * One block of packed rows against one panel of a packed weight (or, for few rows, several panels):
 * the call that forward, input gradient and weight gradient are made of. The layouts are those of
 * kernels/linear.h; where they stand in memory, and when a sum begins and ends, is the caller's.
 *
 * Thread: any.
 */
#ifndef KERNELS_X86_BLOCK_AVX512_H
#define KERNELS_X86_BLOCK_AVX512_H

#include "kernels/x86/tile_avx512.h"

struct block {
    int64_t h, np;            /* rows; panels: at most block_panels(h) */
    const char *rows, *panel; /* panel: 64-aligned */
    int64_t stride, steps;    /* bytes from panel to panel; steps of inputs */
    const float *from;        /* [np][h][32] sums so far; NULL: zero */
    float *to;                /* where sums go that are not yet complete; NULL: out */
    struct tile_out out;      /* of the first panel */
    struct tile_ahead ahead;  /* looked at when np is 1 */
    int64_t ahead_n;          /* 0: one run; else runs, each over an equal part of the steps, */
    int64_t ahead_stride;     /* this many bytes from one to the next */
};

/* Panels that h rows should take at once when there are enough. */
static inline int64_t block_panels(int64_t h)
{
    return h == 1 ? 4 : h <= 3 ? 2 : 1;
}

void block_f32_avx512(const struct block *b);
void block_bf16_avx512(const struct block *b);

/* The same from codes, over all inputs: from and to are not used. A group's sums are taken alone
 * and join `total` by a fused multiply-add with their scales. Looking codes up costs next to
 * nothing beside the dot products of seven rows or more, so each block of rows does it again. */
struct block_int8 {
    struct block b;       /* panel: codes */
    const float *scale;   /* of the first panel, [group][32] */
    int64_t scale_stride; /* floats from panel to panel */
    float *total;         /* room for [np][h][32], 64-aligned */
};

void block_int8_avx512(const struct block_int8 *b);

#endif
