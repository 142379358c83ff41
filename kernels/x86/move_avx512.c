/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that add up rows at this level: kernels/x86/move.h and cols.h have the bodies.
 */
#include "kernels/variants.h"
#include "kernels/x86/move.h"

void embed_bwd_avx512(const void *args, const struct k_slice *s)
{
    embed_bwd_runs(args, s->lo, s->hi);
}

void scatter_add_avx512(const void *args, const struct k_slice *s)
{
    scatter_add_runs(args, s->lo, s->hi);
}

void col_sum_avx512(const void *args, const struct k_slice *s)
{
    col_sum_runs(args, s->lo, s->hi);
}

void mean_pool_avx512(const void *args, const struct k_slice *s)
{
    mean_pool_runs(args, s->lo, s->hi);
}

void mean_pool_bwd_avx512(const void *args, const struct k_slice *s)
{
    mean_pool_bwd_runs(args, s->lo, s->hi);
}
