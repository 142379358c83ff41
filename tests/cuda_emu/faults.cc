/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels with a fault, each beside the same without: what the emulation must find, and must not.
 * test_faults.py runs them.
 */
#include "tests/cuda_emu/emu.h"

enum { THREADS = 64 };

struct call {
    int which;
    alignas(16) float in[THREADS], out[THREADS];
};

enum {
    WITH_BARRIER,
    WITHOUT_BARRIER,
    COPY_WAITED_FOR,
    COPY_NOT_WAITED_FOR,
    BARRIER_OF_SOME,
    PAST_SHARED,
    NOT_ALIGNED
};

/* Each thread hands its number to the next but one warp's. */
static void exchange(struct call *c, float *shared)
{
    shared[threadIdx.x] = c->in[threadIdx.x];
    if (c->which == WITH_BARRIER)
        __syncthreads();
    c->out[threadIdx.x] = shared[(threadIdx.x + 32) % THREADS];
}

static void copy(struct call *c, float *shared)
{
    if (threadIdx.x < THREADS / 4)
        emu_copy_async(shared + threadIdx.x * 4, c->in + threadIdx.x * 4, 16, 16);
    emu_copy_commit();
    if (c->which == COPY_WAITED_FOR)
        emu_copy_wait(0);
    __syncthreads();
    c->out[threadIdx.x] = shared[threadIdx.x];
}

static void kernel(const void *args)
{
    struct call *c = (struct call *)args;
    float *shared = (float *)emu_shared();
    if (c->which <= WITHOUT_BARRIER)
        exchange(c, shared);
    else if (c->which <= COPY_NOT_WAITED_FOR)
        copy(c, shared);
    else if (c->which == BARRIER_OF_SOME && threadIdx.x % 2)
        __syncthreads();
    else if (c->which == BARRIER_OF_SOME)
        __syncwarp();
    else if (c->which == PAST_SHARED)
        shared[THREADS + threadIdx.x] = 0;
    else
        c->out[threadIdx.x] = (float)((const uint4 *)(shared + threadIdx.x % 2))->x;
}

/* 0: right in both orders of threads. 1: not. Some faults do not return. */
extern "C" int emu_faults(int which)
{
    struct call c;
    int is_wrong = 0;
    for (int order = EMU_FORWARD; order <= EMU_BACKWARD; order++) {
        c.which = which;
        for (int i = 0; i < THREADS; i++)
            c.in[i] = (float)i;
        emu_order((enum emu_order)order);
        emu_launch(dim3(1), dim3(THREADS), sizeof c.in, kernel, &c);
        for (int i = 0; i < THREADS; i++) {
            int from = which <= WITHOUT_BARRIER ? (i + 32) % THREADS : i;
            is_wrong |= c.out[i] == c.in[from] ? 0 : 1;
        }
    }
    emu_order(EMU_FORWARD);
    return is_wrong;
}
