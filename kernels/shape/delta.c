/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of the gated delta rule and of scans: a unit is a block of a state's columns for
 * all rows of a sequence; on the way back half of a head's. States are read and written once a
 * sequence, as a step that decodes does; between the rows of a prompt they stay in caches.
 */
#include "kernels/delta.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

/* Floats of q, k, v and rates of a row. */
static double row_floats(const struct k_delta *a)
{
    return 2.0 * a->n_k * a->d_k + (double)a->n_v * a->d_v +
           (double)delta_rate_cols(a->n_k, a->n_v);
}

struct k_shape delta_rates_shape(const void *args)
{
    const struct k_delta_rates *a = args;
    double n_k = a->n_k, n_v = a->n_v, m = (double)a->m;
    return (struct k_shape){.n_unit = a->m,
                            .bytes = 4 * m * (2 * n_k * a->d_k + 2 * (n_v + n_k) + 2 * n_v),
                            .flops = m * (4 * n_k * a->d_k + 60 * n_v)};
}

struct k_shape delta_shape(const void *args)
{
    const struct k_delta *a = args;
    double state = (double)a->n_v * a->d_k * a->d_v, m = (double)a->batch.n_tok;
    double ends = a->state.at ? 2.0 * (double)a->batch.n_seq : 0;
    return (struct k_shape){.n_unit = a->batch.n_seq * a->n_v * delta_blocks(a->d_v),
                            .bytes =
                                4 * (m * (row_floats(a) + (double)a->n_v * a->d_v) + ends * state),
                            .flops = 7 * m * state};
}

/* Forward twice, and back. */
struct k_shape delta_bwd_shape(const void *args)
{
    const struct k_delta_bwd *g = args;
    const struct k_delta *a = &g->fwd;
    double state = (double)a->n_v * a->d_k * a->d_v, m = (double)a->batch.n_tok;
    double part = (double)a->n_v * K_DELTA_PARTS * (2 * a->d_k + 2);
    double borders = 2 * m / (double)delta_run_rows(a->d_k) * state;
    return (struct k_shape){
        .n_unit = a->batch.n_seq * a->n_v * K_DELTA_PARTS,
        .bytes = 4 * (m * (2 * row_floats(a) + 2.0 * a->n_v * a->d_v + part) + borders),
        .flops = 26 * m * state};
}

struct k_shape scan_rates_shape(const void *args)
{
    const struct k_scan_rates *a = args;
    double n_v = a->n_v, m = (double)a->m;
    return (struct k_shape){
        .n_unit = a->m, .bytes = 4 * m * (3 * n_v + 2.0 * a->n_k), .flops = 60 * m * n_v};
}

struct k_shape scan_rates_bwd_shape(const void *args)
{
    const struct k_scan_rates_bwd *g = args;
    const struct k_scan_rates *a = &g->fwd;
    double n_v = a->n_v, m = (double)a->m, part = K_DELTA_PARTS * (2.0 * g->d_k + 2);
    return (struct k_shape){.n_unit = a->m,
                            .bytes =
                                4 * m * (2.0 * a->n_k * g->d_k + n_v * (part + 2.0 * g->d_v + 4)),
                            .flops = m * n_v * (part + 2.0 * g->d_v + 60)};
}

struct k_shape delta_rates_bwd_shape(const void *args)
{
    const struct k_delta_rates_bwd *g = args;
    const struct k_delta_rates *a = &g->fwd;
    double n_k = a->n_k, n_v = a->n_v, m = (double)a->m, part = K_DELTA_PARTS * (2.0 * a->d_k + 2);
    return (struct k_shape){.n_unit = a->m,
                            .bytes = 4 * m * (4 * n_k * a->d_k + n_v * part + 8 * n_v),
                            .flops = m * (10 * n_k * a->d_k + n_v * part + 60 * n_v)};
}
