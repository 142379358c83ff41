/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a matrix as codes and scales. Without a factor each number goes to the nearest code. With
 * R (factor.h) an input's number goes to what makes the error of the row's output least beside the
 * errors that the inputs before it have made already, so that they cancel where inputs go together:
 * GPTQ's error feedback. It is done here without the inverse that GPTQ is told with: term c of
 * |d R|^2 is (sum over i < c of d[i] R[i][c]) + d[c] R[c][c], which the code of input c makes as
 * small as it can.
 *
 * Why this and not scales of channels folded into the norms before (AWQ): it changes the matrix
 * alone, so it is the same for every family and for the products behind attention and the gate,
 * which no norm stands before; and it leaves every other tensor of the model as it was.
 *
 * Thread: any; pure functions. Rows know nothing of each other.
 */
#ifndef ENGINE_QUANT_MATRIX_H
#define ENGINE_QUANT_MATRIX_H

#include "engine/quant/group.h"

enum { QUANT_ROWS = 16 }; /* at a time, so that R is read once for all of them */

struct quant_matrix {
    const struct quant_target *target; /* borrowed */
    enum k_type scale_type;
    int64_t k, group;
    const float *r; /* borrowed: [k, k]; NULL: to the nearest */
};

/* What becomes of up to QUANT_ROWS rows. */
struct quant_rows {
    const float *x; /* [n, k] */
    int64_t n;
    int8_t *code;        /* [n, k] */
    float *scale;        /* [n, k / group] */
    float *behind;       /* [n, k]: with r alone, room for what errors so far make of the terms */
    float *aim, *weight; /* [group]: room for a group's numbers, and what their errors count */
    double error;        /* |d R|^2 over all rows, or |d|^2 */
};

void quant_matrix_rows(const struct quant_matrix *m, struct quant_rows *rows);

#endif
