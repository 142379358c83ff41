/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the CUDA plug share: a GPU as a device, its streams and marks. Plain C over
 * CUDA's runtime; kernels are put on a stream by kernels/cuda/launch.h.
 *
 * Memory comes from a stream-ordered pool of the device's own, which keeps what is given back, and
 * is filled ahead by cuda_reserve. It is given out and taken back on a stream of the device's,
 * `keeper`; what is given back waits there for all that the other streams were given before. `lock`
 * orders this against streams that come and go, and against a capture, into which no mark of
 * another thread may fall.
 *
 * An answer of CUDA's other than success is kept by the stream it belongs to until the next sync.
 * Up to there neither it nor a stream that waits for its marks is given anything: what comes behind
 * might go by places and counts that were never brought, and other ranks would take sums that are
 * none. One that stays, whatever is called next, is the end of the device in this process: `dead`.
 *
 * Thread: as engine/device/driver.h.
 */
#ifndef ENGINE_DEVICE_CUDA_CUDA_H
#define ENGINE_DEVICE_CUDA_CUDA_H

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/device/driver.h"
#include "engine/device/plug.h"

enum { CUDA_PACE = 8 }; /* launches between two marks of a stream that yields */

struct cuda_stream;
struct cuda_rail;

struct cuda_device {
    struct device base;          /* first */
    struct device_driver driver; /* the table of all, with rails where there are */
    int index;
    int priority_low, priority_high;
    struct k_shape (*shape)(enum kernel_id id, const void *args);
    cudaStream_t keeper;
    cudaMemPool_t pool;          /* owned; of this device alone, also where others are on its GPU */
    cudaEvent_t order;           /* under lock */
    struct cuda_stream *streams; /* under lock */
    pthread_mutex_t lock;
    _Atomic(struct cuda_rail *) rails; /* of rail.c; NULL: none */
    _Atomic int dead;                  /* the cudaError_t that stays; 0: none */
};

struct cuda_stream {
    struct stream base; /* first */
    cudaStream_t at;
    cudaEvent_t from, to; /* around a launch that is traced */
    cudaEvent_t pace[2];  /* behind the launches before, where it yields */
    unsigned n_launch;
    bool is_kept,
        has_rail;         /* between replay_begin and replay_end; a rail was among what was given */
    int first_error;      /* cudaError_t since the last sync */
    const char *first_at; /* what answered so */
    struct cuda_stream *next; /* of the device's */
};

struct cuda_event {
    struct event base; /* first */
    cudaEvent_t at;
    const struct cuda_stream *on; /* borrowed: where it was put last; NULL: nowhere yet */
    int error;            /* cudaError_t that the stream had kept when the mark was put; 0: none */
    const char *error_at; /* what answered so */
};

static inline struct cuda_device *cuda_device_of(const struct device *d)
{
    return (struct cuda_device *)(uintptr_t)d;
}

/* The thread's calls go to this device from here on. */
void cuda_enter(const struct cuda_device *d);

/* rc is CUDA's answer to `what`: 0 for success; else the error is set, and the device is looked at
 * whether it lives. */
int cuda_answer(struct cuda_device *d, cudaError_t rc, const char *what, struct err *e);

/* The stream keeps it for its next sync. */
void cuda_note(struct cuda_stream *s, cudaError_t rc, const char *what);

/* Wait for what a stream was given, or for a mark in it. Where the device has rails they are looked
 * after meanwhile, so that a rank which does not come ends the wait. Every wait of the plug goes
 * through these. ---- rail.c ---- */
cudaError_t cuda_await(struct cuda_device *d, cudaStream_t s);
cudaError_t cuda_await_event(struct cuda_device *d, cudaEvent_t v);
/* Of those on s: 0, or why one broke. */
int cuda_rails_state(struct cuda_device *d, const struct cuda_stream *s, struct err *e);
void cuda_rails_replayed(struct cuda_stream *s);
void cuda_rails_forget(struct cuda_stream *s); /* it ends; all that it was given is done */
const struct rail_driver *cuda_rails(void);    /* NULL: there are none */

/* ---- stream.c ---- */
struct stream *cuda_stream_new(struct device *d, bool yields, struct err *e);
void cuda_stream_free(struct stream *s);
void cuda_stream_launch(struct stream *s, enum kernel_id k, const void *args, size_t bytes);
void cuda_stream_copy(struct stream *s, void *to, const void *from, size_t bytes,
                      enum copy_kind kind);
int cuda_stream_sync(struct stream *s, struct err *e);
int cuda_stream_state(struct stream *s, struct err *e);

/* ---- mark.c: events, and launches that are kept ---- */
struct event *cuda_event_new(struct device *d, struct err *e);
void cuda_event_free(struct event *v);
void cuda_event_record(struct event *v, struct stream *s);
void cuda_event_wait(struct event *v, struct stream *s);
int cuda_event_sync(struct event *v, struct err *e);
int64_t cuda_event_ns(const struct event *from, const struct event *to);
int cuda_replay_begin(struct stream *s, struct err *e);
struct replay *cuda_replay_end(struct stream *s, struct err *e);
void cuda_replay_free(struct replay *r);
void cuda_replay_run(struct replay *r, struct stream *s);

#endif
