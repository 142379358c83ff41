/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of vec.h that does not depend on the type. Capacity doubles, from eight on.
 */
#include "engine/base/vec.h"

#include <stdlib.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

void vec_grow_(void **at, size_t *cap, size_t want, size_t size)
{
    if (want <= *cap)
        return;
    size_t n = *cap < 4 ? 8 : *cap * 2, bytes;
    if (n < want)
        n = want;
    ASSERT(!__builtin_mul_overflow(n, size, &bytes));
    *at = xrealloc(*at, bytes);
    *cap = n;
}

void vec_free_(void **at, size_t *n, size_t *cap)
{
    free(*at);
    *at = NULL;
    *n = *cap = 0;
}
