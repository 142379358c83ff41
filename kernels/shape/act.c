/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of the activations, the softmaxes and the cross-entropy: a unit is a row. An
 * exponential counts as 12 operations.
 */
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

struct k_shape swiglu_shape(const void *args)
{
    const struct k_swiglu *a = args;
    return rows_shape(a->m, a->d, 3, 0, 16);
}

struct k_shape swiglu_bwd_shape(const void *args)
{
    const struct k_swiglu_bwd *a = args;
    return rows_shape(a->m, a->d, 5, 0, 21);
}

struct k_shape glu_shape(const void *args)
{
    const struct k_swiglu *a = args;
    return rows_shape(a->m, a->d, 3, 0, 15);
}

struct k_shape glu_bwd_shape(const void *args)
{
    const struct k_swiglu_bwd *a = args;
    return rows_shape(a->m, a->d, 5, 0, 32);
}

struct k_shape row_gate_shape(const void *args)
{
    const struct k_row_gate *a = args;
    return rows_shape(a->m, a->d, 2, 4 * (double)a->m, 1);
}

struct k_shape row_gate_bwd_shape(const void *args)
{
    const struct k_row_gate_bwd *a = args;
    return rows_shape(a->m, a->d, 3, 8 * (double)a->m, 3);
}

struct k_shape swiglu_clamped_shape(const void *args)
{
    const struct k_swiglu_clamped *a = args;
    return rows_shape(a->m, a->d, 3, 0, 20);
}

struct k_shape swiglu_clamped_bwd_shape(const void *args)
{
    const struct k_swiglu_clamped *a = args;
    return rows_shape(a->m, a->d, 5, 0, 26);
}

struct k_shape gelu_shape(const void *args)
{
    const struct k_gelu *a = args;
    return rows_shape(a->m, a->d, 2, 0, 40);
}

struct k_shape gelu_bwd_shape(const void *args)
{
    const struct k_gelu *a = args;
    return rows_shape(a->m, a->d, 3, 0, 56);
}

struct k_shape softcap_shape(const void *args)
{
    const struct k_softcap *a = args;
    return rows_shape(a->m, a->d, 2, 0, 20);
}

struct k_shape softcap_bwd_shape(const void *args)
{
    const struct k_softcap *a = args;
    return rows_shape(a->m, a->d, 3, 0, 5);
}

struct k_shape softmax_shape(const void *args)
{
    const struct k_softmax *a = args;
    return rows_shape(a->m, a->d, 2, 0, 15);
}

struct k_shape log_softmax_shape(const void *args)
{
    const struct k_softmax *a = args;
    return rows_shape(a->m, a->d, 2, 0, 15);
}

struct k_shape ce_fwd_shape(const void *args)
{
    const struct k_ce *a = args;
    return rows_shape(a->m, a->n, 1, (double)a->m * (2 * sizeof *a->state + 4), 15);
}

struct k_shape ce_bwd_shape(const void *args)
{
    const struct k_ce *a = args;
    return rows_shape(a->m, a->n, 2, (double)a->m * (sizeof *a->state + 8), 14);
}

struct k_shape ce_take_shape(const void *args)
{
    const struct k_ce_top *a = args;
    return rows_shape(a->m, a->n_top, 4, 0, 1);
}

struct k_shape ce_put_shape(const void *args)
{
    const struct k_ce_top *a = args;
    return rows_shape(a->m, a->n, 2, (double)a->m * (2 * sizeof *a->state + 12.0 * a->n_top), 1);
}
