/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of eager steps: the first free room that is large enough, neighbours joined when
 * given back.
 */
#include "engine/eager/cache.h"

#include <stdlib.h>

#include "engine/base/mem.h"

enum { ALIGN_BYTES = 64, SLAB_LEAST_BYTES = 64 << 10, SLAB_MOST_BYTES = 64 << 20 };

void eager_cache_init(struct eager_cache *c, struct device *d)
{
    *c = (struct eager_cache){.device = d};
}

void eager_cache_release(struct eager_cache *c)
{
    for (size_t i = 0; i < c->slab.n; i++) {
        struct eager_buf *b = c->slab.at[i].first, *next;
        for (; b; b = next) {
            next = b->next;
            free(b);
        }
        device_mem_free(c->device, c->slab.at[i].block);
    }
    vec_release(&c->slab);
}

static void list_add(struct eager_cache *c, struct eager_buf *b)
{
    b->free_prev = NULL;
    b->free_next = c->free;
    if (c->free)
        c->free->free_prev = b;
    c->free = b;
}

static void list_remove(struct eager_cache *c, struct eager_buf *b)
{
    if (b->free_next)
        b->free_next->free_prev = b->free_prev;
    if (b->free_prev)
        b->free_prev->free_next = b->free_next;
    else
        c->free = b->free_next;
}

/* A buffer that would fill a slab has one of its own, which no small one may take a part of: a
 * head's gradient finds its room again in the next step. Not more than half of it is wasted. */
static bool fits(const struct eager_buf *b, size_t want)
{
    bool is_large = want > SLAB_MOST_BYTES;
    return b->is_whole == is_large && b->bytes >= want && (!is_large || b->bytes / 2 < want);
}

/* Slabs in the order in which they were made, then addresses. */
static bool is_before(const struct eager_buf *a, const struct eager_buf *b)
{
    return a->slab != b->slab ? a->slab < b->slab : (char *)a->p < (char *)b->p;
}

static struct eager_buf *find(const struct eager_cache *c, size_t want, bool lasts)
{
    struct eager_buf *best = NULL;
    for (struct eager_buf *b = c->free; b; b = b->free_next)
        if (fits(b, want) && (!best || is_before(b, best) != lasts))
            best = b;
    return best;
}

/* Slabs grow with what is held, so that a small model's are small and a large one's are few. */
static size_t slab_bytes(const struct eager_cache *c, size_t want)
{
    size_t bytes = c->held_bytes;
    bytes = bytes < SLAB_LEAST_BYTES ? SLAB_LEAST_BYTES : bytes;
    bytes = bytes > SLAB_MOST_BYTES ? SLAB_MOST_BYTES : bytes;
    return bytes < want || want > SLAB_MOST_BYTES ? want : bytes;
}

static bool is_idle(const struct eager_slab *s)
{
    return s->first->n_ref == 0 && !s->first->next;
}

/* Gives slab i, which is idle, back. Those behind it move up. */
static void drop_slab(struct eager_cache *c, size_t i)
{
    struct eager_buf *b = c->slab.at[i].first;
    list_remove(c, b);
    c->held_bytes -= b->bytes;
    device_mem_free(c->device, c->slab.at[i].block);
    free(b);
    for (c->slab.n--; i < c->slab.n; i++) {
        c->slab.at[i] = c->slab.at[i + 1];
        for (b = c->slab.at[i].first; b; b = b->next)
            b->slab = (int)i;
    }
}

static bool drop_idle(struct eager_cache *c)
{
    size_t before = c->slab.n;
    for (size_t i = before; i-- > 0;)
        if (is_idle(&c->slab.at[i]))
            drop_slab(c, i);
    return c->slab.n < before;
}

void eager_cache_trim(struct eager_cache *c)
{
    drop_idle(c);
}

/* A slab that still fits under the ceiling, of *bytes or, where they are too many, of fewer. */
static void *try_slab(struct eager_cache *c, size_t want, size_t *bytes, struct err *e)
{
    size_t left = c->most_bytes > c->held_bytes ? c->most_bytes - c->held_bytes : 0;
    *bytes = slab_bytes(c, want);
    if (c->most_bytes && *bytes > left)
        *bytes = left / ALIGN_BYTES * ALIGN_BYTES;
    if (*bytes >= want)
        return device_alloc(c->device, *bytes, "the values of a training step", e);
    err_set(e, ERR_NO_MEMORY,
            "the values of a training step take %.1f MB more than the %.1f MB that were planned "
            "for them, of which %.1f MB are in use",
            (double)(want - *bytes) / 1e6, (double)c->most_bytes / 1e6,
            (double)c->used_bytes / 1e6);
    return NULL;
}

static struct eager_buf *new_slab(struct eager_cache *c, size_t want, struct err *e)
{
    size_t bytes;
    struct err none = ERR_INIT;
    struct eager_slab s = {.block = try_slab(c, want, &bytes, &none)};
    if (!s.block && none.code == ERR_NO_MEMORY && drop_idle(c))
        s.block = try_slab(c, want, &bytes, e);
    else if (!s.block)
        err_set(e, none.code, "%s", none.msg);
    if (!s.block)
        return NULL;
    s.first = xcalloc(1, sizeof *s.first);
    *s.first = (struct eager_buf){
        .p = s.block, .bytes = bytes, .slab = (int)c->slab.n, .is_whole = want > SLAB_MOST_BYTES};
    vec_push(&c->slab, s);
    list_add(c, s.first);
    c->held_bytes += bytes;
    return s.first;
}

/* What b has more than it needs becomes a free neighbour behind it. */
static void cut(struct eager_cache *c, struct eager_buf *b, size_t want)
{
    if (b->bytes == want || b->is_whole)
        return;
    struct eager_buf *rest = xcalloc(1, sizeof *rest);
    *rest = (struct eager_buf){.p = (char *)b->p + want,
                               .bytes = b->bytes - want,
                               .prev = b,
                               .next = b->next,
                               .slab = b->slab};
    if (rest->next)
        rest->next->prev = rest;
    b->next = rest;
    b->bytes = want;
    list_add(c, rest);
}

static struct eager_buf *take(struct eager_cache *c, size_t bytes, bool lasts, struct err *e)
{
    size_t want = bytes ? (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES : ALIGN_BYTES;
    struct eager_buf *b = find(c, want, lasts);
    if (!b)
        b = new_slab(c, want, e);
    if (!b)
        return NULL;
    if (lasts && b->bytes > want && !b->is_whole) {
        cut(c, b, b->bytes - want);
        b = b->next;
    }
    list_remove(c, b);
    cut(c, b, want);
    b->n_ref = 1;
    c->used_bytes += b->bytes;
    if (c->used_bytes > c->peak_bytes)
        c->peak_bytes = c->used_bytes;
    return b;
}

struct eager_buf *eager_buf_new(struct eager_cache *c, size_t bytes, struct err *e)
{
    return take(c, bytes, false, e);
}

struct eager_buf *eager_buf_new_lasting(struct eager_cache *c, size_t bytes, struct err *e)
{
    return take(c, bytes, true, e);
}

struct eager_buf *eager_buf_ref(struct eager_buf *b)
{
    b->n_ref++;
    return b;
}

/* b takes in the room of the one behind it, where both are free. */
static void join(struct eager_cache *c, struct eager_buf *b)
{
    struct eager_buf *gone = b->next;
    if (!gone || gone->n_ref > 0 || b->n_ref > 0)
        return;
    list_remove(c, gone);
    b->bytes += gone->bytes;
    b->next = gone->next;
    if (b->next)
        b->next->prev = b;
    free(gone);
}

void eager_buf_unref(struct eager_cache *c, struct eager_buf *b)
{
    struct eager_buf *before;
    if (!b || --b->n_ref > 0)
        return;
    c->used_bytes -= b->bytes;
    before = b->prev;
    list_add(c, b);
    join(c, b);
    if (before)
        join(c, before);
}
