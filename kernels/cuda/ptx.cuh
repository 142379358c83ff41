/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions that CUDA C has no word for, each behind one function: products on the tensor
 * cores, matrices out of shared memory, asynchronous copies. Compiled by nvcc they are asm; else
 * they call the emulation that stands in nvcc's place (tests/cuda_emu), with the same meaning.
 * All need sm_80. Every lane of a warp takes part in mma_bf16 and ldmatrix.
 */
#ifndef KERNELS_CUDA_PTX_CUH
#define KERNELS_CUDA_PTX_CUH

#include <stdint.h>

/* The block's shared memory: the bytes that its launch asked for, 16-aligned. */
static __device__ __forceinline__ void *shared_memory(void)
{
#ifdef __CUDACC__
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    return shared_bytes;
#else
    return emu_shared();
#endif
}

/* d[16, 8] += a[16, 16] b[16, 8]. Lane 4g + t holds, of a, rows g (a[0], a[2]) and g + 8 (a[1],
 * a[3]) at columns 2t, 2t + 1 and 8 further; of b, rows 2t, 2t + 1 and 8 further of column g; of
 * d, rows g and g + 8 at columns 2t and 2t + 1. An element of d depends on its row of a, its column
 * of b and itself, on nothing else. */
static __device__ __forceinline__ void mma_bf16(float d[4], const uint32_t a[4],
                                                const uint32_t b[2])
{
#ifdef __CUDACC__
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    emu_mma_bf16(d, a, b);
#endif
}

/* Two numbers of bf16 less 136 each: exact where both are from 128 to 255. */
static __device__ __forceinline__ uint32_t bf16x2_less_136(uint32_t x)
{
#ifdef __CUDACC__
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(0x3f803f80u), "r"(0xc308c308u));
    return d;
#else
    uint32_t lo = __float_as_uint(__uint_as_float(x << 16) - 136.0f);
    uint32_t hi = __float_as_uint(__uint_as_float(x & 0xffff0000u) - 136.0f);
    return lo >> 16 | (hi & 0xffff0000u);
#endif
}

/* Two numbers of bf16 less 128 each: exact where both are from 128 to 255. */
static __device__ __forceinline__ uint32_t bf16x2_less_128(uint32_t x)
{
#ifdef __CUDACC__
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(0x3f803f80u), "r"(0xc300c300u));
    return d;
#else
    uint32_t lo = __float_as_uint(__uint_as_float(x << 16) - 128.0f);
    uint32_t hi = __float_as_uint(__uint_as_float(x & 0xffff0000u) - 128.0f);
    return lo >> 16 | (hi & 0xffff0000u);
#endif
}

#ifdef __CUDACC__
static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
#endif

/* Four matrices of 8 x 8: lane 8i + r names row r of matrix i, 16 bytes, 16-aligned. Lane 4g + t
 * gets columns 2t and 2t + 1 of row g. */
static __device__ __forceinline__ void ldmatrix_x4(uint32_t d[4], const void *row)
{
#ifdef __CUDACC__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row))
                 : "memory");
#else
    emu_ldmatrix(d, row, 4, false);
#endif
}

/* The same of the matrices' transposes: lane 4g + t gets rows 2t and 2t + 1 of column g. */
static __device__ __forceinline__ void ldmatrix_x4_trans(uint32_t d[4], const void *row)
{
#ifdef __CUDACC__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row))
                 : "memory");
#else
    emu_ldmatrix(d, row, 4, true);
#endif
}

/* 16 bytes of global memory into shared, both 16-aligned, past the registers; of them the first
 * `from_bytes` (0 or 16) are read and the rest become zeros. They are there once copy_wait says
 * so, for the thread that asked; for others, behind a barrier after that. */
static __device__ __forceinline__ void copy_async_16(void *shared, const void *global,
                                                     int from_bytes)
{
#ifdef __CUDACC__
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(shared)), "l"(global), "r"(from_bytes)
                 : "memory");
#else
    emu_copy_async(shared, global, 16, from_bytes);
#endif
}

/* What was asked since the last call becomes a group. */
static __device__ __forceinline__ void copy_commit(void)
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    emu_copy_commit();
#endif
}

/* Waits until all but the last N_LEFT groups have landed. */
template <int N_LEFT> static __device__ __forceinline__ void copy_wait(void)
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(N_LEFT) : "memory");
#else
    emu_copy_wait(N_LEFT);
#endif
}

/* 16 bytes that are read once, by this thread alone: they need no place in the first cache. */
static __device__ __forceinline__ uint4 load_once(const void *p)
{
#ifdef __CUDACC__
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
#else
    return *(const uint4 *)p;
#endif
}

#endif
