/* SPDX-License-Identifier: Apache-2.0
 *
 * Two counters that only grow; their difference is the fill, their low bits the place. The side
 * that owns a counter stores it with release, the other loads it with acquire, and that orders the
 * element's bytes.
 */
#include "engine/base/ring.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/mem.h"

enum { LINE = 64 };

struct ring {
    size_t cap, elem_bytes; /* cap: a power of two */

    alignas(LINE) _Atomic size_t tail; /* pushed; the pusher's */
    size_t head_seen;

    alignas(LINE) _Atomic size_t head; /* popped; the popper's */
    size_t tail_seen;

    alignas(LINE) char at[]; /* [cap, elem_bytes] */
};

struct ring *ring_new(size_t cap, size_t elem_bytes)
{
    size_t n = 1;
    while (n < cap)
        n *= 2;
    struct err e = ERR_INIT;
    struct ring *r = try_alloc(1, sizeof *r + n * elem_bytes, "ring", &e);
    if (!r)
        BUG("%s", e.msg);
    r->cap = n;
    r->elem_bytes = elem_bytes;
    return r;
}

void ring_free(struct ring *r)
{
    mem_free(r);
}

static char *place(struct ring *r, size_t i)
{
    return r->at + (i & (r->cap - 1)) * r->elem_bytes;
}

bool ring_push(struct ring *r, const void *elem)
{
    size_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    if (tail - r->head_seen == r->cap) {
        r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
        if (tail - r->head_seen == r->cap)
            return false;
    }
    memcpy(place(r, tail), elem, r->elem_bytes);
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}

bool ring_pop(struct ring *r, void *elem)
{
    size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    if (head == r->tail_seen) {
        r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
        if (head == r->tail_seen)
            return false;
    }
    memcpy(elem, place(r, head), r->elem_bytes);
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    return true;
}

/* The head first: it never passes the tail, so the difference is not below zero. */
size_t ring_count(const struct ring *r)
{
    size_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    size_t n = atomic_load_explicit(&r->tail, memory_order_acquire) - head;
    return n < r->cap ? n : r->cap;
}
