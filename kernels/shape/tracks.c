/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of rows on several tracks: a unit is a row.
 */
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

struct k_shape mix_shape(const void *args)
{
    const struct k_mix *a = args;
    return rows_shape(a->m, a->n * a->d, 2, 4 * (double)a->m * a->k * (a->n + (double)a->d),
                      2 * a->k);
}

struct k_shape mix_dot_shape(const void *args)
{
    const struct k_mix_dot *a = args;
    return rows_shape(a->m, a->n * a->d, 1, 4 * (double)a->m * a->k * (a->n + (double)a->d),
                      2 * a->k);
}

struct k_shape match_shape(const void *args)
{
    const struct k_match *a = args;
    return rows_shape(a->m, a->d, 3, 0, 5);
}

struct k_shape match_bwd_shape(const void *args)
{
    const struct k_match *a = args;
    return rows_shape(a->m, a->d, 5, 0, 10);
}

struct k_shape cutoff_shape(const void *args)
{
    const struct k_cutoff *a = args;
    return rows_shape(a->m, a->d, 2, 0, 6);
}

struct k_shape cutoff_bwd_shape(const void *args)
{
    const struct k_cutoff *a = args;
    return rows_shape(a->m, a->d, 3, 0, 10);
}
