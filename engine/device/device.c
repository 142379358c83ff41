/* SPDX-License-Identifier: Apache-2.0
 *
 * The face of devices: each call goes to the driver's row.
 */
#include "engine/device/device.h"

#include "engine/device/driver.h"

enum { FIRST_PIECE_NS = 1000000 }; /* until the one between two launches has been asked */

void device_free(struct device *d)
{
    if (d)
        d->driver->free(d);
}

enum device_kind device_get_kind(const struct device *d)
{
    return d->driver->kind;
}

const char *device_name(const struct device *d)
{
    return d->name;
}

const char *device_id(const struct device *d)
{
    return d->id;
}

int device_reach(struct device *d, struct device *other, struct err *e)
{
    if (d->driver->kind == other->driver->kind && d->driver->reach)
        return d->driver->reach(d, other, e);
    return err_set(e, ERR_UNSUPPORTED, "%s has no way to the memory of %s", d->name, other->name);
}

const struct kernel_table *device_kernels(const struct device *d)
{
    return &d->kernels;
}

void device_memory(const struct device *d, size_t *total_bytes, size_t *free_bytes)
{
    d->driver->memory(d, total_bytes, free_bytes);
}

int device_lanes(const struct device *d)
{
    return d->n_lane;
}

bool device_reads_host(const struct device *d)
{
    return d->driver->reads_host;
}

int device_check(const struct device *d, struct err *e)
{
    return d->driver->check ? d->driver->check(d, e) : 0;
}

void *device_alloc(struct device *d, size_t bytes, const char *what, struct err *e)
{
    return d->driver->alloc(d, bytes, what, e);
}

void *device_alloc_lazy(struct device *d, size_t bytes, const char *what, struct err *e)
{
    const struct device_driver *r = d->driver;
    return (r->alloc_lazy ? r->alloc_lazy : r->alloc)(d, bytes, what, e);
}

void device_mem_free(struct device *d, void *p)
{
    if (p)
        d->driver->mem_free(d, p);
}

int device_reserve(struct device *d, size_t bytes, const char *what, struct err *e)
{
    return bytes && d->driver->reserve ? d->driver->reserve(d, bytes, what, e) : 0;
}

void *device_host_alloc(struct device *d, size_t bytes, const char *what, struct err *e)
{
    return d->driver->host_alloc(d, bytes, what, e);
}

void device_host_free(struct device *d, void *p)
{
    if (p)
        d->driver->host_free(d, p);
}

struct stream *stream_new(struct device *d, struct err *e)
{
    return d->driver->stream_new(d, false, e);
}

struct stream *stream_new_yielding(struct device *d, struct err *e)
{
    return d->driver->stream_new(d, true, e);
}

void stream_free(struct stream *s)
{
    if (!s)
        return;
    struct device *d = s->device;
    void *room = s->room;
    d->driver->stream_free(s); /* its work, which may still read the room, is over then */
    device_host_free(d, room);
}

void *stream_room(struct stream *s, size_t bytes, struct err *e)
{
    if (bytes <= s->room_bytes)
        return s->room;
    if (stream_sync(s, e)) /* what was given may still go through the room there is */
        return NULL;
    device_host_free(s->device, s->room);
    s->room = device_host_alloc(s->device, bytes, "what passes through the host", e);
    s->room_bytes = s->room ? bytes : 0;
    return s->room;
}

struct device *stream_device(const struct stream *s)
{
    return s->device;
}

void stream_launch(struct stream *s, enum kernel_id k, const void *args, size_t bytes)
{
    s->device->driver->launch(s, k, args, bytes);
}

void stream_launch_alone(struct stream *s, enum kernel_id k, const void *args, size_t bytes)
{
    if (device_reads_host(s->device))
        kernel_run(&s->device->kernels, k, args, NULL);
    else
        stream_launch(s, k, args, bytes);
}

void stream_copy(struct stream *s, void *to, const void *from, size_t bytes, enum copy_kind kind)
{
    if (bytes)
        s->device->driver->copy(s, to, from, bytes, kind);
}

int stream_sync(struct stream *s, struct err *e)
{
    return s->device->driver->sync(s, e);
}

int stream_state(struct stream *s, struct err *e)
{
    return s->device->driver->state ? s->device->driver->state(s, e) : 0;
}

void stream_trace(struct stream *s, stream_trace_fn *fn, void *ctx)
{
    s->trace = fn;
    s->trace_ctx = ctx;
}

void stream_between(struct stream *s, stream_between_fn *fn, void *ctx)
{
    s->between = fn;
    s->between_ctx = ctx;
    s->piece_ns = FIRST_PIECE_NS;
}

void stream_rest(struct stream *s)
{
    if (s->between)
        s->piece_ns = s->between(s->between_ctx);
}

bool stream_keeps_launches(const struct stream *s)
{
    return s->device->driver->replay_begin && !s->trace && !s->between;
}

int replay_begin(struct stream *s, struct err *e)
{
    return s->device->driver->replay_begin(s, e);
}

struct replay *replay_end(struct stream *s, struct err *e)
{
    return s->device->driver->replay_end(s, e);
}

void replay_free(struct replay *r)
{
    if (r)
        r->device->driver->replay_free(r);
}

void replay_run(struct replay *r, struct stream *s)
{
    r->device->driver->replay_run(r, s);
}

struct event *event_new(struct device *d, struct err *e)
{
    return d->driver->event_new(d, e);
}

void event_free(struct event *v)
{
    if (v)
        v->device->driver->event_free(v);
}

void event_record(struct event *v, struct stream *s)
{
    v->device->driver->event_record(v, s);
}

void event_wait(struct event *v, struct stream *s)
{
    v->device->driver->event_wait(v, s);
}

int event_sync(struct event *v, struct err *e)
{
    return v->device->driver->event_sync(v, e);
}

int64_t event_ns(const struct event *from, const struct event *to)
{
    return from->device->driver->event_ns(from, to);
}
