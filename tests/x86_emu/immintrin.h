/* SPDX-License-Identifier: Apache-2.0
 *
 * In the place of the compiler's <immintrin.h>, so that the sources of kernels/x86 for AVX-512 run
 * on a CPU that has AVX2 alone: what they use of AVX-512, out of two vectors of AVX2 or lane by
 * lane. A new intrinsic that one of them uses is added here.
 */
#ifndef TESTS_X86_EMU_IMMINTRIN_H
#define TESTS_X86_EMU_IMMINTRIN_H

#include "tests/x86_emu/lanes.h"

#endif
