/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the PROXY protocol: one that is whole is so with whatever stands behind it, and was open
 * at each byte before; one that is none stays none.
 */
#include "server/http/proxy_line.h"

#include <string.h>

#include "engine/base/mem.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proxy_line all, part;
    if (size > 2 * PROXY_LINE_MAX)
        return 0;
    int rc = proxy_line_read(data, size, &all);
    ASSERT(rc != 1 || (all.n > 0 && all.n <= size && all.n <= PROXY_LINE_MAX));
    ASSERT(rc != 0 || size < PROXY_LINE_MAX);
    for (size_t i = 0; rc == 1 && i < all.n; i++)
        ASSERT(proxy_line_read(data, i, &part) == 0);
    if (rc == 1) {
        ASSERT(proxy_line_read(data, all.n, &part) == 1 && part.n == all.n);
        ASSERT(part.has_client == all.has_client && part.n_client == all.n_client);
    }
    return 0;
}
