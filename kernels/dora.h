/* SPDX-License-Identifier: Apache-2.0
 *
 * How rows find their groups, for all variants of dora and dora_dw.
 *
 * Thread: any; pure functions.
 */
#ifndef KERNELS_DORA_H
#define KERNELS_DORA_H

#include "kernels/kernels.h"

/* The gains of row `row`, where its group has some; *at is the group of the row before. */
static inline const float *dora_gains(const struct k_dora *a, int64_t row, int64_t *at)
{
    while (*at < a->n_group && a->group[*at].row_hi <= row)
        ++*at;
    return *at < a->n_group && a->group[*at].row_lo <= row ? a->group[*at].gain : NULL;
}

/* What a row of this length is multiplied by: zeros stay, and what is no number shows. */
static inline float dora_gain_of(float magnitude, float norm)
{
    return norm <= 0 ? 0 : magnitude / norm;
}

#endif
