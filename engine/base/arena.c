/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks in a list, each twice as large as the one before until CHUNK_MAX; a piece that does not
 * fit gets a chunk at least as large as itself. In the instrumented builds each piece has a chunk
 * of its own, so that a write past its end, or a use after the reset, is seen.
 */
#include "engine/base/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

enum { ALIGN = 16, CHUNK_MIN = 4 << 10, CHUNK_MAX = 1 << 20, FILL_FREED = 0xff };

#if defined(__SANITIZE_ADDRESS__) || defined(TANDEM_PARANOID)
static const bool shares_chunks = false;
#else
static const bool shares_chunks = true;
#endif

struct arena_chunk {
    struct arena_chunk *next; /* owned */
    size_t len, cap;          /* of at */
    alignas(ALIGN) char at[];
};

struct arena_defer {
    struct arena_defer *next;
    void (*fn)(void *);
    void *arg;
};

void arena_init(struct arena *a, size_t cap_bytes)
{
    *a = (struct arena){.cap_bytes = cap_bytes};
}

static void run_deferred(struct arena *a)
{
    while (a->defer) { /* one of them may defer another */
        struct arena_defer *d = a->defer;
        a->defer = d->next;
        d->fn(d->arg);
    }
}

static void free_chunks(struct arena *a, const struct arena_chunk *keep)
{
    for (struct arena_chunk *c = a->chunk, *next; c; c = next) {
        next = c->next;
        if (c == keep)
            continue;
        if (!shares_chunks)
            memset(c->at, FILL_FREED, c->cap);
        free(c);
    }
}

void arena_release(struct arena *a)
{
    run_deferred(a);
    free_chunks(a, NULL);
    arena_init(a, a->cap_bytes);
}

void arena_reset(struct arena *a)
{
    run_deferred(a);
    struct arena_chunk *keep = shares_chunks ? a->chunk : NULL;
    for (struct arena_chunk *c = keep; c; c = c->next)
        if (c->cap > keep->cap)
            keep = c;
    free_chunks(a, keep);
    arena_init(a, a->cap_bytes);
    if (keep) {
        keep->next = NULL;
        keep->len = 0;
        a->chunk = keep;
    }
}

static size_t chunk_size(const struct arena *a, size_t piece)
{
    if (!shares_chunks)
        return piece;
    size_t cap = CHUNK_MIN;
    if (a->chunk)
        cap = a->chunk->cap < CHUNK_MAX / 2 ? a->chunk->cap * 2 : CHUNK_MAX;
    return cap < piece ? piece : cap;
}

/* A zeroed piece; NULL when there is no memory and `must` is false. */
static void *piece_get(struct arena *a, size_t bytes, bool must)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t step = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct arena_chunk *c = a->chunk;
    if (!c || step > c->cap - c->len) {
        size_t cap = chunk_size(a, shares_chunks ? step : bytes);
        c = must ? xmalloc(sizeof *c + cap) : try_resize(NULL, sizeof *c + cap, "arena", NULL);
        if (!c)
            return NULL;
        *c = (struct arena_chunk){.next = a->chunk, .cap = cap};
        a->chunk = c;
    }
    void *p = c->at + c->len;
    c->len = step < c->cap - c->len ? c->len + step : c->cap;
    a->used_bytes += bytes;
    return memset(p, 0, bytes);
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    void *p = piece_get(a, bytes, true);
    ASSERT(p);
    return p;
}

void *arena_try(struct arena *a, size_t n, size_t size, struct err *e)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || a->used_bytes > a->cap_bytes ||
        bytes > a->cap_bytes - a->used_bytes) {
        err_set(e, ERR_TOO_LARGE,
                "%zu times %zu bytes more than the %zu used pass the limit of %zu", n, size,
                a->used_bytes, a->cap_bytes);
        return NULL;
    }
    void *p = piece_get(a, bytes, false);
    if (!p)
        err_set(e, ERR_NO_MEMORY, "no memory for %zu bytes", bytes);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = arena_alloc(a, len + 1);
    memcpy(copy, s, len);
    return copy;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    ASSERT(n >= 0);
    char *s = arena_alloc(a, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

void arena_defer(struct arena *a, void (*fn)(void *), void *arg)
{
    struct arena_defer *d = ARENA_NEW(a, struct arena_defer);
    *d = (struct arena_defer){.next = a->defer, .fn = fn, .arg = arg};
    a->defer = d;
}
