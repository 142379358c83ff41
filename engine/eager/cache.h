/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory for eager steps: counted buffers, cut from a few large slabs. A buffer's neighbours
 * in its slab are known, so what is given back joins the free room beside it, and steps of other
 * lengths find room as well. Slabs are large, so that the system backs them with large pages; they
 * stay until the end, so that a step like one before asks the device for nothing.
 *
 * A cache can have a ceiling. Who comes to it, or to the device's, first gives back the slabs that
 * nobody uses, which were cut for steps of another length.
 *
 * The first free room that is large enough is taken, and by what lasts the end of the last one: a
 * step's values stand as a pile that goes from its top, and gradients, which stay, fill up from the
 * other side. Among each other they would leave gaps, up to a fifth of all. What a step is given
 * depends on its own calls and on what stood before alone.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_EAGER_CACHE_H
#define ENGINE_EAGER_CACHE_H

#include "engine/base/vec.h"
#include "engine/device/device.h"

struct eager_buf {
    void *p; /* in a slab */
    size_t bytes;
    int n_ref;                     /* 0: free */
    int slab;                      /* which */
    bool is_whole;                 /* a large one: it is its slab, and is not cut */
    struct eager_buf *prev, *next; /* neighbours in the slab, ascending; owned by the cache */
    struct eager_buf *free_prev, *free_next; /* while free */
};

struct eager_slab {
    void *block;             /* owned */
    struct eager_buf *first; /* owned, as all that follow it */
};

struct eager_cache {
    struct device *device; /* borrowed */
    VEC(struct eager_slab) slab;
    struct eager_buf *free; /* borrowed: in no order */
    size_t held_bytes, used_bytes, peak_bytes;
    size_t most_bytes; /* to be held; 0: no ceiling */
};

void eager_cache_init(struct eager_cache *c, struct device *d);
void eager_cache_release(struct eager_cache *c);
void eager_cache_trim(struct eager_cache *c); /* gives slabs back that nobody uses */
struct eager_buf *eager_buf_new(struct eager_cache *c, size_t bytes, struct err *e);
/* For what outlasts the values that are there. */
struct eager_buf *eager_buf_new_lasting(struct eager_cache *c, size_t bytes, struct err *e);
struct eager_buf *eager_buf_ref(struct eager_buf *b);
void eager_buf_unref(struct eager_cache *c, struct eager_buf *b); /* NULL is fine */

#endif
