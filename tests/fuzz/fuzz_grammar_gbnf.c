/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a grammar: compiles within its limits or says why not, and never leads to a dead
 * end.
 */
#include "tests/fuzz/fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct grammar *g = grammar_gbnf((const char *)data, size, &fuzz_limits, &e);
    fuzz_run(g, &e, data, size);
    return 0;
}
