/* SPDX-License-Identifier: Apache-2.0
 *
 * Unit and cost of what the sampler asks of a row, which is the unit and read once.
 */
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

struct k_shape argmax_shape(const void *args)
{
    const struct k_argmax *a = args;
    return rows_shape(a->m, a->n, 1, sizeof(struct k_best) * (double)a->m, 2);
}

struct k_shape top_select_shape(const void *args)
{
    const struct k_top_select *a = args;
    return rows_shape(a->m, a->n, 1, 12 * (double)a->m, 15);
}
