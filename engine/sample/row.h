/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over a row of numbers, or a part of one: its scaling, a draw from its weights.
 *
 * Thread: any; pure functions.
 */
#ifndef ENGINE_SAMPLE_ROW_H
#define ENGINE_SAMPLE_ROW_H

#include <stdint.h>

/* y = (x - max) * scale; y may be x */
void row_scale(const float *x, float *y, int64_t n, float max, float scale);

/* The entry at which the running sum of weights passes u times their sum, u in [0, 1); never one
 * without weight. Sums are of blocks, in f64, in an order that depends on n alone. */
int64_t row_draw(const float *weight, int64_t n, double u);

#endif
