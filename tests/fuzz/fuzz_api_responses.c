/* SPDX-License-Identifier: Apache-2.0
 *
 * A body of /v1/responses. Whatever it is, it is refused with a status of 400 or 503 and a message,
 * or it is a request within every bound that the engine relies on, with a conversation.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/fuzz/fuzz_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_request(API_RESPONSES, data, size);
    return 0;
}
