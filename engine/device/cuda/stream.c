/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams. A launch is given and not waited for. Where somebody is to be let in between launches
 * (training beside serving), the stream waits for its own launches of some time ago before it goes
 * on, so that no more than two times CUDA_PACE of them are in flight when it lets others go first.
 */
#include "engine/base/mem.h"
#include "engine/device/cuda/cuda.h"
#include "kernels/cuda/launch.h"

static struct cuda_stream *stream_of(struct stream *s)
{
    return (struct cuda_stream *)s;
}

static struct cuda_device *device_of(const struct cuda_stream *s)
{
    return cuda_device_of(s->base.device);
}

void cuda_note(struct cuda_stream *s, cudaError_t rc, const char *what)
{
    if (rc && !s->first_error) {
        s->first_error = (int)rc;
        s->first_at = what;
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

static cudaError_t make(struct cuda_stream *s, int priority)
{
    cudaError_t rc = cudaStreamCreateWithPriority(&s->at, cudaStreamNonBlocking, priority);
    for (int i = 0; i < 2 && !rc; i++)
        rc = cudaEventCreateWithFlags(&s->pace[i], cudaEventDisableTiming);
    if (!rc)
        rc = cudaEventCreateWithFlags(&s->from, cudaEventDefault);
    if (!rc)
        rc = cudaEventCreateWithFlags(&s->to, cudaEventDefault);
    return rc;
}

static void destroy(struct cuda_stream *s)
{
    cudaEvent_t events[] = {s->from, s->to, s->pace[0], s->pace[1]};
    if (s->at)
        cudaStreamDestroy(s->at);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    mem_free(s);
}

struct stream *cuda_stream_new(struct device *base, bool yields, struct err *e)
{
    struct cuda_device *d = cuda_device_of(base);
    struct cuda_stream *s = try_alloc(1, sizeof *s, "a stream", e);
    if (!s)
        return NULL;
    cuda_enter(d);
    s->base.device = base;
    if (cuda_answer(d, make(s, yields ? d->priority_low : d->priority_high), "a stream", e)) {
        destroy(s);
        return NULL;
    }
    pthread_mutex_lock(&d->lock);
    s->next = d->streams;
    d->streams = s;
    pthread_mutex_unlock(&d->lock);
    return &s->base;
}

void cuda_stream_free(struct stream *base)
{
    struct cuda_stream *s = stream_of(base), **at;
    struct cuda_device *d = device_of(s);
    cuda_enter(d);
    cuda_await(d, s->at);
    cuda_rails_forget(s);
    pthread_mutex_lock(&d->lock);
    for (at = &d->streams; *at != s;)
        at = &(*at)->next;
    *at = s->next;
    pthread_mutex_unlock(&d->lock);
    destroy(s);
}

/* ---- launches ------------------------------------------------------------------------------ */

/* Costs that can be told from the arguments' numbers; where they follow from arrays in the GPU's
 * memory, nothing is known. */
static struct k_shape shape_of(const struct cuda_device *d, enum kernel_id k, const void *args)
{
    switch (k) {
    case K_lora:
    case K_lora_bwd:
    case K_lora_dw:
    case K_attn:
    case K_attn_part:
    case K_attn_merge:
    case K_attn_bwd_q:
    case K_attn_bwd_kv:
    case K_mean_pool:
    case K_mean_pool_bwd:
        return (struct k_shape){.n_unit = 1};
    default:
        return d->shape(k, args);
    }
}

static void launch_traced(struct cuda_stream *s, enum kernel_id k, const void *args, size_t bytes)
{
    float ms = 0;
    cuda_note(s, cudaEventRecord(s->from, s->at), "a launch");
    cuda_note(s, (cudaError_t)cuda_launch(k, args, bytes, s->at), "a launch");
    cuda_note(s, cudaEventRecord(s->to, s->at), "a launch");
    cuda_note(s, cuda_await_event(device_of(s), s->to), "a launch");
    cudaEventElapsedTime(&ms, s->from, s->to);
    s->base.trace(s->base.trace_ctx, k, shape_of(device_of(s), k, args),
                  (int64_t)((double)ms * 1e6));
}

static void let_others(struct cuda_stream *s)
{
    cudaEvent_t mark = s->pace[s->n_launch / CUDA_PACE % 2];
    if (s->n_launch >= 2 * CUDA_PACE)
        cuda_note(s, cuda_await_event(device_of(s), mark), "a step's launches");
    cuda_note(s, cudaEventRecord(mark, s->at), "a step's launches");
    s->base.piece_ns = s->base.between(s->base.between_ctx);
}

void cuda_stream_launch(struct stream *base, enum kernel_id k, const void *args, size_t bytes)
{
    struct cuda_stream *s = stream_of(base);
    if (s->first_error)
        return;
    cuda_enter(device_of(s));
    if (base->trace)
        launch_traced(s, k, args, bytes);
    else
        cuda_note(s, (cudaError_t)cuda_launch(k, args, bytes, s->at), "a launch");
    if (base->between && ++s->n_launch % CUDA_PACE == 0)
        let_others(s);
}

/* A copy to memory of the host that is not pinned waits for its stream by itself. */
static bool would_wait(const struct cuda_stream *s, const void *to, enum copy_kind kind)
{
    struct cudaPointerAttributes a;
    return kind == COPY_FROM_DEVICE && atomic_load(&device_of(s)->rails) &&
           !cudaPointerGetAttributes(&a, to) && a.type != cudaMemoryTypeHost;
}

void cuda_stream_copy(struct stream *base, void *to, const void *from, size_t bytes,
                      enum copy_kind kind)
{
    static const enum cudaMemcpyKind kinds[] = {[COPY_TO_DEVICE] = cudaMemcpyHostToDevice,
                                                [COPY_FROM_DEVICE] = cudaMemcpyDeviceToHost,
                                                [COPY_ON_DEVICE] = cudaMemcpyDeviceToDevice};
    struct cuda_stream *s = stream_of(base);
    if (s->first_error)
        return;
    cuda_enter(device_of(s));
    if (would_wait(s, to, kind))
        cuda_note(s, cuda_await(device_of(s), s->at), "before a copy");
    cuda_note(s, cudaMemcpyAsync(to, from, bytes, kinds[kind], s->at), "a copy");
}

int cuda_stream_sync(struct stream *base, struct err *e)
{
    struct cuda_stream *s = stream_of(base);
    cuda_enter(device_of(s));
    cuda_note(s, cuda_await(device_of(s), s->at), "at the end of its work");
    cudaError_t rc = (cudaError_t)s->first_error;
    s->first_error = 0;
    if (cuda_rails_state(device_of(s), s, e))
        return -1;
    return cuda_answer(device_of(s), rc, s->first_at, e);
}

int cuda_stream_state(struct stream *base, struct err *e)
{
    struct cuda_stream *s = stream_of(base);
    cuda_enter(device_of(s));
    return cuda_answer(device_of(s), (cudaError_t)s->first_error, s->first_at, e);
}
