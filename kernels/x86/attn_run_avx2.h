/* SPDX-License-Identifier: Apache-2.0
 *
 * A row's heads against a piece of a cell with AVX2: the loops of attn_row_avx2.c.
 *
 * Thread: any.
 */
#ifndef KERNELS_X86_ATTN_RUN_AVX2_H
#define KERNELS_X86_ATTN_RUN_AVX2_H

#include "kernels/x86/attn_avx2.h"

enum { QUAD_VECS = K_CELL / 8 };

struct quad { /* 32 columns, or keys */
    __m256 v[QUAD_VECS];
};

/* Goes on with the sums of some heads over n steps of b, in bf16 two inputs each: from `from` to
 * `sum`. A head's inputs lie ROW_FLOATS behind those of the one before, its sums a quad. */
typedef void attn_run_fn(__m256 *sum, const __m256 *from, const float *rows, const float *b,
                         const char *ahead, int n);

/* How n heads go through panels of a width: in groups, and a group by one line of each step or by
 * both. */
struct attn_plan {
    int n;
    struct attn_group {
        attn_run_fn *run;
        int row, vec; /* of a quad */
    } group[4];
};

/* For panels of 32 or 16 columns. */
struct attn_plan attn_plan_avx2(enum k_type type, int n_row, int w);

#endif
