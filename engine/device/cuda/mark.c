/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks in the order of a stream, and launches that are kept: a capture into a graph of CUDA's.
 * While a stream is captured its device's lock is held, so that no other thread marks it.
 */
#include "engine/base/mem.h"
#include "engine/device/cuda/cuda.h"

/* ---- marks --------------------------------------------------------------------------------- */

static struct cuda_event *event_of(const struct event *v)
{
    return (struct cuda_event *)(uintptr_t)v;
}

static struct cuda_stream *stream_of(struct stream *s)
{
    return (struct cuda_stream *)s;
}

struct event *cuda_event_new(struct device *base, struct err *e)
{
    struct cuda_device *d = cuda_device_of(base);
    struct cuda_event *v = try_alloc(1, sizeof *v, "an event", e);
    if (!v)
        return NULL;
    cuda_enter(d);
    v->base.device = base;
    if (!cuda_answer(d, cudaEventCreateWithFlags(&v->at, cudaEventDefault), "an event", e))
        return &v->base;
    mem_free(v);
    return NULL;
}

void cuda_event_free(struct event *v)
{
    cuda_enter(cuda_device_of(v->device));
    cudaEventDestroy(event_of(v)->at);
    mem_free(v);
}

void cuda_event_record(struct event *v, struct stream *s)
{
    cuda_enter(cuda_device_of(v->device));
    cuda_note(stream_of(s), cudaEventRecord(event_of(v)->at, stream_of(s)->at), "a mark");
    event_of(v)->on = stream_of(s);
    event_of(v)->error = stream_of(s)->first_error;
    event_of(v)->error_at = stream_of(s)->first_at;
}

void cuda_event_wait(struct event *v, struct stream *s)
{
    cuda_enter(cuda_device_of(v->device));
    cuda_note(stream_of(s), (cudaError_t)event_of(v)->error, event_of(v)->error_at);
    cuda_note(stream_of(s), cudaStreamWaitEvent(stream_of(s)->at, event_of(v)->at, 0), "a mark");
}

int cuda_event_sync(struct event *v, struct err *e)
{
    struct cuda_device *d = cuda_device_of(v->device);
    cuda_enter(d);
    cudaError_t rc = cuda_await_event(d, event_of(v)->at);
    if (cuda_rails_state(d, event_of(v)->on, e))
        return -1;
    if (event_of(v)->error)
        return cuda_answer(d, (cudaError_t)event_of(v)->error, event_of(v)->error_at, e);
    return cuda_answer(d, rc, "before a mark", e);
}

int64_t cuda_event_ns(const struct event *from, const struct event *to)
{
    float ms = 0;
    cuda_enter(cuda_device_of(from->device));
    cudaEventElapsedTime(&ms, event_of(from)->at, event_of(to)->at);
    return (int64_t)((double)ms * 1e6);
}

/* ---- launches that are kept ---------------------------------------------------------------- */

struct cuda_replay {
    struct replay base; /* first */
    cudaGraphExec_t at;
    bool has_rail;
};

int cuda_replay_begin(struct stream *base, struct err *e)
{
    struct cuda_device *d = cuda_device_of(base->device);
    cuda_enter(d);
    pthread_mutex_lock(&d->lock);
    cudaError_t rc = cudaStreamBeginCapture(stream_of(base)->at, cudaStreamCaptureModeThreadLocal);
    if (rc)
        pthread_mutex_unlock(&d->lock);
    stream_of(base)->is_kept = !rc;
    stream_of(base)->has_rail = false;
    return cuda_answer(d, rc, "keeping a step's launches", e);
}

struct replay *cuda_replay_end(struct stream *base, struct err *e)
{
    struct cuda_device *d = cuda_device_of(base->device);
    struct cuda_replay *r = try_alloc(1, sizeof *r, "a step's launches", e);
    cudaGraph_t graph = NULL;
    cuda_enter(d);
    cudaError_t rc = cudaStreamEndCapture(stream_of(base)->at, &graph);
    stream_of(base)->is_kept = false;
    pthread_mutex_unlock(&d->lock);
    if (!rc)
        rc = (cudaError_t)stream_of(base)->first_error; /* it lacks what failed, and all behind */
    if (!rc && r)
        rc = cudaGraphInstantiate(&r->at, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    if (r && !cuda_answer(d, rc, "keeping a step's launches", e)) {
        r->base.device = base->device;
        r->has_rail = stream_of(base)->has_rail;
        return &r->base;
    }
    mem_free(r);
    return NULL;
}

void cuda_replay_free(struct replay *base)
{
    struct cuda_replay *r = (struct cuda_replay *)base;
    cuda_enter(cuda_device_of(base->device));
    cudaGraphExecDestroy(r->at);
    mem_free(r);
}

void cuda_replay_run(struct replay *base, struct stream *s)
{
    struct cuda_replay *r = (struct cuda_replay *)base;
    if (stream_of(s)->first_error)
        return;
    cuda_enter(cuda_device_of(base->device));
    cuda_note(stream_of(s), cudaGraphLaunch(r->at, stream_of(s)->at), "a step's kept launches");
    if (r->has_rail)
        cuda_rails_replayed(stream_of(s));
}
