/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU for tests: the twin of CUDA and NCCL of this build (tests/fake/cuda), or what is there.
 *
 * Thread: one, before a device is opened.
 */
#ifndef TESTS_LIB_GPU_H
#define TESTS_LIB_GPU_H

#include <stdbool.h>

/* Devices that are opened from here on are the twin's; with TEST_GPU those that are there: false.
 */
bool gpu_play(void);
/* Its kernels are those of a GPU, emulated; where they were not built kernels/ref, which is said.
 */
void gpu_play_kernels(void);

#endif
