/* SPDX-License-Identifier: Apache-2.0
 *
 * The short convolution at this level: kernels/x86/conv.h has the bodies.
 */
#include "kernels/variants.h"
#include "kernels/x86/conv.h"

void conv_avx512(const void *args, const struct k_slice *s)
{
    conv_rows(args, s->lo, s->hi);
}

void conv_keep_avx512(const void *args, const struct k_slice *s)
{
    conv_keep_rows(args, s->lo, s->hi);
}

void conv_bwd_avx512(const void *args, const struct k_slice *s)
{
    conv_bwd_rows(args, s->lo, s->hi);
}

void conv_dw_avx512(const void *args, const struct k_slice *s)
{
    conv_dw_runs(args, s->lo, s->hi);
}
