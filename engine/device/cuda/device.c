/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU and its memory; the plug's one symbol.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/cuda/nccl.h"

void cuda_enter(const struct cuda_device *d)
{
    cudaSetDevice(d->index);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* An error that is told again by a call that has nothing to do with it stays for good. */
static bool stays(struct cuda_device *d)
{
    cudaGetLastError();
    cudaError_t rc = cudaStreamQuery(d->keeper);
    return rc != cudaSuccess && rc != cudaErrorNotReady;
}

int cuda_answer(struct cuda_device *d, cudaError_t rc, const char *what, struct err *e)
{
    if (rc == cudaSuccess)
        return 0;
    if (rc == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* nothing happened but that it said no */
        return err_set(e, ERR_NO_MEMORY, "%s: the GPU has no memory left for it", what);
    }
    int none = 0;
    if (stays(d))
        atomic_compare_exchange_strong(&d->dead, &none, (int)rc);
    return err_set(e, ERR_DEVICE, "the GPU, %s: %s (%s)", what, cudaGetErrorString(rc),
                   cudaGetErrorName(rc));
}

static int cuda_check(const struct device *base, struct err *e)
{
    cudaError_t rc = (cudaError_t)atomic_load(&cuda_device_of(base)->dead);
    return rc == cudaSuccess
               ? 0
               : err_set(e, ERR_DEVICE, "the GPU does not work any more in this process: %s (%s)",
                         cudaGetErrorString(rc), cudaGetErrorName(rc));
}

/* ---- memory -------------------------------------------------------------------------------- */

/* The pool's room that nobody has is free as well. */
static void cuda_memory(const struct device *base, size_t *total_bytes, size_t *free_bytes)
{
    struct cuda_device *d = cuda_device_of(base);
    size_t reserved = 0, used = 0;
    *total_bytes = *free_bytes = 0;
    cuda_enter(d);
    cudaMemGetInfo(free_bytes, total_bytes);
    if (!cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrReservedMemCurrent, &reserved) &&
        !cudaMemPoolGetAttribute(d->pool, cudaMemPoolAttrUsedMemCurrent, &used) && reserved > used)
        *free_bytes += reserved - used;
}

/* As cuda_answer, for who asked for memory. */
static int answer_memory(struct cuda_device *d, cudaError_t rc, size_t bytes, const char *what,
                         struct err *e)
{
    size_t total, left;
    if (rc != cudaErrorMemoryAllocation)
        return cuda_answer(d, rc, what, e);
    cudaGetLastError(); /* nothing happened but that it said no */
    cuda_memory(&d->base, &total, &left);
    return err_set(e, ERR_NO_MEMORY,
                   "%s: takes %.1f MB of the GPU's memory; of its %.1f MB %.1f MB are free", what,
                   (double)bytes / 1e6, (double)total / 1e6, (double)left / 1e6);
}

static void *cuda_alloc(struct device *base, size_t bytes, const char *what, struct err *e)
{
    struct cuda_device *d = cuda_device_of(base);
    void *p = NULL;
    size_t size = bytes ? bytes : 1;
    cuda_enter(d);
    pthread_mutex_lock(&d->lock);
    cudaError_t rc = cudaMallocFromPoolAsync(&p, size, d->pool, d->keeper);
    if (!rc)
        rc = cudaMemsetAsync(p, 0, size, d->keeper);
    if (!rc)
        rc = cuda_await(d, d->keeper);
    if (rc && p)
        cudaFreeAsync(p, d->keeper);
    pthread_mutex_unlock(&d->lock);
    return answer_memory(d, rc, size, what, e) ? NULL : p;
}

/* The pool keeps what it was given once. */
static int cuda_reserve(struct device *base, size_t bytes, const char *what, struct err *e)
{
    struct cuda_device *d = cuda_device_of(base);
    void *p = NULL;
    cuda_enter(d);
    pthread_mutex_lock(&d->lock);
    cudaError_t rc = cudaMallocFromPoolAsync(&p, bytes, d->pool, d->keeper);
    if (!rc)
        rc = cudaFreeAsync(p, d->keeper);
    if (!rc)
        rc = cuda_await(d, d->keeper);
    pthread_mutex_unlock(&d->lock);
    return answer_memory(d, rc, bytes, what, e);
}

/* Behind what streams were given, which may still use it. */
static void cuda_mem_free(struct device *base, void *p)
{
    struct cuda_device *d = cuda_device_of(base);
    cuda_enter(d);
    pthread_mutex_lock(&d->lock);
    for (struct cuda_stream *s = d->streams; s; s = s->next)
        if (cudaEventRecord(d->order, s->at) || cudaStreamWaitEvent(d->keeper, d->order, 0))
            cuda_await(d, s->at);
    cudaFreeAsync(p, d->keeper);
    pthread_mutex_unlock(&d->lock);
}

static void *cuda_host_alloc(struct device *base, size_t bytes, const char *what, struct err *e)
{
    struct cuda_device *d = cuda_device_of(base);
    size_t size = bytes ? bytes : 1;
    void *p = NULL;
    cuda_enter(d);
    cudaError_t rc = cudaHostAlloc(&p, size, cudaHostAllocDefault);
    if (rc == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        err_set(e, ERR_NO_MEMORY, "%s: %zu bytes of the host that the GPU can reach", what, size);
        return NULL;
    }
    if (cuda_answer(d, rc, what, e))
        return NULL;
    memset(p, 0, size);
    return p;
}

/* What streams were given may still copy to and from there. A stream's own wait is told errors that
 * its owner is to hear, so this one waits for marks. */
static void cuda_host_free(struct device *base, void *p)
{
    struct cuda_device *d = cuda_device_of(base);
    cuda_enter(d);
    pthread_mutex_lock(&d->lock);
    for (struct cuda_stream *s = d->streams; s; s = s->next)
        if (cudaEventRecord(d->order, s->at) || cuda_await_event(d, d->order))
            cuda_await(d, s->at);
    pthread_mutex_unlock(&d->lock);
    cudaFreeHost(p);
}

/* Memory of the pool is reached by whom the pool lets in. */
static int cuda_reach(struct device *base, struct device *other_base, struct err *e)
{
    const struct cuda_device *d = cuda_device_of(base);
    struct cuda_device *other = cuda_device_of(other_base);
    struct cudaMemAccessDesc let = {.location = {.type = cudaMemLocationTypeDevice, .id = d->index},
                                    .flags = cudaMemAccessFlagsProtReadWrite};
    int can = 0;
    if (d->index == other->index)
        return 0;
    cuda_enter(other);
    cudaError_t rc = cudaDeviceCanAccessPeer(&can, d->index, other->index);
    if (!rc && can)
        rc = cudaMemPoolSetAccess(other->pool, &let, 1);
    if (rc || can)
        return cuda_answer(other, rc, "reaching another GPU's memory", e);
    return err_set(e, ERR_UNSUPPORTED, "GPU %d has no way to the memory of GPU %d", d->index,
                   other->index);
}

/* ---- the device ---------------------------------------------------------------------------- */

static void cuda_free(struct device *base)
{
    struct cuda_device *d = cuda_device_of(base);
    cuda_enter(d);
    if (d->keeper) {
        cudaStreamSynchronize(d->keeper);
        cudaStreamDestroy(d->keeper);
    }
    if (d->pool)
        cudaMemPoolDestroy(d->pool);
    if (d->order)
        cudaEventDestroy(d->order);
    pthread_mutex_destroy(&d->lock);
    mem_free(d);
}

static const struct device_driver cuda_driver = {
    .kind = DEVICE_CUDA,
    .free = cuda_free,
    .memory = cuda_memory,
    .alloc = cuda_alloc,
    .mem_free = cuda_mem_free,
    .reserve = cuda_reserve,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .check = cuda_check,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .launch = cuda_stream_launch,
    .copy = cuda_stream_copy,
    .sync = cuda_stream_sync,
    .state = cuda_stream_state,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_sync = cuda_event_sync,
    .event_ns = cuda_event_ns,
    .replay_begin = cuda_replay_begin,
    .replay_end = cuda_replay_end,
    .replay_free = cuda_replay_free,
    .replay_run = cuda_replay_run,
    .reach = cuda_reach,
};

/* The pool keeps what comes back: the program asks for little and large, and for long. */
static cudaError_t make_pool(struct cuda_device *d)
{
    unsigned long long all = ~0ULL;
    const struct cudaMemPoolProps p = {
        .allocType = cudaMemAllocationTypePinned,
        .location = {.type = cudaMemLocationTypeDevice, .id = d->index}};
    cudaError_t rc = cudaMemPoolCreate(&d->pool, &p);
    return rc ? rc : cudaMemPoolSetAttribute(d->pool, cudaMemPoolAttrReleaseThreshold, &all);
}

static cudaError_t make(struct cuda_device *d)
{
    struct cudaDeviceProp p;
    cudaError_t rc = cudaSetDevice(d->index);
    if (!rc)
        rc = cudaGetDeviceProperties(&p, d->index);
    if (rc)
        return rc;
    snprintf(d->base.name, sizeof d->base.name, "%.*s", (int)sizeof d->base.name - 1, p.name);
    for (size_t i = 0; i < sizeof p.uuid.bytes; i++)
        snprintf(d->base.id + 2 * i, 3, "%02x", (unsigned char)p.uuid.bytes[i]);
    d->base.n_lane = p.multiProcessorCount;
    rc = cudaDeviceGetStreamPriorityRange(&d->priority_low, &d->priority_high);
    if (!rc)
        rc = make_pool(d);
    if (!rc)
        rc = cudaStreamCreateWithPriority(&d->keeper, cudaStreamNonBlocking, d->priority_high);
    if (!rc)
        rc = cudaEventCreateWithFlags(&d->order, cudaEventDisableTiming);
    return rc;
}

/* ---- the plug ------------------------------------------------------------------------------ */

static int plug_fault(cudaError_t rc, const char *what, struct err *e)
{
    cudaGetLastError();
    return err_set(e, ERR_DEVICE, "%s: %s (%s)", what, cudaGetErrorString(rc),
                   cudaGetErrorName(rc));
}

static int plug_count(struct err *e)
{
    int n = 0;
    cudaError_t rc = cudaGetDeviceCount(&n);
    if (rc == cudaErrorNoDevice)
        return 0;
    return rc ? plug_fault(rc, "looking for GPUs", e) : n;
}

static int plug_look(int index, struct device_found *out, struct err *e)
{
    struct cudaDeviceProp p;
    int driver = 0;
    cudaError_t rc = cudaGetDeviceProperties(&p, index);
    if (!rc)
        rc = cudaDriverGetVersion(&driver);
    if (rc)
        return plug_fault(rc, "looking at a GPU", e);
    *out = (struct device_found){.bytes = p.totalGlobalMem};
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);
    snprintf(out->about, sizeof out->about, "compute %d.%d, %d units, driver of CUDA %d.%d",
             p.major, p.minor, p.multiProcessorCount, driver / 1000, driver % 1000 / 10);
    return 0;
}

static struct device *plug_open(const struct device_plug_open *o, struct err *e)
{
    struct cuda_device *d = try_alloc(1, sizeof *d, "a device", e);
    if (!d)
        return NULL;
    d->driver = cuda_driver;
    d->driver.rail = cuda_rails();
    d->base.driver = &d->driver;
    d->index = o->index;
    d->shape = o->shape;
    pthread_mutex_init(&d->lock, NULL);
    cudaError_t rc = make(d);
    if (!rc)
        return &d->base;
    plug_fault(rc, "opening the GPU", e);
    cuda_free(&d->base);
    return NULL;
}

extern __attribute__((visibility("default"))) const struct device_plug tandem_device_plug;

const struct device_plug tandem_device_plug = {.abi = DEVICE_PLUG_ABI,
                                               .name = "cuda",
                                               .count = plug_count,
                                               .look = plug_look,
                                               .open = plug_open,
                                               .rails = nccl_check};
