/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of mixtures of experts by those of each level, for the runs of rows that the experts
 * have. A level whose rows lack a product takes that of the level below.
 */
#include "kernels/experts_grid.h"
#include "kernels/variants.h"

static kernel_fn *narrow(enum kernel_id id)
{
    return kernel_rows_avx2[id] ? kernel_rows_avx2[id] : kernel_rows_ref[id].fn;
}

static kernel_fn *wide(enum kernel_id id)
{
    if (kernel_rows_avx512_bf16[id])
        return kernel_rows_avx512_bf16[id];
    return kernel_rows_avx512[id] ? kernel_rows_avx512[id] : narrow(id);
}

void experts_pack_avx2(const void *args, const struct k_slice *s)
{
    experts_pack_runs(args, s, rows_pack_avx2);
}

void experts_avx2(const void *args, const struct k_slice *s)
{
    const struct k_experts *a = args;
    experts_products(a, s, narrow(k_format(a->stack.w.type)->linear));
}

void experts_dx_avx2(const void *args, const struct k_slice *s)
{
    const struct k_experts *a = args;
    experts_gradients(a, s, narrow(k_format(a->stack.w.type)->dx));
}

void experts_pack_avx512(const void *args, const struct k_slice *s)
{
    experts_pack_runs(args, s, rows_pack_avx512);
}

void experts_avx512(const void *args, const struct k_slice *s)
{
    const struct k_experts *a = args;
    experts_products(a, s, wide(k_format(a->stack.w.type)->linear));
}

void experts_dx_avx512(const void *args, const struct k_slice *s)
{
    const struct k_experts *a = args;
    experts_gradients(a, s, wide(k_format(a->stack.w.type)->dx));
}
