/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over one row of numbers: its largest, its scaling, a draw from its weights.
 *
 * Thread: any; pure functions.
 */
#ifndef ENGINE_SAMPLE_ROW_H
#define ENGINE_SAMPLE_ROW_H

#include <stdbool.h>
#include <stdint.h>

struct row_best {
    float max;
    int32_t id;     /* the lowest of the largest; -1: nothing above -infinity */
    bool is_finite; /* all of the row */
};

struct row_best row_best(const float *x, int64_t n);

/* y = (x - max) * scale */
void row_scale(const float *x, float *y, int64_t n, float max, float scale);

/* The entry at which the running sum of weights passes u times their sum, u in [0, 1); never one
 * without weight. Sums are of blocks, in f64, in an order that depends on n alone. */
int64_t row_draw(const float *weight, int64_t n, double u);

#endif
