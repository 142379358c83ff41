/* SPDX-License-Identifier: Apache-2.0
 *
 * A body of /api/chat or, behind a byte that is no {, of /api/generate. Whatever it is, it is
 * refused with a status of 400 or 503 and a message, or it is a request within every bound that
 * the engine relies on.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/fuzz/fuzz_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool is_chat = size && *data == '{';
    fuzz_request(is_chat ? API_OLLAMA_CHAT : API_OLLAMA_GENERATE, data + !is_chat * !!size,
                 size - !is_chat * !!size);
    return 0;
}
