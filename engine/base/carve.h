/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts one block into arrays, one behind the other, each at a cache line. The same function lays a
 * block out and measures it: without a base all arrays are NULL and `at` becomes the bytes that the
 * block needs.
 *
 *     struct carve c = {.base = base};
 *     x->id = carve(&c, n, sizeof *x->id);
 *     x->top = carve(&c, n * k, sizeof *x->top);
 *     return c.at;
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_BASE_CARVE_H
#define ENGINE_BASE_CARVE_H

#include <stddef.h>
#include <stdint.h>

enum { CARVE_ALIGN = 64 };

struct carve {
    char *base; /* borrowed, CARVE_ALIGN aligned; NULL: only measured */
    size_t at;  /* bytes so far */
};

/* The next n elements of `size` bytes: of something that fits memory. */
static inline void *carve(struct carve *c, int64_t n, size_t size)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += ((size_t)n * size + CARVE_ALIGN - 1) / CARVE_ALIGN * CARVE_ALIGN;
    return p;
}

#endif
