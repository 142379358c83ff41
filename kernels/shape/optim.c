/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of the optimizer's kernels: chunks of K_SUM_CHUNK elements.
 */
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

struct k_shape adamw_shape(const void *args)
{
    const struct k_adamw *a = args;
    return rows_shape_flat(a->n, 28, 14);
}

struct k_shape sum_sq_shape(const void *args)
{
    const struct k_sum_sq *a = args;
    return rows_shape_flat(a->n, 4, 2);
}
