/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding: pairs of each head turn by the angle of their row's position. The
 * inverse turns back, which is also the gradient. Both products of a result are rounded before they
 * are added.
 */
#include <string.h>

#include "kernels/variants.h"

static void turn_head(const struct k_rope *a, const float *x, float *y, const float *cos,
                      const float *sin)
{
    int32_t half = a->d_rot / 2, end = a->at + a->d_rot;
    for (int32_t i = 0; i < half; i++) {
        int32_t i0 = a->at + (a->interleaved ? 2 * i : i);
        int32_t i1 = i0 + (a->interleaved ? 1 : half);
        float s = a->inverse ? -sin[i] : sin[i], x0 = x[i0], x1 = x[i1];
        y[i0] = x0 * cos[i] - x1 * s;
        y[i1] = x1 * cos[i] + x0 * s;
    }
    if (y == x)
        return;
    memcpy(y, x, (size_t)a->at * sizeof *y);
    memcpy(y + end, x + end, (size_t)(a->d_head - end) * sizeof *y);
}

void rope_ref(const void *args, const struct k_slice *s)
{
    const struct k_rope *a = args;
    int64_t half = a->d_rot / 2;
    for (int64_t r = s->lo; r < s->hi; r++) {
        for (int64_t h = 0; h < a->n_head; h++) {
            int64_t at = h * a->d_head;
            turn_head(a, a->x + r * a->ld_x + at, a->y + r * a->ld_y + at,
                      a->cos + a->pos[r] * half, a->sin + a->pos[r] * half);
        }
    }
}
