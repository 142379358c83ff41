/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of the norms: a unit is a row, or each run of it that is normalised by
 * itself; of the weight gradients a run of columns.
 */
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

static struct k_shape forward(const struct k_norm *a, double flops)
{
    double weights = 4 * (double)a->d * (a->bias ? 2 : 1);
    return rows_shape(rows_run_count(a->m, a->n_head), a->d, a->residual ? 4 : 2, weights, flops);
}

struct k_shape rmsnorm_shape(const void *args)
{
    return forward(args, 4);
}

struct k_shape layernorm_shape(const void *args)
{
    return forward(args, 7);
}

static struct k_shape backward(const struct k_norm_bwd *a, double flops)
{
    return rows_shape(rows_run_count(a->m, a->n_head), a->d, a->add ? 4 : 3, 4 * (double)a->d,
                      flops);
}

struct k_shape rmsnorm_bwd_shape(const void *args)
{
    return backward(args, 7);
}

struct k_shape layernorm_bwd_shape(const void *args)
{
    return backward(args, 10);
}

static struct k_shape weights(const struct k_norm_bwd *a, double flops)
{
    return rows_shape_cols(rows_run_count(a->m, a->n_head), a->d, 2,
                           8 * (double)a->d * (a->dbias ? 2 : 1), flops);
}

struct k_shape rmsnorm_dw_shape(const void *args)
{
    return weights(args, 3);
}

struct k_shape layernorm_dw_shape(const void *args)
{
    return weights(args, 5);
}

struct k_shape l2norm_shape(const void *args)
{
    const struct k_l2norm *a = args;
    return rows_shape(a->m, a->d, 2, 0, 3);
}

struct k_shape l2norm_bwd_shape(const void *args)
{
    const struct k_l2norm *a = args;
    return rows_shape(a->m, a->d, 3, 0, 6);
}
