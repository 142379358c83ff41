/* SPDX-License-Identifier: Apache-2.0
 *
 * What x86 has of its own, per level. A row that is missing here runs the level below. Sections are
 * those of kernels.def.
 */
#include "kernels/variants.h"

kernel_fn *const kernel_rows_avx2[KERNEL_COUNT] = {
    /* packed linear algebra */

    /* rows and elements */

    /* rope */

    /* attention over a ragged batch */

    /* heads */

    /* optimizer */
};

kernel_fn *const kernel_rows_avx512[KERNEL_COUNT] = {
    /* packed linear algebra */
    [K_linear_f32] = linear_f32_avx512,

    /* rows and elements */

    /* rope */

    /* attention over a ragged batch */

    /* heads */

    /* optimizer */
};

kernel_fn *const kernel_rows_avx512_bf16[KERNEL_COUNT] = {
    /* packed linear algebra */
    [K_linear_bf16] = linear_bf16_avx512,
    [K_linear_int8] = linear_int8_avx512,

    /* attention over a ragged batch */
};
