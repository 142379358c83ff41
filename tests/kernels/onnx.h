/* SPDX-License-Identifier: Apache-2.0
 *
 * The group `onnx` of the check tool: published operator cases, run at one level.
 *
 * Thread: main.
 */
#ifndef TESTS_KERNELS_ONNX_H
#define TESTS_KERNELS_ONNX_H

#include "tests/kernels/check.h"

/* How many cases there were that our kernels can run, at c's table; -1: no data here. */
int onnx_check(struct check *c);

#endif
