/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a regex: compiles within its limits or says why not, and never leads to a dead end.
 */
#include <string.h>

#include "tests/fuzz/fuzz_grammar.h"

enum { LONGEST = 512, DEAR_ONE_IN = 64 };

/* A class by its name in Unicode, or letters without case. */
static bool is_dear(const uint8_t *data, size_t size)
{
    return memmem(data, size, "\\p", 2) || memmem(data, size, "\\P", 2) ||
           memmem(data, size, "(?", 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    if (size > LONGEST || (is_dear(data, size) && !fuzz_one_in(DEAR_ONE_IN, data, size)))
        return 0;
    struct grammar *g = grammar_regex((const char *)data, size, &fuzz_limits, &e);
    fuzz_run(g, &e, data, size);
    return 0;
}
