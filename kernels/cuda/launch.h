/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of kernels/cuda: one call that puts a row of kernels.def on a stream of the GPU. It has
 * only C's types, so that the device's plug (engine/device/cuda.c) is plain C, and so that another
 * program of the same face can stand behind it in tests.
 *
 * Every pointer in args is the GPU's, and so is everything behind it: the host reads the numbers in
 * args and nothing else. How many blocks a launch has follows from those numbers alone, so a launch
 * can be captured and given again after the contents of a batch's arrays have changed.
 *
 * Thread: any; a stream belongs to one thread at a time.
 */
#ifndef KERNELS_CUDA_LAUNCH_H
#define KERNELS_CUDA_LAUNCH_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* args: the struct k_<name> of `bytes` bytes, copied before this returns. stream: a cudaStream_t.
 * 0, or the cudaError_t that the launch answered; what goes wrong later is found by a sync. */
int cuda_launch(enum kernel_id k, const void *args, size_t bytes, void *stream);

/* For tools that run kernels alone, without a device (tests/kernels): memory of the host, whole
 * pages, that kernels may then read and write by the same addresses; waiting for all that was
 * launched. 0 or a cudaError_t. */
int cuda_host_map(void *p, size_t bytes);
int cuda_host_unmap(void *p);
int cuda_wait(void);

#ifdef __cplusplus
}
#endif

#endif
