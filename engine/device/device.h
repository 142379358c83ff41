/* SPDX-License-Identifier: Apache-2.0
 *
 * A device: memory of its own, a table of kernels, and streams on which work is ordered. The CPU is
 * one; a GPU plugs in with another vtable. Nothing above the kernels reads through a device
 * pointer: what the host wants to see is copied, and a copy is ordered like any launch.
 *
 * On the CPU a launch runs at once, cut over the compute threads, and a sync finds nothing to wait
 * for. Errors of launches and copies are found at the next stream_sync; up to there nothing more of
 * what the stream is given runs, nor of streams that wait for it. After ERR_DEVICE the device may
 * not be usable any more.
 *
 * Thread: a stream belongs to one thread at a time; alloc and free from any. Streams of the CPU
 * share its compute threads: who launches holds the gate (engine/base/gate.h), or is the only one.
 */
#ifndef ENGINE_DEVICE_DEVICE_H
#define ENGINE_DEVICE_DEVICE_H

#include "engine/base/err.h"
#include "engine/base/pool.h"
#include "kernels/kernels.h"

struct device;
struct stream;

enum device_kind { DEVICE_CPU, DEVICE_CUDA };

/* The CPU over a pool, which it borrows; `kernels` as in kernel_table_init. */
struct device *device_cpu_new(struct pool *pool, const char *kernels, struct err *e);
void device_free(struct device *d);

enum device_kind device_get_kind(const struct device *d);
const char *device_name(const struct device *d);

/* Two devices with the same id are one GPU, whichever process sees it; "": not a GPU's. */
enum { DEVICE_ID_BYTES = 40 };
const char *device_id(const struct device *d);

/* From here on streams of d may copy from the memory of `other`, a device of the same kind in this
 * process; -1: there is no way. */
int device_reach(struct device *d, struct device *other, struct err *e);

/* The kernels of the host, for its own memory: beside a GPU they are still the CPU's. */
const struct kernel_table *device_kernels(const struct device *d);
void device_memory(const struct device *d, size_t *total_bytes, size_t *free_bytes);

/* 0, or ERR_DEVICE and what made it unusable: until the process ends nothing runs on it. */
int device_check(const struct device *d, struct err *e);

/* Zeroed, 64-aligned (at least) memory of the device; `what` names it in the error. */
void *device_alloc(struct device *d, size_t bytes, const char *what, struct err *e);
/* As device_alloc, for room of which much may never be used: a CPU takes its pages one by one, as
 * they are touched, where a huge one for each place that is used would be far more. */
void *device_alloc_lazy(struct device *d, size_t bytes, const char *what, struct err *e);
/* What streams were given before may still use it; it comes back behind that. NULL is fine. */
void device_mem_free(struct device *d, void *p);
/* Takes so many bytes from the system now, beside what is in use, for what device_alloc will be
 * asked for; `what` names them in the error. A CPU takes pages as they are touched. */
int device_reserve(struct device *d, size_t bytes, const char *what, struct err *e);

/* Zeroed memory of the host from which the device copies without a detour, and beside which the
 * host may go on until the stream is synced. */
void *device_host_alloc(struct device *d, size_t bytes, const char *what, struct err *e);
void device_host_free(struct device *d, void *p); /* NULL is fine */

/* How many units of a launch run at once: compute threads. */
int device_lanes(const struct device *d);

/* Whether kernels may read the host's memory, such as a mapped file, without a copy. */
bool device_reads_host(const struct device *d);

struct stream *stream_new(struct device *d, struct err *e);
struct stream *stream_new_yielding(struct device *d, struct err *e); /* others' work goes first */
void stream_free(struct stream *s);
struct device *stream_device(const struct stream *s);

/* args is the kernel's struct k_<name> of `bytes` bytes; copied where the launch is not at once.
 * Every pointer in it is the device's. */
typedef void stream_launch_fn(struct stream *s, enum kernel_id k, const void *args, size_t bytes);
stream_launch_fn stream_launch;
/* The same for who does not hold the gate: the CPU's work is done by the caller's thread alone. Of
 * kernels without scratch. */
stream_launch_fn stream_launch_alone;

enum copy_kind { COPY_TO_DEVICE, COPY_FROM_DEVICE, COPY_ON_DEVICE };

void stream_copy(struct stream *s, void *to, const void *from, size_t bytes, enum copy_kind kind);
int stream_sync(struct stream *s, struct err *e); /* all done so far; the first error since */

/* 0, or what failed already of what s was given, as its next sync will say; waits for nothing. */
int stream_state(struct stream *s, struct err *e);

/* Memory of the host that is the stream's, of at least so many bytes, for what must pass through
 * it; the stream is synced before the host reads or writes there. */
void *stream_room(struct stream *s, size_t bytes, struct err *e);

/* Sees every launch that a stream ran: for profiles. NULL takes it away. */
typedef void stream_trace_fn(void *ctx, enum kernel_id k, struct k_shape shape, int64_t ns);
void stream_trace(struct stream *s, stream_trace_fn *fn, void *ctx);

/* Calls fn behind every launch, which says how many nanoseconds the next may take; a launch that
 * would take longer is given out in several, which changes no bit. For work that lets others go
 * first. Less than 0, on the CPU: nothing more that the stream is given runs, up to the next
 * stream_between. NULL: no more. */
typedef int64_t stream_between_fn(void *ctx);
void stream_between(struct stream *s, stream_between_fn *fn, void *ctx);
void stream_rest(struct stream *s); /* calls it, if it is set: in long work of the host's own */

/* Launches that are kept, to be given again in one call. Between replay_begin and replay_end what
 * the stream is given (launches and copies on the device, no sync) is kept and does not run. It
 * reads its arguments' memory anew each time. */
struct replay;
bool stream_keeps_launches(const struct stream *s); /* now: nobody watches each launch */
int replay_begin(struct stream *s, struct err *e);
struct replay *replay_end(struct stream *s, struct err *e);
void replay_free(struct replay *r);
void replay_run(struct replay *r, struct stream *s);

/* A mark in the order of a stream. Another stream's later work can wait for it, or the host. */
struct event;
struct event *event_new(struct device *d, struct err *e);
void event_free(struct event *v);
void event_record(struct event *v, struct stream *s); /* behind what s was given so far */
void event_wait(struct event *v, struct stream *s);   /* s goes on behind the mark */
/* The host does; the first error of what the stream was given up to the mark, which the stream's
 * next sync tells again. */
int event_sync(struct event *v, struct err *e);
int64_t event_ns(const struct event *from, const struct event *to); /* both synced */

#endif
