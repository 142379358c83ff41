/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of this folder share: how one is launched, sums over a warp and a block, 16-bit
 * numbers, and the loop over rows and columns.
 *
 * A kernel takes one struct by value, the struct k_<name> of its row or one that holds it. Its grid
 * follows from the numbers in the struct, never from what its pointers point to. The compiler is
 * told not to fuse multiplications and additions: where one rounding is wanted, fmaf says so.
 *
 * Sums have one order, a function of the width of a row: lanes by exchange of halves, then warps by
 * number. No kernel adds to memory with atomics.
 */
#ifndef KERNELS_CUDA_CUDA_CUH
#define KERNELS_CUDA_CUDA_CUH

#include <math.h>
#include <stdint.h>

#include "kernels/cuda/layout.h"
#include "kernels/cuda/ptx.cuh"
#include "kernels/kernels.h"

enum { FULL_WARP = 32, ALL_LANES = -1, GRID_Y_MAX = 65535 };

static __host__ __device__ inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static __host__ __device__ inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static __host__ __device__ inline int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#ifndef __CUDACC__
template <typename A> struct call {
    void (*kernel)(A);
    const A &args;
};

template <typename A> static void call_run(const void *p)
{
    const struct call<A> *c = (const struct call<A> *)p;
    c->kernel(c->args);
}
#endif

/* 0 or the error's number, as cuda_launch. A grid without blocks is nothing to do. */
template <typename A>
static int launch(void (*kernel)(A), dim3 grid, dim3 block, size_t shared_bytes, void *stream,
                  const A &args)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
        return 0;
#ifdef __CUDACC__
    if (shared_bytes > 48 << 10) {
        cudaError_t e = cudaFuncSetAttribute(
            (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
        if (e != cudaSuccess)
            return (int)e;
    }
    kernel<<<grid, block, shared_bytes, (cudaStream_t)stream>>>(args);
    return (int)cudaGetLastError();
#else
    (void)stream;
    struct call<A> c = {
        kernel, args
    };
    emu_launch(grid, block, shared_bytes, call_run<A>, &c);
    return 0;
#endif
}

/* ---- numbers of 16 bits ---- */

static __device__ __forceinline__ float bf16_get(uint32_t h)
{
    return __uint_as_float(h << 16);
}

/* To nearest even; a NaN stays one. */
static __device__ __forceinline__ uint32_t bf16_bits(float x)
{
    uint32_t u = __float_as_uint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return u >> 16 | 0x40u;
    return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}

/* Two of them in a word, the first in the low half. */
static __device__ __forceinline__ uint32_t bf16_pair(float lo, float hi)
{
#ifdef __CUDACC__
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
#else
    return bf16_bits(lo) | bf16_bits(hi) << 16;
#endif
}

static __device__ __forceinline__ float bf16_round(float x)
{
    return bf16_get(bf16_bits(x));
}

static __device__ __forceinline__ float f16_get(uint32_t h)
{
    uint32_t sign = (h & 0x8000u) << 16, exp = h >> 10 & 0x1fu, frac = h & 0x3ffu;
    if (exp == 31) /* infinity, NaN */
        return __uint_as_float(sign | 0x7f800000u | frac << 13 | (frac ? 0x400000u : 0u));
    if (exp == 0) /* zero, denormal: exact in f32 */
        return __uint_as_float(sign | __float_as_uint((float)frac * 0x1p-24f));
    return __uint_as_float(sign | (exp + 112u) << 23 | frac << 13);
}

static __device__ __forceinline__ uint32_t f16_bits(float x)
{
    uint32_t u = __float_as_uint(x), mag = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
    if (mag > 0x7f800000u)
        return sign | 0x7e00u | (mag >> 13 & 0x3ffu);
    if (mag >= 0x477ff000u) /* 65520 and above round to infinity */
        return sign | 0x7c00u;
    if (mag < 0x38800000u) /* below 2^-14: adding 0.5 leaves units of 2^-24, rounded to even */
        return sign | (__float_as_uint(__uint_as_float(mag) + 0.5f) - 0x3f000000u);
    return sign | (mag - 0x38000000u + 0xfffu + (mag >> 13 & 1u)) >> 13;
}

/* Number i of an array of f32, bf16 or f16. */
static __device__ __forceinline__ float number_get(const void *x, enum k_type type, int64_t i)
{
    if (type == K_F32)
        return ((const float *)x)[i];
    uint32_t h = ((const uint16_t *)x)[i];
    return type == K_BF16 ? bf16_get(h) : f16_get(h);
}

/* ---- sums and maxima ---- */

static __device__ __forceinline__ float warp_sum(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

static __device__ __forceinline__ double warp_sum(double x)
{
    for (int i = 16; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}

static __device__ __forceinline__ float warp_max(float x)
{
    for (int i = 16; i > 0; i /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
}

static __device__ __forceinline__ int lane_id(void)
{
    return (int)threadIdx.x % FULL_WARP;
}

static __device__ __forceinline__ int warp_id(void)
{
    return (int)threadIdx.x / FULL_WARP;
}

/* Of all threads of the block, given to all; `shared` has a number for each warp and is free again
 * when this returns. blockDim.y is 1. */
template <typename T> static __device__ __forceinline__ T block_sum(T x, T *shared)
{
    x = warp_sum(x);
    if (lane_id() == 0)
        shared[warp_id()] = x;
    __syncthreads();
    T sum = 0;
    for (int i = 0; i < (int)blockDim.x / FULL_WARP; i++)
        sum += shared[i];
    __syncthreads();
    return sum;
}

static __device__ __forceinline__ float block_max(float x, float *shared)
{
    x = warp_max(x);
    if (lane_id() == 0)
        shared[warp_id()] = x;
    __syncthreads();
    float y = shared[0];
    for (int i = 1; i < (int)blockDim.x / FULL_WARP; i++)
        y = fmaxf(y, shared[i]);
    __syncthreads();
    return y;
}

/* ---- rows and columns ---- */

enum { EACH_X = 64, EACH_Y = 4, EACH_COLS = 256, ROW_THREADS = 256 };

/* Blocks of EACH_X by EACH_Y threads for m rows of d numbers, each with a loop
 *     for (int64_t i = each_row(); i < m; i += each_rows())
 *         for (int64_t j = each_col(); j < each_end(d); j += EACH_X)
 */
static inline dim3 each_grid(int64_t m, int64_t d)
{
    return dim3((unsigned)ceil_div(d, EACH_COLS), (unsigned)least(ceil_div(m, EACH_Y), GRID_Y_MAX));
}

template <typename A>
static int launch_each(void (*kernel)(A), int64_t m, int64_t d, void *stream, const A &args)
{
    return launch(kernel, each_grid(m, d), dim3(EACH_X, EACH_Y), 0, stream, args);
}

static __device__ __forceinline__ int64_t each_row(void)
{
    return (int64_t)blockIdx.y * EACH_Y + threadIdx.y;
}

static __device__ __forceinline__ int64_t each_rows(void)
{
    return (int64_t)gridDim.y * EACH_Y;
}

static __device__ __forceinline__ int64_t each_col(void)
{
    return (int64_t)blockIdx.x * EACH_COLS + threadIdx.x;
}

static __device__ __forceinline__ int64_t each_end(int64_t d)
{
    return least(((int64_t)blockIdx.x + 1) * EACH_COLS, d);
}

/* A block of ROW_THREADS for each of n rows (blockIdx.x), with a number of shared memory for each
 * warp. */
template <typename A>
static int launch_rows(void (*kernel)(A), int64_t n, void *stream, const A &args)
{
    return launch(kernel, dim3((unsigned)n), dim3(ROW_THREADS),
                  ROW_THREADS / FULL_WARP * sizeof(double), stream, args);
}

/* ---- sums over rows, by columns ---- */

enum { COLS_X = 32, COLS_Y = 16 };

/* Blocks of COLS_X columns, each with COLS_Y threads that share the rows out by turns; the runs of
 * columns are blockIdx.x, n_y the blocks in y. */
template <typename A>
static int launch_cols(void (*kernel)(A), int64_t d, int64_t n_y, void *stream, const A &args)
{
    return launch(kernel, dim3((unsigned)ceil_div(d, COLS_X), (unsigned)n_y), dim3(COLS_X, COLS_Y),
                  COLS_X * COLS_Y * sizeof(double), stream, args);
}

static __device__ __forceinline__ int64_t cols_at(void)
{
    return (int64_t)blockIdx.x * COLS_X + threadIdx.x;
}

static __device__ __forceinline__ int cols_lane(void)
{
    return (int)threadIdx.y;
}

/* The sum of a column's threads, in their order, for all of them. */
static __device__ __forceinline__ double cols_sum(double x)
{
    double *shared = (double *)shared_memory(), sum = 0;
    shared[threadIdx.y * COLS_X + threadIdx.x] = x;
    __syncthreads();
    for (int y = 0; y < COLS_Y; y++)
        sum += shared[y * COLS_X + threadIdx.x];
    __syncthreads();
    return sum;
}

/* What a launcher of a row is: args is the row's struct. */
typedef int cuda_row_fn(const void *args, void *stream);

#endif
