/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizer's kernels at this level: kernels/x86/optim.h and moments.h have the bodies.
 */
#include "kernels/variants.h"
#include "kernels/x86/moments.h"
#include "kernels/x86/optim.h"

void adamw_avx512(const void *args, const struct k_slice *s)
{
    adamw_chunks(args, s->lo, s->hi);
}

void adamw_weight_avx512(const void *args, const struct k_slice *s)
{
    adamw_panels(args, s, weight_unpack_avx512, weight_pack_avx512);
}

void moments_unpack_avx512(const void *args, const struct k_slice *s)
{
    moments_unpack_chunks(args, s->lo, s->hi);
}

void moments_pack_avx512(const void *args, const struct k_slice *s)
{
    moments_pack_chunks(args, s->lo, s->hi);
}

void sum_sq_avx512(const void *args, const struct k_slice *s)
{
    sum_sq_chunks(args, s->lo, s->hi);
}
