/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of the kernels that move or add up rows. Embedding reads one output of a panel:
 * a cache line for every step of inputs, whatever the type.
 */
#include "kernels/linear.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

struct k_shape embed_shape(const void *args)
{
    const struct k_embed *a = args;
    size_t panel = linear_panel_bytes(a->table.type, a->table.k);
    return rows_shape(a->m, a->table.k, 1, (double)a->m * ((double)panel / K_NR + 4), 0);
}

struct k_shape embed_bwd_shape(const void *args)
{
    const struct k_embed_bwd *a = args;
    return rows_shape_cols(a->m, a->k, 3, 4 * (double)a->m, 1);
}

struct k_shape gather_shape(const void *args)
{
    const struct k_gather *a = args;
    return rows_shape(a->m, a->d, 2, 4 * (double)a->m, 0);
}

struct k_shape scatter_add_shape(const void *args)
{
    const struct k_gather *a = args;
    return rows_shape_cols(a->m, a->d, 3, 4 * (double)a->m, 1);
}

struct k_shape col_sum_shape(const void *args)
{
    const struct k_col_sum *a = args;
    return rows_shape_cols(a->m, a->d, 1, 8 * (double)a->d, 1);
}

static struct k_shape pool(const struct k_pool *a)
{
    int64_t m = a->n_seq > 0 ? a->start[a->n_seq] - a->start[0] : 0;
    struct k_shape s = rows_shape(m, a->d, 1, 4 * (double)a->n_seq * (double)a->d, 1);
    s.n_unit = a->n_seq * rows_runs(a->d);
    return s;
}

struct k_shape mean_pool_shape(const void *args)
{
    return pool(args);
}

struct k_shape mean_pool_bwd_shape(const void *args)
{
    return pool(args);
}
