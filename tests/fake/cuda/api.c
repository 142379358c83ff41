/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls about the GPU, its memory, and copies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/cuda/work.h"

enum { PLACE_MAX = 64, UNITS = 4 };

/* ---- the GPU ------------------------------------------------------------------------------- */

static int n_device(void)
{
    const char *n = getenv("FAKE_CUDA_DEVICES");
    return n ? (int)strtol(n, NULL, 10) : 1;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    cudaError_t rc = fake_begin();
    *n = n_device();
    return fake_end(rc ? rc : *n ? cudaSuccess : cudaErrorNoDevice);
}

/* Not counted: it says nothing but which GPU is meant, and comes before every other call. */
cudaError_t cudaSetDevice(int index)
{
    return index < n_device() ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int index)
{
    cudaError_t rc = fake_begin();
    *p = (struct cudaDeviceProp){
        .totalGlobalMem = fake_memory_all(), .major = 9, .multiProcessorCount = UNITS};
    snprintf(p->name, sizeof p->name, "Fake GPU %d", index);
    p->uuid.bytes[0] = (char)(index + 1);
    return fake_end(rc);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int index, int other)
{
    cudaError_t rc = fake_begin();
    *can = index != other;
    return fake_end(rc);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    cudaError_t rc = fake_begin();
    *version = 13000;
    return fake_end(rc);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *low, int *high)
{
    cudaError_t rc = fake_begin();
    *low = 0;
    *high = -5;
    return fake_end(rc);
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess; /* whoever fails here has been answered */
}

const char *cudaGetErrorString(cudaError_t rc)
{
    switch (rc) {
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    case cudaErrorLaunchTimeout:
        return "the launch timed out and was terminated";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    default:
        return "unknown error";
    }
}

const char *cudaGetErrorName(cudaError_t rc)
{
    switch (rc) {
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
        return "cudaErrorNoDevice";
    case cudaErrorIllegalAddress:
        return "cudaErrorIllegalAddress";
    case cudaErrorLaunchTimeout:
        return "cudaErrorLaunchTimeout";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorStreamCaptureInvalidated:
        return "cudaErrorStreamCaptureInvalidated";
    default:
        return "cudaErrorUnknown";
    }
}

/* ---- memory -------------------------------------------------------------------------------- */

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes)
{
    cudaError_t rc = fake_begin();
    *all_bytes = fake_memory_all();
    *free_bytes = *all_bytes - fake_memory_taken();
    return fake_end(rc);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
    cudaError_t rc = fake_begin();
    if (!rc && (props->allocType != cudaMemAllocationTypePinned ||
                props->location.type != cudaMemLocationTypeDevice || props->location.id < 0 ||
                props->location.id >= n_device()))
        rc = cudaErrorInvalidValue;
    if (!rc) {
        *pool = calloc(1, sizeof **pool);
        fake_keep(1);
    }
    return fake_end(rc);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    cudaError_t rc = fake_begin();
    fake_pool_end(pool);
    fake_keep(-1);
    return fake_end(rc);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr a, void *value)
{
    (void)pool, (void)a, (void)value;
    return fake_end(fake_begin());
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr a, void *value)
{
    cudaError_t rc = fake_begin();
    *(size_t *)value = a == cudaMemPoolAttrReservedMemCurrent ? pool->taken : pool->used;
    return fake_end(rc);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t n)
{
    (void)pool, (void)list, (void)n;
    return fake_end(fake_begin());
}

cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t s)
{
    (void)s;
    cudaError_t rc = fake_begin();
    if (!rc) {
        *p = fake_memory_new(pool, bytes);
        rc = *p ? cudaSuccess : cudaErrorMemoryAllocation;
        fake_keep(!rc);
    }
    return fake_end(rc);
}

static void run_free(void *p)
{
    if (!fake_memory_free(p))
        abort();
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t s)
{
    cudaError_t rc = fake_begin();
    if (!rc)
        work_add(&s->work, run_free, p, NULL);
    fake_keep(-1);
    return fake_end(rc);
}

struct pinned {
    void *p;
    size_t bytes;
};

static struct pinned pinned[PLACE_MAX];

bool fake_is_pinned(const void *p)
{
    for (int i = 0; i < PLACE_MAX; i++)
        if (pinned[i].p && (const char *)p >= (char *)pinned[i].p &&
            (const char *)p < (char *)pinned[i].p + pinned[i].bytes)
            return true;
    return false;
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    cudaError_t rc = fake_begin();
    int at = 0;
    while (!rc && pinned[at].p)
        if (++at == PLACE_MAX)
            rc = cudaErrorMemoryAllocation;
    if (!rc && bytes < SIZE_MAX / 4) {
        *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
        memset(*p, 0xff, bytes);
        pinned[at] = (struct pinned){*p, bytes};
        fake_keep(1);
    } else if (!rc) {
        rc = cudaErrorMemoryAllocation;
    }
    return fake_end(rc);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
    cudaError_t rc = fake_begin();
    a->type = fake_memory_is_near(p) ? cudaMemoryTypeDevice
              : fake_is_pinned(p)    ? cudaMemoryTypeHost
                                     : cudaMemoryTypeUnregistered;
    return fake_end(rc);
}

cudaError_t cudaFreeHost(void *p)
{
    cudaError_t rc = fake_begin();
    for (int i = 0; i < PLACE_MAX; i++) {
        if (pinned[i].p != p)
            continue;
        pinned[i].p = NULL;
        free(p);
        fake_keep(-1);
        return fake_end(rc);
    }
    return fake_end(rc ? rc : cudaErrorInvalidValue);
}

/* ---- copies -------------------------------------------------------------------------------- */

struct copy {
    char *to;
    const char *from;
    size_t bytes;
    int value;     /* where from is NULL */
    char before[]; /* what the host had there, of memory that is not pinned */
};

static void run_copy(void *ctx)
{
    const struct copy *c = ctx;
    if (c->from)
        memmove(c->to, c->from, c->bytes);
    else
        memset(c->to, c->value, c->bytes);
}

static cudaError_t add(cudaStream_t s, struct copy *c)
{
    if (s->capture && s->capture->is_bad) {
        free(c);
        return cudaErrorStreamCaptureInvalidated;
    }
    work_add(s->capture ? &s->capture->work : &s->work, run_copy, c, free);
    return cudaSuccess;
}

static struct copy *copy_new(void *to, const void *from, size_t bytes, bool keeps)
{
    struct copy *c = malloc(sizeof *c + (keeps ? bytes : 0));
    *c = (struct copy){.to = to, .from = from, .bytes = bytes};
    if (keeps) {
        memcpy(c->before, from, bytes);
        c->from = c->before;
    }
    return c;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    cudaError_t rc = fake_begin();
    if (!rc && !fake_memory_has(p, bytes))
        rc = cudaErrorInvalidValue;
    if (!rc) {
        struct copy *c = copy_new(p, NULL, bytes, false);
        c->value = value;
        rc = add(s, c);
    }
    return fake_end(rc);
}

static bool is_right(const void *p, size_t bytes, bool on_device)
{
    return on_device ? fake_memory_has(p, bytes) : !fake_memory_is_near(p);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s)
{
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    cudaError_t rc = fake_begin();
    if (!rc && (!is_right(to, bytes, to_device) || !is_right(from, bytes, from_device)))
        rc = cudaErrorInvalidValue;
    if (!rc && kind == cudaMemcpyHostToDevice && !fake_count_copy())
        rc = cudaErrorUnknown;
    if (!rc)
        rc = add(s, copy_new(to, from, bytes, !from_device && !fake_is_pinned(from)));
    if (!rc && !to_device && !fake_is_pinned(to))
        stream_run(s, NULL);
    return fake_end(rc);
}
