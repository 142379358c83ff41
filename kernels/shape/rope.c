/* SPDX-License-Identifier: Apache-2.0
 *
 * Units and costs of the rotary embedding: a unit is a row.
 */
#include "kernels/variants.h"

struct k_shape rope_shape(const void *args)
{
    const struct k_rope *a = args;
    double row = (double)a->n_head * a->d_head, turned = (double)a->n_head * a->d_rot;
    return (struct k_shape){.n_unit = row > 0 ? a->m : 0,
                            .bytes = 8 * (double)a->m * row,
                            .flops = 3 * (double)a->m * turned};
}
