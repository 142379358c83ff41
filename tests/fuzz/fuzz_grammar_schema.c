/* SPDX-License-Identifier: Apache-2.0
 *
 * Any JSON as a schema: compiles within its limits or says why not, and never leads to a dead end.
 */
#include "tests/fuzz/fuzz_grammar.h"

#include <jansson.h>

#include "api/messages.h"
#include "engine/template/jvalue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct arena a;
    struct jvalue v;
    json_t *root = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
    if (!root)
        return 0;
    arena_init(&a, 16 << 20);
    if (api_jvalue(&a, root, &v, &e) == 0) {
        struct grammar *g = grammar_schema(&v, size % 2, &fuzz_limits, &e);
        fuzz_run(g, &e, data, size);
    }
    arena_release(&a);
    json_decref(root);
    return 0;
}
