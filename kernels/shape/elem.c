/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of the element-wise rows. A unit of a kernel on rows is a row; of a kernel on a
 * flat array, K_SUM_CHUNK elements: long enough to be worth a call, short enough to share out.
 */
#include "kernels/variants.h"

static struct k_shape flat(int64_t n, double bytes_each, double flops_each)
{
    return (struct k_shape){.n_unit = (n + K_SUM_CHUNK - 1) / K_SUM_CHUNK,
                            .bytes = bytes_each * (double)n,
                            .flops = flops_each * (double)n};
}

static struct k_shape binary(const struct k_binary *a)
{
    double n = (double)a->m * (double)a->d;
    return (struct k_shape){.n_unit = a->d > 0 ? a->m : 0, .bytes = 12 * n, .flops = n};
}

struct k_shape add_shape(const void *args)
{
    return binary(args);
}

struct k_shape mul_shape(const void *args)
{
    return binary(args);
}

struct k_shape copy_shape(const void *args)
{
    const struct k_copy *a = args;
    return (struct k_shape){.n_unit = a->d > 0 ? a->m : 0,
                            .bytes = (a->x ? 8.0 : 4.0) * (double)a->m * (double)a->d};
}

struct k_shape scale_shape(const void *args)
{
    const struct k_scale *a = args;
    return flat(a->n, 8, 1);
}

struct k_shape cast_shape(const void *args)
{
    const struct k_cast *a = args;
    return flat(a->n, (double)(k_type_bytes(a->from) + k_type_bytes(a->to)), 0);
}
