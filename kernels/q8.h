/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as products of integers read them: of each K_Q8_GROUP inputs of a row codes of eight bits, a
 * scale, and the sums that products want besides. The rounding is defined here, once for all
 * variants, and depends on the group's own numbers alone.
 *
 * Group g of row r of m stands at [g * m + r]; inputs behind the last are zeros. The same order on
 * CPUs and GPUs.
 *
 * A product (row linear_q8): over the inputs that share a scale of the weight, at most a group, the
 * codes' products are summed as integers, exactly, and then, groups ascending,
 *
 *   total = fma(scale of the weight, scale of the row * (float)sum, total)
 *
 * and where the weight has mins, behind each group total = fma(-min, weighed, total). Integers have
 * no order, so all variants have the same bits.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_Q8_H
#define KERNELS_Q8_H

#include <math.h>

#include "kernels/coded.h"

struct q8_group {
    int8_t code[K_Q8_GROUP]; /* -127 to 127; the number is scale * code */
    float scale;             /* NaN: the row had a number that is not finite */
    float weighed;           /* scale * (float)(sum of the codes) */
    int32_t minus_half;      /* -(sum of the first half of the codes), and of all */
    int32_t minus_all;
};

enum { Q8_MOST = 127 };

#define Q8_LEAST 0x1p-100f /* a group whose numbers are all smaller is zeros */

CODED_INLINE int64_t q8_groups(int64_t k)
{
    return (k + K_Q8_GROUP - 1) / K_Q8_GROUP;
}

/* Whether a format's codes can be multiplied as integers. */
CODED_INLINE bool q8_has(enum k_type type)
{
    return type == K_INT8 || type == K_INT8G || type == K_INT8C || type == K_INT4 ||
           type == K_INT4K || type == K_INT5K || type == K_INT6K;
}

/* Inputs whose products are one sum. */
CODED_INLINE int q8_span(enum k_type type)
{
    return type == K_INT6K ? 16 : (int)K_Q8_GROUP;
}

/* n at most K_Q8_GROUP numbers; the rest are zeros. */
CODED_INLINE void q8_round(const float *x, int64_t n, struct q8_group *to)
{
    float most = 0, scale = 0, per = 0;
    bool is_finite = true;
    int32_t sum[2] = {0, 0};
    for (int64_t i = 0; i < n; i++) {
        float size = fabsf(x[i]);
        is_finite = is_finite && size < INFINITY;
        most = size > most ? size : most;
    }
    if (!is_finite) {
        scale = NAN;
    } else if (most >= Q8_LEAST) {
        scale = most / Q8_MOST;
        per = Q8_MOST / most;
    }
    for (int64_t i = 0; i < K_Q8_GROUP; i++) {
        int code = is_finite && i < n ? (int)rintf(x[i] * per) : 0;
        to->code[i] = (int8_t)code;
        sum[i >= K_Q8_GROUP / 2] += code;
    }
    to->scale = scale;
    to->weighed = scale * (float)(sum[0] + sum[1]);
    to->minus_half = -sum[0];
    to->minus_all = -sum[0] - sum[1];
}

#endif
