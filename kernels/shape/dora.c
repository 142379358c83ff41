/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of DoRA. Which rows have gains the batch's arrays say, which may lie with a GPU:
 * the costs are those of all rows.
 */
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

struct k_shape dora_gain_shape(const void *args)
{
    const struct k_dora_gain *a = args;
    double n = (double)a->n, k = (double)a->k, rank = (double)a->rank;
    return (struct k_shape){.n_unit = (a->n + K_DORA_ROWS - 1) / K_DORA_ROWS,
                            .bytes = 4 * (n * k + rank * (n + k)),
                            .flops = 2 * n * k * (rank + 2)};
}

struct k_shape dora_shape(const void *args)
{
    const struct k_dora *a = args;
    return rows_shape(a->n_group > 0 ? a->m : 0, a->n, 2, 8 * (double)a->n, 3);
}

struct k_shape dora_dw_shape(const void *args)
{
    const struct k_dora_dw *a = args;
    return rows_shape_cols(a->n_group > 0 ? a->m : 0, a->n, 2, 12 * (double)a->n, 3);
}
