/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of the short convolution: a unit is a row, of the weights' gradient a run of
 * columns.
 */
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

/* Weights, and what sequences of few rows read from cells, are little beside the rows. */
static double weight_bytes(const struct k_conv *a)
{
    return 4 * (double)a->d * (a->n_tap + (a->bias ? 1 : 0));
}

struct k_shape conv_shape(const void *args)
{
    const struct k_conv *a = args;
    return rows_shape(a->batch.n_tok, a->d, 2, weight_bytes(a), 2.0 * a->n_tap);
}

struct k_shape conv_keep_shape(const void *args)
{
    const struct k_conv *a = args;
    return rows_shape(a->batch.n_tok, a->d, 2.0 * K_CONV_ROWS / K_CELL, 0, 0);
}

struct k_shape conv_bwd_shape(const void *args)
{
    const struct k_conv_bwd *g = args;
    return rows_shape(g->fwd.batch.n_tok, g->fwd.d, 2, weight_bytes(&g->fwd), 2.0 * g->fwd.n_tap);
}

struct k_shape conv_dw_shape(const void *args)
{
    const struct k_conv_bwd *g = args;
    return rows_shape_cols(g->fwd.batch.n_tok, g->fwd.d, 2, 2 * weight_bytes(&g->fwd),
                           2.0 * g->fwd.n_tap);
}
