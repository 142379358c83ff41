/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of the element-wise kernels.
 */
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

static struct k_shape binary(const struct k_binary *a)
{
    double broadcast = 4 * (double)a->d * ((a->ld_a == 0) + (a->ld_b == 0));
    double touched = 1 + (a->ld_a != 0) + (a->ld_b != 0);
    return rows_shape(a->m, a->d, touched, broadcast, 1);
}

struct k_shape add_shape(const void *args)
{
    return binary(args);
}

struct k_shape mul_shape(const void *args)
{
    return binary(args);
}

struct k_shape scale_shape(const void *args)
{
    const struct k_scale *a = args;
    return rows_shape_flat(a->n, 8, 1);
}

struct k_shape cast_shape(const void *args)
{
    const struct k_cast *a = args;
    return rows_shape_flat(a->n, (double)(k_type_bytes(a->from) + k_type_bytes(a->to)), 0);
}

struct k_shape copy_shape(const void *args)
{
    const struct k_copy *a = args;
    double row = a->x && a->ld_x == 0 ? 4 * (double)a->d : 0;
    return rows_shape(a->m, a->d, a->x && a->ld_x != 0 ? 2 : 1, row, 0);
}

struct k_shape regroup_shape(const void *args)
{
    const struct k_regroup *a = args;
    int64_t d = 0;
    for (int32_t i = 0; i < a->n_part; i++)
        d += (int64_t)a->n_head * a->part[i];
    return rows_shape(a->m, d, 2, 0, 0);
}

struct k_shape reorder_shape(const void *args)
{
    const struct k_reorder *a = args;
    return rows_shape(a->m, a->d, 2, 4 * (double)a->d, 0);
}

struct k_shape row_scale_shape(const void *args)
{
    const struct k_row_scale *a = args;
    return rows_shape(a->m, a->d, 2, 8 * (double)a->m, 1);
}

struct k_shape heads_shape(const void *args)
{
    const struct k_heads *a = args;
    return rows_shape(a->m, (int64_t)a->n_head * (a->n + a->n_tail), 2, 0, 0);
}

struct k_shape heads_bwd_shape(const void *args)
{
    const struct k_heads_bwd *a = args;
    const struct k_heads *f = &a->fwd;
    return rows_shape(a->m, (int64_t)f->n_head * (f->d_head + f->n_tail), a->add ? 3 : 2, 0, 1);
}

struct k_shape fold_shape(const void *args)
{
    const struct k_fold *a = args;
    return rows_shape_flat(a->n, 4 * (double)(a->n_x + 1), (double)(a->n_x - 1));
}

struct k_shape dropout_shape(const void *args)
{
    const struct k_dropout *a = args;
    return rows_shape(a->m, a->d, 2, 8 * (double)a->m, 30);
}

struct k_shape noise_shape(const void *args)
{
    const struct k_noise *a = args;
    return rows_shape(a->m, a->d, 2, 16 * (double)a->m, 32);
}
