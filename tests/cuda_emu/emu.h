/* SPDX-License-Identifier: Apache-2.0
 *
 * What nvcc gives a .cu file, for g++: with `-x c++ -include tests/cuda_emu/emu.h` the sources of
 * kernels/cuda compile for the CPU and run there as a GPU would run them, block after block.
 *
 * A block's threads are fibers of one OS thread. A fiber runs until it waits: at a barrier of the
 * block, or at an instruction of the warp, which takes effect when every lane named in its mask
 * has arrived. So between two barriers one thread may be far ahead of another, in an order that is
 * chosen (emu_order): forward, backward or random. A result that depends on the order is a race,
 * and one that is never reached by some thread is told as such and ends the program.
 *
 * Shared memory has exactly the bytes that the launch asked for, filled with NaN, between pages
 * without access. An asynchronous copy lands when it is waited for and not before.
 *
 * Thread: a launch is whole when it returns; launches of several OS threads take turns.
 */
#ifndef TESTS_CUDA_EMU_EMU_H
#define TESTS_CUDA_EMU_EMU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum emu_order { EMU_FORWARD, EMU_BACKWARD, EMU_RANDOM };
void emu_order(enum emu_order order);

#ifdef __cplusplus
}

#include <math.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

/* Where the running fiber is. */
struct emu_thread {
    dim3 idx;
    int lane; /* of its warp */
};
struct emu_place {
    struct emu_thread thread;
    dim3 block, block_dim, grid_dim;
};
extern struct emu_place emu_here __attribute__((visibility("hidden")));

#define threadIdx emu_here.thread.idx
#define blockIdx  emu_here.block
#define blockDim  emu_here.block_dim
#define gridDim   emu_here.grid_dim

/* Runs kernel(args) in every thread of every block. */
void emu_launch(dim3 grid, dim3 block, size_t shared_bytes, void (*kernel)(const void *args),
                const void *args);
void *emu_shared();

void __syncthreads();
int __syncthreads_or(int predicate);
void __syncwarp(unsigned mask = 0xffffffffu);

/* A value from lane `from`, all lanes of the mask taking part. */
uint64_t emu_shuffle(unsigned mask, uint64_t value, int from);
uint32_t emu_ballot(unsigned mask, int predicate);

static inline int emu_lane()
{
    return emu_here.thread.lane;
}

template <typename T> static inline T emu_shuffle_any(unsigned mask, T value, int from)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    uint64_t word = 0;
    memcpy(&word, &value, sizeof value);
    word = emu_shuffle(mask, word, from);
    memcpy(&value, &word, sizeof value);
    return value;
}

template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int other)
{
    return emu_shuffle_any(mask, value, emu_lane() ^ other);
}

template <typename T> static inline T __shfl_sync(unsigned mask, T value, int from)
{
    return emu_shuffle_any(mask, value, from & 31);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    return emu_ballot(mask, predicate);
}

static inline int __any_sync(unsigned mask, int predicate)
{
    return emu_ballot(mask, predicate) != 0;
}

static inline uint32_t __float_as_uint(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float __uint_as_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

/* Where the CPU has no instruction for it, rounded twice, in f64 and in f32, which hardly ever
 * shows: a call of the library for each would be most of the time. */
static inline float emu_fma(float a, float b, float c)
{
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    return (float)((double)a * b + c);
#endif
}
#define fmaf emu_fma

/* Blocks follow each other, so an atomic is a plain one. */
template <typename T> static inline T atomicAdd(T *p, T v)
{
    T old = *p;
    *p = old + v;
    return old;
}

/* ---- instructions, whose asm stands in kernels/cuda/ptx.cuh ---- */

void emu_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]);
void emu_ldmatrix(uint32_t *d, const void *row, int n_matrix, bool is_transposed);
void emu_copy_async(void *shared, const void *global, int bytes, int from_bytes);
void emu_copy_commit();
void emu_copy_wait(int n_left);

#endif
#endif
