/* SPDX-License-Identifier: Apache-2.0
 *
 * What every fuzz target includes: the one function that it is. It returns 0.
 *
 * Some of what is tried takes milliseconds whatever the input, as a class of characters does that
 * Unicode is asked for. Of the inputs that come to it a fuzzer tries one in so many, by their
 * bytes: one that was tried is tried again. A replay tries all.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline bool fuzz_one_in(uint32_t n, const uint8_t *data, size_t size)
{
#ifdef FUZZ_MILLIONS
    uint32_t h = 1;
    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * 0x01000193u;
    return (h >> 8) % n == 0;
#else
    (void)data;
    (void)size;
    return n > 0;
#endif
}

#endif
