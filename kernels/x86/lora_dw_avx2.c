/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of adapters at this level: kernels/x86/lora_dw.h has the body.
 */
#include "kernels/variants.h"
#include "kernels/x86/lora_dw.h"

void lora_dw_avx2(const void *args, const struct k_slice *s)
{
    lora_dw_units_run(args, s);
}
