/* SPDX-License-Identifier: Apache-2.0
 *
 * A product of few rows, and of int8g, int4 and mxfp4 any product, so many rows at a time: what
 * limits it is reading the weight. A block has 16 outputs; each of its warps reads 256 inputs of
 * them in one go, straight into the registers that the product wants, so that a few warps keep a
 * hundred kilobytes under way; it asks for the next 256 before the sums of the last are added up.
 * Sums of stretches meet in shared memory and are folded in their order.
 */
#ifndef KERNELS_CUDA_LINEAR_SMALL_CUH
#define KERNELS_CUDA_LINEAR_SMALL_CUH

#include "kernels/cuda/linear.cuh"

enum {
    SMALL_WARPS = 8, /* at most */
    SMALL_INPUTS = 256,
    SMALL_ROWS_MAX = 32
};

/* What a warp holds of the weight: outputs g and g + 8, 16 bytes for each step. */
template <int TYPE> struct small_piece {
    /* inputs of a warp's 16-byte loads */
    static constexpr int STEP = TYPE == K_BF16        ? 32
                                : has_four_bits(TYPE) ? (int)CUDA_BLOCK_INT4
                                                      : 64;
    static constexpr int STEPS = SMALL_INPUTS / STEP;
    static constexpr int SUM = has_wide_groups(TYPE) ? (int)K_INT8_GROUP : (int)LINEAR_SUM;
    static constexpr int SUMS = SMALL_INPUTS / SUM; /* stretches */
    uint4 w[STEPS][2];
};

template <int TYPE>
static __device__ __forceinline__ void small_load(const struct linear_args &a, int64_t i,
                                                  struct small_piece<TYPE> &p)
{
    int g = lane_id() / 4, t = lane_id() % 4;
    int64_t o = (a.strip + (int64_t)blockIdx.x * 2) * CUDA_STRIP + g;
    constexpr int STEP = small_piece<TYPE>::STEP;
#pragma unroll
    for (int s = 0; s < small_piece<TYPE>::STEPS; s++) {
        if (has_four_bits(TYPE)) {
            p.w[s][0] = int4_load(a, o, i + s * STEP, t);
            p.w[s][1] = int4_load(a, o + CUDA_STRIP, i + s * STEP, t);
            continue;
        }
        p.w[s][0] = weight_load<TYPE>(a, o, i + s * STEP + t * (STEP / 4));
        p.w[s][1] = weight_load<TYPE>(a, o + CUDA_STRIP, i + s * STEP + t * (STEP / 4));
    }
}

/* One step of a tile of 8 rows. */
template <int TYPE>
static __device__ __forceinline__ void small_step(const struct linear_args &a, const uint4 w[2],
                                                  int64_t row, int64_t i, float acc[4])
{
    uint4 x = row_load(a.k.rows, a.stored, a.is_aligned, a.k.m, row, i);
    if (TYPE == K_BF16) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint32_t wa[4] = {word_of(w[0], 2 * j), word_of(w[1], 2 * j), word_of(w[0], 2 * j + 1),
                              word_of(w[1], 2 * j + 1)};
            uint32_t xb[2] = {word_of(x, 2 * j), word_of(x, 2 * j + 1)};
            mma_bf16(acc, wa, xb);
        }
        return;
    }
    uint4 more = row_load(a.k.rows, a.stored, a.is_aligned, a.k.m, row, i + 8);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t wa[4];
        byte_pairs<TYPE>(word_of(w[0], j), &wa[0], &wa[2]);
        byte_pairs<TYPE>(word_of(w[1], j), &wa[1], &wa[3]);
        const uint4 &from = j < 2 ? x : more;
        uint32_t xb[2] = {word_of(from, 2 * (j % 2)), word_of(from, 2 * (j % 2) + 1)};
        mma_bf16(acc, wa, xb);
    }
}

/* The same of codes of four bits: each group is summed by itself and joins by its scale. */
template <int TYPE, int TILES>
static __device__ __forceinline__ void small_product_four(const struct linear_args &a, int64_t i,
                                                          const struct small_piece<TYPE> &p,
                                                          float *part)
{
    int g = lane_id() / 4, t = lane_id() % 4;
    int64_t o = a.strip * CUDA_STRIP + (int64_t)blockIdx.x * LINEAR_OUTPUTS + g;
    float sum[TILES][4] = {};
#pragma unroll
    for (int group = 0; group < SMALL_INPUTS / K_INT4_GROUP; group++) {
        int64_t at = i + group * K_INT4_GROUP;
        if (at >= a.stored)
            break;
        float scale[2] = {code_scale<K_INT4>(a.k.w, o, at),
                          code_scale<K_INT4>(a.k.w, o + CUDA_STRIP, at)};
        uint32_t wa[2][4];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            four_pairs<TYPE>(word_of(p.w[group / 4][0], group % 4), j, &wa[j][0], &wa[j][2]);
            four_pairs<TYPE>(word_of(p.w[group / 4][1], group % 4), j, &wa[j][1], &wa[j][3]);
        }
#pragma unroll
        for (int r = 0; r < TILES; r++) {
            uint4 x = row_load(a.k.rows, a.stored, a.is_aligned, a.k.m, r * 8 + g, at + t * 8);
            float acc[4] = {};
            for (int j = 0; j < 2; j++) {
                uint32_t xb[2] = {word_of(x, 2 * j), word_of(x, 2 * j + 1)};
                mma_bf16(acc, wa[j], xb);
            }
            for (int h = 0; h < 4; h++)
                sum[r][h] = fmaf(scale[h / 2], acc[h], sum[r][h]);
        }
    }
#pragma unroll
    for (int r = 0; r < TILES; r++) {
        for (int h = 0; h < 4; h++)
            part[(g + h / 2 * 8) * TILES * 8 + r * 8 + 2 * t + h % 2] = sum[r][h];
    }
}

/* Two groups of int8g, which a step's lanes have halves of: each is summed with zeros for the rows
 * of the other, and joins by its scale. */
static __device__ __forceinline__ void small_step_int8g(const struct linear_args &a,
                                                        const uint4 w[2], int64_t row, int64_t i,
                                                        float sum[4])
{
    int g = lane_id() / 4, t = lane_id() % 4;
    int64_t o = a.strip * CUDA_STRIP + (int64_t)blockIdx.x * LINEAR_OUTPUTS + g;
    for (int group = 0; group < 2 && i + group * K_INT8G_GROUP < a.stored; group++) {
        int64_t at = i + group * K_INT8G_GROUP, m = t / 2 == group ? a.k.m : 0;
        uint4 x[2] = {row_load(a.k.rows, a.stored, a.is_aligned, m, row, i + t * 16),
                      row_load(a.k.rows, a.stored, a.is_aligned, m, row, i + t * 16 + 8)};
        float acc[4] = {};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t wa[4];
            int8_pairs(word_of(w[0], j), &wa[0], &wa[2]);
            int8_pairs(word_of(w[1], j), &wa[1], &wa[3]);
            uint32_t xb[2] = {word_of(x[j / 2], 2 * (j % 2)), word_of(x[j / 2], 2 * (j % 2) + 1)};
            mma_bf16(acc, wa, xb);
        }
        for (int h = 0; h < 4; h++)
            sum[h] = fmaf(code_scale<K_INT8G>(a.k.w, o + h / 2 * CUDA_STRIP, at), acc[h], sum[h]);
    }
}

/* The sums of the piece's stretches for all rows, into part[stretch][output][row]. */
template <int TYPE, int TILES>
static __device__ __forceinline__ void small_product(const struct linear_args &a, int64_t i,
                                                     const struct small_piece<TYPE> &p, float *part)
{
    constexpr int STEP = small_piece<TYPE>::STEP,
                  EACH = small_piece<TYPE>::STEPS / small_piece<TYPE>::SUMS;
    int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
    for (int sum = 0; sum < small_piece<TYPE>::SUMS; sum++) {
        float acc[TILES][4] = {};
#pragma unroll
        for (int s = 0; s < EACH; s++) {
            int64_t at = i + (sum * EACH + s) * STEP;
            if (at >= a.stored)
                break;
#pragma unroll
            for (int r = 0; r < TILES; r++) {
                if (TYPE == K_INT8G)
                    small_step_int8g(a, p.w[sum * EACH + s], r * 8 + g, at, acc[r]);
                else
                    small_step<TYPE>(a, p.w[sum * EACH + s], r * 8 + g, at + t * (STEP / 4),
                                     acc[r]);
            }
        }
        float *to = part + sum * LINEAR_OUTPUTS * TILES * 8;
#pragma unroll
        for (int r = 0; r < TILES; r++) {
            for (int h = 0; h < 4; h++)
                to[(g + h / 2 * 8) * TILES * 8 + r * 8 + 2 * t + h % 2] = acc[r][h];
        }
    }
}

/* Folds the stretches of a round, the first of which has input i. */
template <int TYPE, int TILES>
static __device__ __forceinline__ void small_fold(const struct linear_args &a, int64_t i,
                                                  const float *part, float *total)
{
    constexpr int SIZE = LINEAR_OUTPUTS * TILES * 8, SUM = small_piece<TYPE>::SUM;
    int n_sum = (int)least((int64_t)blockDim.x / FULL_WARP * small_piece<TYPE>::SUMS,
                           ceil_div(a.stored - i, SUM));
    for (int e = (int)threadIdx.x; e < SIZE; e += (int)blockDim.x) {
        int64_t o = (int64_t)blockIdx.x * LINEAR_OUTPUTS + e / (TILES * 8);
        if (o >= a.n || e % (TILES * 8) >= a.k.m)
            continue;
        float v = total[e];
        for (int s = 0; s < n_sum; s++) {
            if (!has_wide_groups(TYPE))
                v += part[s * SIZE + e];
            else
                v = fmaf(linear_scale(a, o, i + s * SUM), part[s * SIZE + e], v);
        }
        total[e] = v;
    }
}

template <int TYPE, int TILES>
static __global__ void __launch_bounds__(SMALL_WARPS *FULL_WARP)
    linear_small_kernel(struct linear_args a)
{
    constexpr int SIZE = LINEAR_OUTPUTS * TILES * 8;
    int64_t row = (int64_t)blockIdx.y * TILES * 8;
    a.k.rows = (const k_bf16 *)a.k.rows + row * a.stored;
    a.k.y += row * a.k.ld_y;
    a.k.m -= row;
    float *total = (float *)shared_memory(), *part = total + SIZE;
    float *mine = part + warp_id() * small_piece<TYPE>::SUMS * SIZE;
    int64_t round = (int64_t)blockDim.x / FULL_WARP * SMALL_INPUTS;
    int64_t first = (int64_t)warp_id() * SMALL_INPUTS;
    struct small_piece<TYPE> p;
    small_load<TYPE>(a, first, p);
    for (int e = (int)threadIdx.x; e < SIZE; e += (int)blockDim.x)
        total[e] = 0;
    for (int64_t i = 0; i < a.stored; i += round) {
        if constexpr (has_four_bits(TYPE))
            small_product_four<TYPE, TILES>(a, i + first, p, mine);
        else
            small_product<TYPE, TILES>(a, i + first, p, mine);
        small_load<TYPE>(a, i + round + first, p);
        __syncthreads();
        small_fold<TYPE, TILES>(a, i, part, total);
        __syncthreads();
    }
    for (int e = (int)threadIdx.x; e < SIZE; e += (int)blockDim.x)
        linear_store(a, e % (TILES * 8), (int64_t)blockIdx.x * LINEAR_OUTPUTS + e / (TILES * 8),
                     total[e]);
}

/* Warps that share a block's inputs out evenly. */
static inline int small_warps(int64_t stored)
{
    int64_t n = ceil_div(stored, SMALL_INPUTS), rounds = ceil_div(n, SMALL_WARPS);
    return n > 0 ? (int)ceil_div(n, rounds) : 1;
}

template <int TYPE, int TILES>
static int linear_small_tiles(const struct linear_args &a, void *stream)
{
    int n_warp = small_warps(a.stored);
    size_t parts = 1 + (size_t)n_warp * small_piece<TYPE>::SUMS;
    return launch(
        linear_small_kernel<TYPE, TILES>,
        dim3((unsigned)ceil_div(a.n, LINEAR_OUTPUTS), (unsigned)ceil_div(a.k.m, TILES * 8)),
        dim3((unsigned)n_warp * FULL_WARP), parts * LINEAR_OUTPUTS * TILES * 8 * sizeof(float),
        stream, a);
}

/* Any number of rows; the weight is read once for SMALL_ROWS_MAX of them. */
template <int TYPE> static int linear_small(const struct linear_args &a, void *stream)
{
    if (a.k.m <= 8)
        return linear_small_tiles<TYPE, 1>(a, stream);
    if (a.k.m <= 16)
        return linear_small_tiles<TYPE, 2>(a, stream);
    return linear_small_tiles<TYPE, 4>(a, stream);
}

#endif
