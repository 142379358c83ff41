/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of eager steps: best fit from a sorted list of free ones.
 */
#include "engine/eager/cache.h"

#include <stdlib.h>

#include "engine/base/mem.h"

enum { SMALLEST_BYTES = 256, STEPS_PER_DOUBLING = 8 };

static size_t rounded(size_t bytes)
{
    size_t power = SMALLEST_BYTES, step;
    while (power < bytes / 2)
        power *= 2;
    step = power / STEPS_PER_DOUBLING;
    return bytes < SMALLEST_BYTES ? SMALLEST_BYTES : (bytes + step - 1) / step * step;
}

void eager_cache_init(struct eager_cache *c, struct device *d)
{
    *c = (struct eager_cache){.device = d};
}

void eager_cache_release(struct eager_cache *c)
{
    while (c->free) {
        struct eager_buf *b = c->free;
        c->free = b->next;
        device_mem_free(c->device, b->p);
        free(b);
    }
}

struct eager_buf *eager_buf_new(struct eager_cache *c, size_t bytes, struct err *e)
{
    size_t want = rounded(bytes);
    struct eager_buf **at = &c->free, *b;
    while (*at && (*at)->bytes < want)
        at = &(*at)->next;
    b = *at;
    if (b && b->bytes <= want + want / STEPS_PER_DOUBLING) {
        *at = b->next;
    } else {
        void *p = device_alloc(c->device, want, "a value of a training step", e);
        if (!p)
            return NULL;
        b = xcalloc(1, sizeof *b);
        *b = (struct eager_buf){.p = p, .bytes = want};
        c->held_bytes += want;
    }
    b->n_ref = 1;
    b->next = NULL;
    c->used_bytes += b->bytes;
    if (c->used_bytes > c->peak_bytes)
        c->peak_bytes = c->used_bytes;
    return b;
}

struct eager_buf *eager_buf_ref(struct eager_buf *b)
{
    b->n_ref++;
    return b;
}

void eager_buf_unref(struct eager_cache *c, struct eager_buf *b)
{
    struct eager_buf **at = &c->free;
    if (!b || --b->n_ref > 0)
        return;
    c->used_bytes -= b->bytes;
    while (*at && (*at)->bytes < b->bytes)
        at = &(*at)->next;
    b->next = *at;
    *at = b;
}
