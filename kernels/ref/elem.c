/* SPDX-License-Identifier: Apache-2.0
 *
 * Element by element: add, multiply, scale, convert. Each result is one rounding, so every variant
 * equals these bit for bit (NaN payloads apart).
 */
#include "kernels/variants.h"

#include <string.h>

void add_ref(const void *args, const struct k_slice *s)
{
    const struct k_binary *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = a->a[i * a->ld_a + j] + a->b[i * a->ld_b + j];
    }
}

void mul_ref(const void *args, const struct k_slice *s)
{
    const struct k_binary *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t j = 0; j < a->d; j++)
            a->y[i * a->ld_y + j] = a->a[i * a->ld_a + j] * a->b[i * a->ld_b + j];
    }
}

void copy_ref(const void *args, const struct k_slice *s)
{
    const struct k_copy *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        if (a->x)
            memmove(a->y + i * a->ld_y, a->x + i * a->ld_x, (size_t)a->d * sizeof(float));
        else
            memset(a->y + i * a->ld_y, 0, (size_t)a->d * sizeof(float));
    }
}

void scale_ref(const void *args, const struct k_slice *s)
{
    const struct k_scale *a = args;
    int64_t hi = s->hi * K_SUM_CHUNK < a->n ? s->hi * K_SUM_CHUNK : a->n;
    for (int64_t i = s->lo * K_SUM_CHUNK; i < hi; i++)
        a->y[i] = a->s * a->x[i];
}
