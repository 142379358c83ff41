/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of a batch's file: it is refused with a code and a message, or has an id, and a body that
 * is an object of JSON. And a line of answers, as one that was kept is read again.
 */
#include "api/batch.h"
#include "tests/fuzz/fuzz.h"

enum { ARENA_BYTES = 64 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct batch_line line;
    struct batch_usage use = {0};
    struct api_error e = {0};
    arena_init(&a, ARENA_BYTES);
    if (batch_line_parse((const char *)data, size, "/v1/chat/completions", &a, &line, &e)) {
        ASSERT(*e.message);
    } else {
        ASSERT(line.custom_id && *line.custom_id && line.n_body >= 2);
        ASSERT(line.body[0] == '{' && line.body[line.n_body - 1] == '}');
    }
    batch_usage_add((const char *)data, size, &use);
    arena_release(&a);
    return 0;
}
