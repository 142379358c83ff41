/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of adapters. Rows without one cost nothing.
 */
#include "kernels/lora_grid.h"
#include "kernels/variants.h"

struct k_shape lora_shape(const void *args)
{
    const struct k_lora *a = args;
    struct k_shape s = {.n_unit = lora_row_units(a)};
    double k = (double)a->k, n = (double)a->n;
    for (int64_t i = 0; i < lora_groups(a); i++) {
        const struct k_lora_group *g = &a->group[i];
        if (!lora_has(g))
            continue;
        double rows = (double)(g->row_hi - g->row_lo), rank = (double)g->rank;
        double each = g->a_bf16 ? sizeof(k_bf16) : sizeof(float);
        s.bytes += rows * (k + rank + 2 * n) * sizeof(float) + rank * (k + n) * each;
        s.flops += 2 * rows * rank * (k + n);
    }
    return s;
}

struct k_shape lora_bwd_shape(const void *args)
{
    const struct k_lora_bwd *a = args;
    struct k_shape s = {.n_unit = lora_row_units(&a->fwd)};
    double k = a->dx ? (double)a->fwd.k : 0, n = (double)a->fwd.n;
    for (int64_t i = 0; i < lora_groups(&a->fwd); i++) {
        const struct k_lora_group *g = &a->fwd.group[i];
        if (!lora_has(g))
            continue;
        double rows = (double)(g->row_hi - g->row_lo), rank = (double)g->rank;
        s.bytes += (rows * (n + rank + 2 * k) + rank * (k + n)) * sizeof(float);
        s.flops += 2 * rows * rank * (k + n);
    }
    return s;
}

struct k_shape lora_dw_shape(const void *args)
{
    const struct k_lora_bwd *a = args;
    struct k_shape s = {.n_unit = lora_dw_units(&a->fwd)};
    for (int64_t i = 0; i < lora_groups(&a->fwd); i++) {
        const struct k_lora_group *g = &a->fwd.group[i];
        double rows = (double)(g->row_hi - g->row_lo), rank = (double)g->rank;
        double cols = (g->da ? (double)a->fwd.k : 0) + (g->db ? (double)a->fwd.n : 0);
        if (!lora_has(g))
            continue;
        s.bytes += (rows * (cols + 2 * rank) + 2 * rank * cols) * sizeof(float);
        s.flops += 2 * rows * rank * cols;
    }
    return s;
}
