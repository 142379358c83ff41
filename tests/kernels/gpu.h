/* SPDX-License-Identifier: Apache-2.0
 *
 * The level `cuda`: kernels/cuda as a shared object, widened at run time. Which one says the
 * environment's TANDEM_CUDA_KERNELS: libtandem_cuda.so, whose kernels run on a GPU; without it, the
 * emulated one that lies beside this program, if it was built.
 *
 * A launch is whole: slices mean nothing to it. Its buffers are the checks' own: memory of the host
 * that the GPU sees (gpu_map). What stands in for the cuts are the orders of an emulated block's
 * threads (gpu_order): results that differ are a race.
 *
 * Thread: main only.
 */
#ifndef TESTS_KERNELS_GPU_H
#define TESTS_KERNELS_GPU_H

#include "kernels/kernels.h"

/* Fills the table; false: there is none. */
bool gpu_open(struct kernel_table *t);

/* Memory for kernels, before its first use and before it goes: whole pages. */
void gpu_map(void *p, size_t bytes);
void gpu_unmap(void *p);

enum { GPU_ORDERS = 3 }; /* forward, backward, random */

/* False where the order cannot be chosen. */
bool gpu_order(int order);

#endif
