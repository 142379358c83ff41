/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device has to bring. A driver fills one table, and its own structs begin with the ones
 * here; engine/device/device.c is the face in front of it.
 *
 * Thread: as the functions of engine/device/device.h that they serve.
 */
#ifndef ENGINE_DEVICE_DRIVER_H
#define ENGINE_DEVICE_DRIVER_H

#include "engine/device/device.h"
#include "engine/device/rail.h"

/* As the functions of engine/device/rail.h. */
struct rail_driver {
    int (*check)(char *about, size_t size, struct err *e);
    int (*id_make)(struct device *d, struct rail_id *id, struct err *e);
    struct rail *(*make)(struct device *d, const struct rail_options *o, struct err *e);
    void (*free)(struct rail *r);
    void (*gather)(struct rail *r, struct stream *s, const void *in, void *out, size_t bytes,
                   int64_t longer_ns);
    void (*exchange)(struct rail *r, struct stream *s, const void *in, void *out, size_t part,
                     size_t all, int64_t longer_ns);
    int (*state)(struct rail *r, struct err *e);
};

struct device_driver {
    enum device_kind kind;
    bool reads_host;

    void (*free)(struct device *d);
    void (*memory)(const struct device *d, size_t *total_bytes, size_t *free_bytes);
    void *(*alloc)(struct device *d, size_t bytes, const char *what, struct err *e);
    /* NULL: alloc does */
    void *(*alloc_lazy)(struct device *d, size_t bytes, const char *what, struct err *e);
    void (*mem_free)(struct device *d, void *p);
    /* NULL: memory is there when it is touched */
    int (*reserve)(struct device *d, size_t bytes, const char *what, struct err *e);
    void *(*host_alloc)(struct device *d, size_t bytes, const char *what, struct err *e);
    void (*host_free)(struct device *d, void *p);

    int (*check)(const struct device *d, struct err *e); /* NULL: it cannot break */

    struct stream *(*stream_new)(struct device *d, bool yields, struct err *e);
    void (*stream_free)(struct stream *s);
    void (*launch)(struct stream *s, enum kernel_id k, const void *args, size_t bytes);
    void (*copy)(struct stream *s, void *to, const void *from, size_t bytes, enum copy_kind kind);
    int (*sync)(struct stream *s, struct err *e);
    int (*state)(struct stream *s, struct err *e); /* NULL: sync alone knows */

    struct event *(*event_new)(struct device *d, struct err *e);
    void (*event_free)(struct event *v);
    void (*event_record)(struct event *v, struct stream *s);
    void (*event_wait)(struct event *v, struct stream *s);
    int (*event_sync)(struct event *v, struct err *e);
    int64_t (*event_ns)(const struct event *from, const struct event *to);

    /* all or none of these four */
    int (*replay_begin)(struct stream *s, struct err *e);
    struct replay *(*replay_end)(struct stream *s, struct err *e);
    void (*replay_free)(struct replay *r);
    void (*replay_run)(struct replay *r, struct stream *s);

    int (*reach)(struct device *d, struct device *other, struct err *e); /* NULL: none */
    const struct rail_driver *rail;                                      /* NULL: none */
};

struct device {
    const struct device_driver *driver; /* constant */
    char name[96];
    char id[DEVICE_ID_BYTES];
    int n_lane;
    struct kernel_table kernels;
};

struct stream {
    struct device *device; /* borrowed */
    stream_trace_fn *trace;
    void *trace_ctx; /* borrowed */
    stream_between_fn *between;
    void *between_ctx; /* borrowed */
    void *room;        /* owned: memory of device_host_alloc */
    size_t room_bytes;
    int64_t piece_ns; /* what the next launch may take, where there is a between */
};

struct event {
    struct device *device; /* borrowed */
};

struct replay {
    struct device *device; /* borrowed */
};

struct rail {
    struct device *device; /* borrowed */
};

#endif
