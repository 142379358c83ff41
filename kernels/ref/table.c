/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference of each kernel and its shape, by row of kernels.def: the level that every other one
 * overwrites. A row without them does not link.
 */
#include "kernels/variants.h"

const struct kernel_row_ref kernel_rows_ref[KERNEL_COUNT] = {
#define KERNEL(name, text) [K_##name] = {name##_ref, name##_shape},
#include "kernels/kernels.def"
#undef KERNEL
};
