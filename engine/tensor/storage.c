/* SPDX-License-Identifier: Apache-2.0
 *
 * A count beside a device's memory. The device outlives its storage.
 */
#include "engine/tensor/storage.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "engine/base/mem.h"

struct storage {
    _Atomic size_t n_ref;
    struct device *device; /* borrowed */
    void *data;            /* owned, unless end is the owner's */
    size_t bytes;
    void (*end)(void *ctx);
    void *ctx; /* borrowed */
};

static struct storage *make(struct device *d, void *data, size_t bytes, void (*end)(void *),
                            void *ctx)
{
    struct storage *s = xmalloc(sizeof *s);
    *s = (struct storage){
        .n_ref = 1, .device = d, .data = data, .bytes = bytes, .end = end, .ctx = ctx};
    return s;
}

struct storage *storage_new(struct device *d, size_t bytes, const char *what, struct err *e)
{
    void *data = device_alloc(d, bytes, what, e);
    return data ? make(d, data, bytes, NULL, NULL) : NULL;
}

static void keep(void *ctx)
{
    (void)ctx;
}

struct storage *storage_wrap(struct device *d, void *data, size_t bytes, void (*end)(void *ctx),
                             void *ctx)
{
    return make(d, data, bytes, end ? end : keep, ctx);
}

struct storage *storage_ref(struct storage *s)
{
    size_t before = atomic_fetch_add_explicit(&s->n_ref, 1, memory_order_relaxed);
    ASSERT(before > 0);
    return s;
}

void storage_unref(struct storage *s)
{
    if (!s)
        return;
    size_t before = atomic_fetch_sub(&s->n_ref, 1);
    ASSERT(before > 0);
    if (before > 1)
        return;
    if (s->end)
        s->end(s->ctx);
    else
        device_mem_free(s->device, s->data);
    free(s);
}

struct device *storage_device(const struct storage *s)
{
    return s->device;
}

void *storage_data(const struct storage *s)
{
    return s->data;
}

size_t storage_bytes(const struct storage *s)
{
    return s->bytes;
}
