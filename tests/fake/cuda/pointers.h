/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the addresses stand in each kernel's arguments.
 */
#ifndef TESTS_FAKE_CUDA_POINTERS_H
#define TESTS_FAKE_CUDA_POINTERS_H

#include "kernels/kernels.h"

enum { POINTER_MAX = 20 };

/* Offsets of the addresses in the struct k_<name>; the number of them. */
int pointers_of(enum kernel_id k, size_t at[POINTER_MAX]);

#endif
