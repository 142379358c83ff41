/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses are counted upwards from a place where no memory is; a block that is given back is
 * found by its address. Copies from the device leave what the host had.
 */
#include "engine/device/device_dry.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/device/driver.h"

enum { ALIGN_BYTES = 64 };

static const uintptr_t first_address = (uintptr_t)1 << 45;

struct dry_block {
    void *p;
    size_t bytes;
};

struct dry_device {
    struct device base;
    struct device_driver driver; /* with what the other device is */
    uintptr_t next;              /* address */
    VEC(struct dry_block) block;
    size_t used, peak;
};

static struct dry_device *dry_of(const struct device *d)
{
    return (struct dry_device *)(uintptr_t)d;
}

static void note(struct dry_device *d, void *p, size_t bytes)
{
    vec_push(&d->block, (struct dry_block){p, bytes});
    d->used += bytes;
    d->peak = d->used > d->peak ? d->used : d->peak;
}

static void forget(struct dry_device *d, const void *p)
{
    for (size_t i = 0; i < d->block.n; i++) {
        if (d->block.at[i].p != p)
            continue;
        d->used -= d->block.at[i].bytes;
        d->block.at[i] = d->block.at[--d->block.n];
        return;
    }
    BUG("memory that was not given");
}

static void *dry_alloc(struct device *base, size_t bytes, const char *what, struct err *e)
{
    struct dry_device *d = dry_of(base);
    size_t room = (bytes / ALIGN_BYTES + 1) * ALIGN_BYTES;
    if (bytes > (size_t)PTRDIFF_MAX / 2 || room > UINTPTR_MAX / 2 - d->next) {
        err_set(e, ERR_NO_MEMORY, "%s: more memory than can be counted", what);
        return NULL;
    }
    void *p = (void *)d->next;
    d->next += room;
    note(d, p, bytes);
    return p;
}

static void dry_mem_free(struct device *d, void *p)
{
    forget(dry_of(d), p);
}

static void *dry_host_alloc(struct device *d, size_t bytes, const char *what, struct err *e)
{
    void *p = try_alloc(1, bytes, what, e);
    if (p)
        note(dry_of(d), p, d->driver->reads_host ? bytes : 0);
    return p;
}

static void dry_host_free(struct device *d, void *p)
{
    forget(dry_of(d), p);
    mem_free(p);
}

static void dry_memory(const struct device *d, size_t *total_bytes, size_t *free_bytes)
{
    *total_bytes = *free_bytes = SIZE_MAX - dry_of(d)->used;
}

static struct stream *dry_stream_new(struct device *d, bool yields, struct err *e)
{
    (void)yields;
    struct stream *s = try_alloc(1, sizeof *s, "stream", e);
    if (s)
        s->device = d;
    return s;
}

static void dry_stream_free(struct stream *s)
{
    mem_free(s);
}

static void dry_launch(struct stream *s, enum kernel_id k, const void *args, size_t bytes)
{
    (void)s, (void)k, (void)args, (void)bytes;
}

static void dry_copy(struct stream *s, void *to, const void *from, size_t bytes,
                     enum copy_kind kind)
{
    (void)s, (void)to, (void)from, (void)bytes, (void)kind;
}

static int dry_sync(struct stream *s, struct err *e)
{
    (void)s, (void)e;
    return 0;
}

static struct event *dry_event_new(struct device *d, struct err *e)
{
    struct event *v = try_alloc(1, sizeof *v, "event", e);
    if (v)
        v->device = d;
    return v;
}

static void dry_event_free(struct event *v)
{
    mem_free(v);
}

static void dry_event_mark(struct event *v, struct stream *s)
{
    (void)v, (void)s;
}

static int dry_event_sync(struct event *v, struct err *e)
{
    (void)v, (void)e;
    return 0;
}

static int64_t dry_event_ns(const struct event *from, const struct event *to)
{
    (void)from, (void)to;
    return 0;
}

static void dry_free(struct device *base)
{
    struct dry_device *d = dry_of(base);
    vec_release(&d->block);
    free(d);
}

static const struct device_driver driver = {
    .free = dry_free,
    .memory = dry_memory,
    .alloc = dry_alloc,
    .mem_free = dry_mem_free,
    .host_alloc = dry_host_alloc,
    .host_free = dry_host_free,
    .stream_new = dry_stream_new,
    .stream_free = dry_stream_free,
    .launch = dry_launch,
    .copy = dry_copy,
    .sync = dry_sync,
    .event_new = dry_event_new,
    .event_free = dry_event_free,
    .event_record = dry_event_mark,
    .event_wait = dry_event_mark,
    .event_sync = dry_event_sync,
    .event_ns = dry_event_ns,
};

struct device *device_dry_new(const struct device *like)
{
    struct dry_device *d = xcalloc(1, sizeof *d);
    d->driver = driver;
    d->driver.kind = like->driver->kind;
    d->driver.reads_host = like->driver->reads_host;
    d->base = *like;
    d->base.driver = &d->driver;
    d->next = first_address;
    return &d->base;
}

size_t device_dry_bytes(const struct device *d)
{
    return dry_of(d)->used;
}

size_t device_dry_peak(const struct device *d)
{
    return dry_of(d)->peak;
}
