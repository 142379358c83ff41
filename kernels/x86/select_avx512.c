/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's kernels at this level: argmax.h and select.h have the bodies.
 */
#include "kernels/variants.h"
#include "kernels/x86/argmax.h"
#include "kernels/x86/select.h"

void argmax_avx512(const void *args, const struct k_slice *s)
{
    argmax_rows(args, s);
}

void top_select_avx512(const void *args, const struct k_slice *s)
{
    top_select_rows(args, s);
}
