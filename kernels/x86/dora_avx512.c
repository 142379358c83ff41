/* SPDX-License-Identifier: Apache-2.0
 *
 * DoRA's kernels at this level: kernels/x86/dora.h has the bodies.
 */
#include "kernels/variants.h"
#include "kernels/x86/dora.h"

void dora_gain_avx512(const void *args, const struct k_slice *s)
{
    dora_gain_rows(args, s->lo, s->hi);
}

void dora_avx512(const void *args, const struct k_slice *s)
{
    dora_rows(args, s->lo, s->hi);
}

void dora_dw_avx512(const void *args, const struct k_slice *s)
{
    dora_dw_runs(args, s->lo, s->hi);
}
