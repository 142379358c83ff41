/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's cut at this level: kernels/x86/select.h has the body.
 */
#include "kernels/variants.h"
#include "kernels/x86/select.h"

void top_select_avx2(const void *args, const struct k_slice *s)
{
    top_select_rows(args, s);
}
