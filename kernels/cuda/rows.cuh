/* SPDX-License-Identifier: Apache-2.0
 *
 * The launchers of this folder: one for each row of kernels.def, in the file of its family.
 * launch.cu puts them into a table.
 */
#ifndef KERNELS_CUDA_ROWS_CUH
#define KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/cuda.cuh"

#define KERNEL(name, text) cuda_row_fn name##_cuda;
#include "kernels/kernels.def"
#undef KERNEL

#endif
