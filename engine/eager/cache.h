/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory for an eager step: counted buffers, kept for reuse when their last user drops them.
 * Sizes are rounded up to an eighth of their power of two, so that steps of nearly equal length
 * reuse each other's buffers.
 *
 * Thread: one at a time.
 */
#ifndef ENGINE_EAGER_CACHE_H
#define ENGINE_EAGER_CACHE_H

#include "engine/device/device.h"

struct eager_buf {
    void *p; /* owned by the cache */
    size_t bytes;
    int n_ref;
    struct eager_buf *next; /* while free */
};

struct eager_cache {
    struct device *device;  /* borrowed */
    struct eager_buf *free; /* owned, ascending by size */
    size_t held_bytes, used_bytes, peak_bytes;
};

void eager_cache_init(struct eager_cache *c, struct device *d);
void eager_cache_release(struct eager_cache *c);
struct eager_buf *eager_buf_new(struct eager_cache *c, size_t bytes, struct err *e);
struct eager_buf *eager_buf_ref(struct eager_buf *b);
void eager_buf_unref(struct eager_cache *c, struct eager_buf *b); /* NULL is fine */

#endif
