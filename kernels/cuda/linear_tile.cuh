/* SPDX-License-Identifier: Apache-2.0
 *
 * A product of many rows: tiles of outputs by rows, 64 inputs at a time through a ring of stages in
 * shared memory that asynchronous copies fill ahead. Both operands lie there in pieces of 16 bytes
 * as lanes want them; pieces change places within 128 bytes so that the lanes of a quarter warp
 * meet different banks.
 *
 * The sums are those of linear_small.cuh: the same instructions on the same numbers, and a stretch
 * is folded when its last inputs are done.
 */
#ifndef KERNELS_CUDA_LINEAR_TILE_CUH
#define KERNELS_CUDA_LINEAR_TILE_CUH

#include "kernels/cuda/linear.cuh"

enum { TILE_INPUTS = 64, TILE_STAGES = 4, TILE_ROW_BYTES = TILE_INPUTS * 2 };

/* A block's tile and how its warps share it. */
template <int TYPE, int OUTPUTS, int ROWS, int WARPS_O, int WARPS_R> struct tile {
    static constexpr int THREADS = WARPS_O * WARPS_R * FULL_WARP;
    static constexpr int BLOCK = TYPE == K_BF16 ? (int)CUDA_BLOCK_BF16 : (int)CUDA_BLOCK_INT8;
    static constexpr int STEP = 4 * BLOCK;
    static constexpr int STRIP_BYTES = TILE_INPUTS * CUDA_STRIP * (TYPE == K_BF16 ? 2 : 1);
    static constexpr int WEIGHT_BYTES = OUTPUTS / CUDA_STRIP * STRIP_BYTES;
    static constexpr int STAGE_BYTES = WEIGHT_BYTES + ROWS * TILE_ROW_BYTES;
    static constexpr int SHARED_BYTES = TILE_STAGES * STAGE_BYTES;
    static constexpr int MMA_O = OUTPUTS / WARPS_O / LINEAR_OUTPUTS; /* of a warp */
    static constexpr int MMA_R = ROWS / WARPS_R / 8;
    static constexpr int SUM = TYPE == K_BF16 ? (int)LINEAR_SUM : (int)K_INT8_GROUP;
};

/* Byte of the piece of output o (of the tile), block b of the stage. */
template <class T> static __device__ __forceinline__ int tile_weight_at(int o, int b)
{
    return o / CUDA_STRIP * T::STRIP_BYTES + b * 128 + ((o % CUDA_STRIP) ^ (b % 4 * 2)) * 16;
}

/* Byte of piece c, 8 numbers, of a row; lanes read 4 pieces in a row of bf16, every other of int8.
 */
template <int TYPE> static __device__ __forceinline__ int tile_row_at(int row, int c)
{
    return row * TILE_ROW_BYTES + (c ^ (row % 2 * (TYPE == K_BF16 ? 4 : 1))) * 16;
}

/* Asks for inputs [i, i + TILE_INPUTS) of the tile that begins at output o and row r. */
template <class T, int TYPE>
static __device__ __forceinline__ void tile_load(const struct linear_args &a, int64_t o, int64_t r,
                                                 int64_t i, unsigned char *stage)
{
    constexpr int BLOCKS = TILE_INPUTS / T::BLOCK;
    for (int e = (int)threadIdx.x; e < T::WEIGHT_BYTES / 16; e += T::THREADS) {
        int at = e % CUDA_STRIP, b = e / CUDA_STRIP % BLOCKS, strip = e / (CUDA_STRIP * BLOCKS);
        int64_t out = a.strip * CUDA_STRIP + o + strip * CUDA_STRIP + at, in = i + b * T::BLOCK;
        unsigned char *to = stage + tile_weight_at<T>(strip * CUDA_STRIP + at, b);
        bool is_here = o + strip * CUDA_STRIP < a.n; /* strips are whole */
        if (!is_here || in + T::BLOCK <= a.stored || in >= a.stored)
            copy_async_16(to, is_here && in < a.stored ? weight_at<TYPE>(a, out, in) : a.k.w.data,
                          is_here && in < a.stored ? 16 : 0);
        else
            *(uint4 *)to = weight_tail<TYPE>(a, out, in);
    }
    constexpr int ROWS = (T::STAGE_BYTES - T::WEIGHT_BYTES) / TILE_ROW_BYTES;
    for (int e = (int)threadIdx.x; e < ROWS * 8; e += T::THREADS) {
        int64_t row = r + e / 8, in = i + e % 8 * 8;
        unsigned char *to = stage + T::WEIGHT_BYTES + tile_row_at<TYPE>(e / 8, e % 8);
        bool is_here = row < a.k.m && in < a.stored;
        if (a.is_aligned)
            copy_async_16(to, (const k_bf16 *)a.k.rows + (is_here ? row * a.stored + in : 0),
                          is_here ? 16 : 0);
        else
            *(uint4 *)to = row_load(a.k.rows, a.stored, false, a.k.m, row, in);
    }
    copy_commit();
}

/* The same of a tile that lies within the matrices, with 64 inputs left: a thread's pieces are at
 * equal distances, and go on by equal steps from stage to stage. */
struct tile_source {
    const char *weight, *rows; /* of the thread's first pieces, at input 0 */
    int64_t weight_step, rows_step;
    int weight_to, rows_to;
    bool is_within;
};

template <class T, int TYPE>
static __device__ __forceinline__ struct tile_source tile_source_of(const struct linear_args &a,
                                                                    int64_t o, int64_t r)
{
    constexpr int BLOCKS = TILE_INPUTS / T::BLOCK, SIZE = TYPE == K_BF16 ? 2 : 1;
    constexpr int OUTPUTS = T::WEIGHT_BYTES / T::STRIP_BYTES * CUDA_STRIP;
    constexpr int ROWS = (T::STAGE_BYTES - T::WEIGHT_BYTES) / TILE_ROW_BYTES;
    int e = (int)threadIdx.x, at = e / (CUDA_STRIP * BLOCKS) * CUDA_STRIP + e % CUDA_STRIP;
    int b = e / CUDA_STRIP % BLOCKS;
    int64_t out = a.strip * CUDA_STRIP + o + at;
    struct tile_source s;
    s.weight = (const char *)weight_at<TYPE>(a, out, b * T::BLOCK);
    s.weight_step = (int64_t)T::THREADS / BLOCKS * a.stored * SIZE;
    s.weight_to = tile_weight_at<T>(at, b);
    s.rows = (const char *)a.k.rows + ((r + e / 8) * a.stored + e % 8 * 8) * 2;
    s.rows_step = (int64_t)T::THREADS / 8 * a.stored * 2;
    s.rows_to = T::WEIGHT_BYTES + tile_row_at<TYPE>(e / 8, e % 8);
    s.is_within = o + OUTPUTS <= a.n && r + ROWS <= a.k.m && a.is_aligned;
    return s;
}

template <class T, int TYPE>
static __device__ __forceinline__ void tile_load_within(const struct tile_source &s, int64_t i,
                                                        unsigned char *stage)
{
    constexpr int SIZE = TYPE == K_BF16 ? 2 : 1, STRIPS = T::THREADS / (TILE_INPUTS / T::BLOCK * 8);
    const char *weight = s.weight + i * CUDA_STRIP * SIZE, *rows = s.rows + i * 2;
#pragma unroll
    for (int j = 0; j < T::WEIGHT_BYTES / 16 / T::THREADS; j++)
        copy_async_16(stage + s.weight_to + j * STRIPS * T::STRIP_BYTES, weight + j * s.weight_step,
                      16);
#pragma unroll
    for (int j = 0; j < (T::STAGE_BYTES - T::WEIGHT_BYTES) / 16 / T::THREADS; j++)
        copy_async_16(stage + s.rows_to + j * (T::THREADS / 8 * TILE_ROW_BYTES),
                      rows + j * s.rows_step, 16);
    copy_commit();
}

/* The operands of instruction j out of what a lane read. */
template <int TYPE>
static __device__ __forceinline__ void weight_operand(const uint4 &lo, const uint4 &hi, int j,
                                                      uint32_t wa[4])
{
    if (TYPE == K_BF16) {
        wa[0] = word_of(lo, 2 * j);
        wa[1] = word_of(hi, 2 * j);
        wa[2] = word_of(lo, 2 * j + 1);
        wa[3] = word_of(hi, 2 * j + 1);
    } else {
        byte_pairs<TYPE>(word_of(lo, j), &wa[0], &wa[2]);
        byte_pairs<TYPE>(word_of(hi, j), &wa[1], &wa[3]);
    }
}

/* A warp's sums of one step: STEP inputs, block 4 step + t for lane 4g + t. */
template <class T, int TYPE>
static __device__ __forceinline__ void tile_step(const unsigned char *stage, int out, int row,
                                                 int step, float acc[T::MMA_O][T::MMA_R][4])
{
    constexpr int PIECES = TYPE == K_BF16 ? 1 : 2, EACH = 2 * PIECES;
    int g = lane_id() / 4, t = lane_id() % 4;
    uint4 x[T::MMA_R][PIECES];
#pragma unroll
    for (int r = 0; r < T::MMA_R; r++) {
        for (int p = 0; p < PIECES; p++)
            x[r][p] =
                *(const uint4 *)(stage + T::WEIGHT_BYTES +
                                 tile_row_at<TYPE>(row + r * 8 + g, (step * 4 + t) * PIECES + p));
    }
#pragma unroll
    for (int o = 0; o < T::MMA_O; o++) {
        int at = out + o * LINEAR_OUTPUTS + g;
        uint4 lo = *(const uint4 *)(stage + tile_weight_at<T>(at, step * 4 + t));
        uint4 hi = *(const uint4 *)(stage + tile_weight_at<T>(at + 8, step * 4 + t));
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            uint32_t wa[4];
            weight_operand<TYPE>(lo, hi, j, wa);
#pragma unroll
            for (int r = 0; r < T::MMA_R; r++) {
                const uint4 &from = x[r][j / 2];
                uint32_t xb[2] = {word_of(from, 2 * (j % 2)), word_of(from, 2 * (j % 2) + 1)};
                mma_bf16(acc[o][r], wa, xb);
            }
        }
    }
}

/* total = total + acc, or by the scales of the group that has input i; acc = 0. */
template <class T, int TYPE>
static __device__ __forceinline__ void tile_fold(const struct linear_args &a, int64_t out,
                                                 int64_t i, float acc[T::MMA_O][T::MMA_R][4],
                                                 float total[T::MMA_O][T::MMA_R][4])
{
#pragma unroll
    for (int o = 0; o < T::MMA_O; o++) {
        float scale[2] = {1, 1};
        for (int h = 0; has_wide_groups(TYPE) && h < 2; h++) {
            int64_t at = out + o * LINEAR_OUTPUTS + lane_id() / 4 + h * 8;
            scale[h] = at < a.n ? linear_scale(a, at, i) : 0;
        }
#pragma unroll
        for (int r = 0; r < T::MMA_R; r++) {
#pragma unroll
            for (int h = 0; h < 4; h++) {
                float v = acc[o][r][h];
                total[o][r][h] =
                    TYPE == K_BF16 ? total[o][r][h] + v : fmaf(scale[h / 2], v, total[o][r][h]);
                acc[o][r][h] = 0;
            }
        }
    }
}

template <class T, int TYPE>
static __device__ __forceinline__ void tile_store(const struct linear_args &a, int64_t out,
                                                  int64_t row, float total[T::MMA_O][T::MMA_R][4])
{
    int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
    for (int o = 0; o < T::MMA_O; o++) {
#pragma unroll
        for (int r = 0; r < T::MMA_R; r++) {
            for (int h = 0; h < 4; h++)
                linear_store(a, row + r * 8 + 2 * t + h % 2,
                             out + o * LINEAR_OUTPUTS + g + h / 2 * 8, total[o][r][h]);
        }
    }
}

template <int TYPE, int OUTPUTS, int ROWS, int WARPS_O, int WARPS_R>
static __global__ void __launch_bounds__(WARPS_O *WARPS_R *FULL_WARP)
    linear_tile_kernel(struct linear_args a)
{
    typedef tile<TYPE, OUTPUTS, ROWS, WARPS_O, WARPS_R> T;
    unsigned char *ring = (unsigned char *)shared_memory();
    int64_t o = (int64_t)blockIdx.x * OUTPUTS, r = (int64_t)blockIdx.y * ROWS;
    int out = warp_id() / WARPS_R * T::MMA_O * LINEAR_OUTPUTS;
    int row = warp_id() % WARPS_R * T::MMA_R * 8;
    float acc[T::MMA_O][T::MMA_R][4] = {}, total[T::MMA_O][T::MMA_R][4] = {};
    struct tile_source source = tile_source_of<T, TYPE>(a, o, r);
    for (int s = 0; s < TILE_STAGES - 1; s++)
        tile_load<T, TYPE>(a, o, r, (int64_t)s * TILE_INPUTS, ring + s * T::STAGE_BYTES);
    int n = (int)ceil_div(a.stored, TILE_INPUTS);
    for (int at = 0; at < n; at++) {
        copy_wait<TILE_STAGES - 2>();
        __syncthreads(); /* stage `at` is there, and no one reads the one before any more */
        int ahead = at + TILE_STAGES - 1;
        unsigned char *next = ring + ahead % TILE_STAGES * T::STAGE_BYTES;
        if (source.is_within && ((int64_t)ahead + 1) * TILE_INPUTS <= a.stored)
            tile_load_within<T, TYPE>(source, (int64_t)ahead * TILE_INPUTS, next);
        else
            tile_load<T, TYPE>(a, o, r, (int64_t)ahead * TILE_INPUTS, next);
        const unsigned char *stage = ring + at % TILE_STAGES * T::STAGE_BYTES;
#pragma unroll
        for (int step = 0; step < TILE_INPUTS / T::STEP; step++) {
            if ((int64_t)at * TILE_INPUTS + step * T::STEP < a.stored)
                tile_step<T, TYPE>(stage, out, row, step, acc);
        }
        int64_t end = ((int64_t)at + 1) * TILE_INPUTS;
        if (end % T::SUM == 0 || at + 1 == n)
            tile_fold<T, TYPE>(a, o + out, (end - 1) / T::SUM * T::SUM, acc, total);
    }
    copy_wait<0>();
    tile_store<T, TYPE>(a, o + out, r + row, total);
}

template <int TYPE, int OUTPUTS, int ROWS, int WARPS_O, int WARPS_R>
static int linear_tile_of(const struct linear_args &a, void *stream)
{
    typedef tile<TYPE, OUTPUTS, ROWS, WARPS_O, WARPS_R> T;
    return launch(linear_tile_kernel<TYPE, OUTPUTS, ROWS, WARPS_O, WARPS_R>,
                  dim3((unsigned)ceil_div(a.n, OUTPUTS), (unsigned)ceil_div(a.k.m, ROWS)),
                  dim3(T::THREADS), T::SHARED_BYTES, stream, a);
}

enum { TILE_MANY = 96 }; /* large tiles, if they still occupy most of a GPU */

template <int TYPE> static int linear_tile(const struct linear_args &a, void *stream)
{
    if (ceil_div(a.n, 128) * ceil_div(a.k.m, 128) >= TILE_MANY)
        return linear_tile_of<TYPE, 128, 128, 2, 4>(a, stream);
    return linear_tile_of<TYPE, 32, 64, 2, 2>(a, stream);
}

#endif
