/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of the optimizer's kernels: chunks of K_SUM_CHUNK elements, panels of a weight.
 * An f32 weight and a bf16 one with its low halves are as many bytes.
 */
#include "kernels/linear.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

struct k_shape adamw_shape(const void *args)
{
    const struct k_adamw *a = args;
    return rows_shape_flat(a->n, 28, 14);
}

struct k_shape adamw_weight_shape(const void *args)
{
    const struct k_adamw_weight *a = args;
    double n = (double)a->w.n * (double)a->w.k;
    return (struct k_shape){.n_unit = linear_panels(a->w.n), .bytes = 28 * n, .flops = 14 * n};
}

struct k_shape moments_unpack_shape(const void *args)
{
    const struct k_moments *a = args;
    return rows_shape_flat(a->n, 5, 3);
}

struct k_shape moments_pack_shape(const void *args)
{
    const struct k_moments *a = args;
    return rows_shape_flat(a->n, 5, 12);
}

struct k_shape sum_sq_shape(const void *args)
{
    const struct k_sum_sq *a = args;
    return rows_shape_flat(a->n, 4, 2);
}
