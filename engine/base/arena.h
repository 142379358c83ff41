/* SPDX-License-Identifier: Apache-2.0
 *
 * An arena: memory of one lifetime (a request, a step, a load), taken piece by piece and given
 * back all at once. Clean-ups deferred on it (close this file, drop that reference) run in reverse
 * order when it is released, so that one call ends everything that began with it.
 *
 * The ceiling given at arena_init bounds what outside input can make it take: arena_try returns
 * NULL with ERR_TOO_LARGE past it. arena_alloc is for sizes that the program itself chose.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_BASE_ARENA_H
#define ENGINE_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "engine/base/err.h"

struct arena_chunk;
struct arena_defer;

struct arena {
    struct arena_chunk *chunk; /* owned, newest first */
    struct arena_defer *defer; /* in the chunks, newest first */
    size_t used_bytes, cap_bytes;
};

void arena_init(struct arena *a, size_t cap_bytes);
void arena_release(struct arena *a); /* runs the deferred, frees all; a may be used again */
void arena_reset(struct arena *a); /* as release, but keeps the largest chunk for the next round */

void *arena_alloc(struct arena *a, size_t bytes); /* 16-aligned, zeroed; never NULL */
void *arena_try(struct arena *a, size_t n, size_t size, struct err *e); /* bounded by the ceiling */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_defer(struct arena *a, void (*fn)(void *), void *arg);

#define ARENA_NEW(a, type)      ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

#endif
