/* SPDX-License-Identifier: Apache-2.0
 *
 * What every fuzz target includes: the one function that it is. It returns 0.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
