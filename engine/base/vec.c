/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of vec.h that does not depend on the type. Capacity doubles, from eight on.
 */
#include "engine/base/vec.h"

#include <stdbool.h>
#include <stdlib.h>

#include "engine/base/mem.h"

/* The next capacity that holds `want`; false: so many bytes cannot be addressed. */
static bool next_cap(size_t cap, size_t want, size_t size, size_t *n, size_t *bytes)
{
    *n = cap < 4 ? 8 : cap * 2;
    if (*n < want)
        *n = want;
    return !__builtin_mul_overflow(*n, size, bytes);
}

void vec_grow_(void **at, size_t *cap, size_t want, size_t size)
{
    size_t n, bytes;
    if (want <= *cap)
        return;
    ASSERT(next_cap(*cap, want, size, &n, &bytes));
    *at = xrealloc(*at, bytes);
    *cap = n;
}

int vec_try_grow_(void **at, size_t *cap, size_t want, size_t size, const char *what, struct err *e)
{
    size_t n, bytes;
    if (want <= *cap)
        return 0;
    if (!next_cap(*cap, want, size, &n, &bytes))
        return err_set(e, ERR_NO_MEMORY, "%s: %zu of %zu bytes are more than can be addressed",
                       what, want, size);
    void *p = try_resize(*at, bytes, what, e);
    if (!p)
        return -1;
    *at = p;
    *cap = n;
    return 0;
}

void vec_free_(void **at, size_t *n, size_t *cap)
{
    free(*at);
    *at = NULL;
    *n = *cap = 0;
}
