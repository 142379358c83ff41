/* SPDX-License-Identifier: Apache-2.0
 *
 * What the folders of kernels/ offer to kernels.c, and to nobody else: the functions of each row
 * and the tables of each level. A row `name` of kernels.def may have name_ref, name_shape,
 * name_avx2 and name_avx512; all are declared here, so a file that defines one includes this
 * header, and one that is listed without being defined does not link.
 *
 * A table holds NULL where a level has nothing of its own; the level below then stays.
 */
#ifndef KERNELS_VARIANTS_H
#define KERNELS_VARIANTS_H

#include "kernels/kernels.h"

#define KERNEL(name, text)                                                                         \
    kernel_fn name##_ref, name##_avx2, name##_avx512;                                              \
    kernel_shape_fn name##_shape;
#include "kernels/kernels.def"
#undef KERNEL

struct kernel_row_ref {
    kernel_fn *fn;
    kernel_shape_fn *shape;
};

extern const struct kernel_row_ref kernel_rows_ref[KERNEL_COUNT]; /* kernels/ref/table.c */

#if defined(__x86_64__)
/* kernels/x86/table.c. avx512_bf16: rows that need a CPU with vdpbf16ps. */
extern kernel_fn *const kernel_rows_avx2[KERNEL_COUNT];
extern kernel_fn *const kernel_rows_avx512[KERNEL_COUNT];
extern kernel_fn *const kernel_rows_avx512_bf16[KERNEL_COUNT];
#endif

#endif
