/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of mixtures of experts. Of weights only those count that some row goes to.
 */
#include "kernels/experts_grid.h"
#include "kernels/shape/rows.h"
#include "kernels/variants.h"

enum { MAP_BYTES = 16 }; /* of a pair */

struct k_shape route_shape(const void *args)
{
    const struct k_route *a = args;
    return rows_shape(a->m, a->n, 1, (double)(a->m * a->top) * 8, 8);
}

struct k_shape route_sort_shape(const void *args)
{
    const struct k_route *a = args;
    return (struct k_shape){.n_unit = a->m > 0, .bytes = (double)(a->m * a->top) * MAP_BYTES};
}

struct k_shape route_bwd_shape(const void *args)
{
    const struct k_route_bwd *a = args;
    return rows_shape(a->m, a->fwd.n, a->add ? 3 : 2, (double)(a->m * a->fwd.top) * MAP_BYTES, 8);
}

struct k_shape route_balance_shape(const void *args)
{
    const struct k_route_balance *a = args;
    return rows_shape(a->m, a->n, 3, 4 * (double)(a->n_layer * (a->n + 1)), 16);
}

struct k_shape experts_pack_shape(const void *args)
{
    const struct k_experts_pack *a = args;
    double n = (double)a->m * (double)a->k;
    return (struct k_shape){.n_unit = experts_runs(a->start, a->n_expert, NULL, a->m),
                            .bytes = 4 * n + (double)k_rows_bytes(a->type, a->m, a->k)};
}

static struct k_shape product(const struct k_experts *a, bool is_dx)
{
    const struct k_weight *w = &a->stack.w;
    int64_t in = is_dx ? w->n : w->k, out = is_dx ? w->k : w->n, m;
    double used = (double)experts_active(&a->stack, a->m, &m);
    double rows = (double)k_rows_bytes(w->type, m, in);
    double results = (double)m * (double)out * sizeof(float) * (a->add ? 2 : 1);
    return (struct k_shape){.n_unit = experts_units(a, is_dx),
                            .bytes =
                                used * (double)k_weight_bytes(w->type, w->n, w->k) + rows + results,
                            .flops = 2 * (double)m * (double)w->n * (double)w->k};
}

struct k_shape experts_shape(const void *args)
{
    return product(args, false);
}

struct k_shape experts_dx_shape(const void *args)
{
    return product(args, true);
}

struct k_shape experts_dw_shape(const void *args)
{
    const struct k_experts_dw *a = args;
    int64_t m = a->start ? a->start[a->expert + 1] - a->start[a->expert] : 0;
    double n = (double)a->n, k = (double)a->k;
    return (struct k_shape){.n_unit = m > 0 ? linear_ceil_div(a->n, K_NR) : 0,
                            .bytes = 4 * ((double)m * (n + k) + 2 * n * k),
                            .flops = 2 * (double)m * n * k};
}

struct k_shape experts_sum_shape(const void *args)
{
    const struct k_experts_sum *a = args;
    return rows_shape(a->m, a->d, (double)a->top + (a->add ? 2 : 1), 8 * (double)(a->m * a->top),
                      2 * (double)a->top);
}

struct k_shape experts_weigh_shape(const void *args)
{
    const struct k_experts_weigh *a = args;
    return rows_shape(a->m, a->d, 4, 12 * (double)a->m, 4);
}

struct k_shape experts_rows_shape(const void *args)
{
    const struct k_experts_rows *a = args;
    return rows_shape(a->n_used && !*a->n_used ? 0 : a->m, a->d, 2, 8 * (double)a->m, 1);
}

struct k_shape experts_groups_shape(const void *args)
{
    const struct k_experts_groups *a = args;
    return (struct k_shape){
        .n_unit = 1, .bytes = 2 * (double)(a->n_group * a->n_expert) * sizeof(struct k_lora_group)};
}

struct k_shape experts_bias_shape(const void *args)
{
    const struct k_experts_bias *a = args;
    return rows_shape(a->m, a->d, 3, 4 * (double)a->m, 1);
}

struct k_shape experts_bias_dot_shape(const void *args)
{
    const struct k_experts_bias *a = args;
    return rows_shape(a->m, a->d, 2, 12 * (double)a->m, 2);
}

struct k_shape experts_bias_dw_shape(const void *args)
{
    const struct k_experts_bias_dw *a = args;
    int64_t m = a->start ? a->start[a->expert + 1] - a->start[a->expert] : 0;
    return rows_shape_cols(m, a->n, 1, 8 * (double)(m + a->n), 2);
}
