/* SPDX-License-Identifier: Apache-2.0
 *
 * What the products of bf16, int8 and int4 weights share, and the order of their sums.
 *
 * A product runs on mma_bf16 with 16 outputs of the weight as its rows and 8 packed rows as its
 * columns. An output's inputs are taken in stretches: 256 of bf16; of int8 a group, 128, of codes
 * alone. The sum of a stretch starts at zero and takes its inputs 16 by 16; then
 *     bf16  total = total + sum        int8  total = fma(scale, sum, total)
 * from the first stretch to the last; int8g, int4, mxfp4: 256 as well, within which a sum for each
 * group joins the stretch's by its scale. That is the order for one row (linear_small.cuh: a warp
 * has a stretch of its own) and for thousands (linear_tile.cuh: a warp goes through all), so a row
 * has the same bits in both. Which 16 inputs share an instruction follows from how lanes read: lane
 * 4g + t reads 16 bytes of output g (and g + 8) and of row g, blocks t of the weight's order, and
 * instruction j takes numbers 4j to 4j + 3 of every lane's.
 */
#ifndef KERNELS_CUDA_LINEAR_CUH
#define KERNELS_CUDA_LINEAR_CUH

#include "kernels/cuda/weight.cuh"

enum {
    LINEAR_SUM = 256,   /* inputs of a stretch, bf16 */
    LINEAR_OUTPUTS = 16 /* of an instruction */
};

/* A call, with what its kernels would else work out in every thread. */
struct linear_args {
    struct k_linear k;
    int64_t stored; /* inputs as stored, of weight and rows */
    int64_t n;      /* outputs */
    int64_t strip;  /* the first */
    int is_aligned; /* rows begin at multiples of 16 bytes */
};

/* Codes of e4m3 in bytes 0 and 2 as a pair of bf16. */
static __device__ __forceinline__ uint32_t fp8_pair(uint32_t codes)
{
    const float far = __uint_as_float(247u << 23); /* 2^120, what the exponents' zeros differ by */
    float lo = __uint_as_float((codes & 0x7fu) << 20) * far;
    float hi = __uint_as_float((codes & 0x7f0000u) << 4) * far;
    return __float_as_uint(lo) >> 16 | __float_as_uint(hi) | (codes & 0x00800080u) << 8;
}

/* The pair that stands for it with -128, which int8c has in place of -0. */
static __device__ __forceinline__ uint32_t with_least(uint32_t pair)
{
    pair = (pair & 0xffffu) == 0x8000u ? (pair & 0xffff0000u) | 0xc300u : pair;
    return pair >> 16 == 0x8000u ? (pair & 0xffffu) | 0xc3000000u : pair;
}

/* Four codes of a byte as two pairs of bf16: inputs 0 and 1, 2 and 3. */
static __device__ __forceinline__ void int8_pairs(uint32_t codes, uint32_t *lo, uint32_t *hi)
{
    uint32_t next = codes >> 8;
    *lo = bf16x2_less_128((codes & 0x007f007fu) | 0x43004300u) | (codes & 0x00800080u) << 8;
    *hi = bf16x2_less_128((next & 0x007f007fu) | 0x43004300u) | (next & 0x00800080u) << 8;
}

template <int TYPE>
static __device__ __forceinline__ void byte_pairs(uint32_t codes, uint32_t *lo, uint32_t *hi)
{
    if (TYPE == K_FP8) {
        *lo = fp8_pair(codes);
        *hi = fp8_pair(codes >> 8);
        return;
    }
    int8_pairs(codes, lo, hi);
    if (TYPE == K_INT8C) {
        *lo = with_least(*lo);
        *hi = with_least(*hi);
    }
}

/* Codes of e2m1 in the lowest bits of both halves as a pair of bf16, twice what they are. */
static __device__ __forceinline__ uint32_t e2m1_pair(uint32_t codes)
{
    const float far = __uint_as_float(254u << 23); /* 2^127, what the exponents' zeros differ by */
    float lo = __uint_as_float((codes & 0x7u) << 22) * far;
    float hi = __uint_as_float((codes & 0x70000u) << 6) * far;
    return __float_as_uint(lo) >> 16 | __float_as_uint(hi) | (codes & 0x00080008u) << 12;
}

/* Inputs 4j to 4j + 3 of the eight codes of int4, or mxfp4, in a word, likewise. */
template <int TYPE>
static __device__ __forceinline__ void four_pairs(uint32_t codes, int j, uint32_t *lo, uint32_t *hi)
{
    if (TYPE == K_MXFP4) {
        *lo = e2m1_pair(codes >> 8 * j & 0x000f000fu);
        *hi = e2m1_pair(codes >> (8 * j + 4) & 0x000f000fu);
        return;
    }
    *lo = bf16x2_less_136((codes >> 8 * j & 0x000f000fu) | 0x43004300u);
    *hi = bf16x2_less_136((codes >> (8 * j + 4) & 0x000f000fu) | 0x43004300u);
}

static __device__ __forceinline__ uint32_t word_of(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* ---- the weight: 16 bytes of output `o` from input `i` on, zeros past the end ---- */

/* Where lane t's of a block of int4 lie, which is whole; and what it would read of one that is not:
 * code 8, zero in either, where nothing is. */
static __device__ __forceinline__ const void *int4_at(const struct linear_args &a, int64_t o,
                                                      int64_t block, int t)
{
    return (const char *)a.k.w.data + ((o / CUDA_STRIP * a.stored + block) * CUDA_STRIP +
                                       (t * CUDA_STRIP + o % CUDA_STRIP) * 32) /
                                          2;
}

static __device__ uint4 int4_tail(const struct linear_args &a, int64_t o, int64_t block, int t)
{
    uint32_t word[4] = {0x88888888u, 0x88888888u, 0x88888888u, 0x88888888u};
    for (int at = 0; at < 32; at++) {
        int64_t i = block + at / 8 * K_INT4_GROUP + t * 8 + at % 8;
        if (i >= a.stored)
            continue;
        int64_t from = cuda_int4_at(a.stored, o, i);
        uint32_t code = ((const uint8_t *)a.k.w.data)[from / 2] >> from % 2 * 4 & 15;
        int place = (at % 8 / 2 + at % 2 * 4) * 4;
        word[at / 8] = (word[at / 8] & ~(15u << place)) | code << place;
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

static __device__ __forceinline__ uint4 int4_load(const struct linear_args &a, int64_t o,
                                                  int64_t block, int t)
{
    if (block + CUDA_BLOCK_INT4 > a.stored)
        return int4_tail(a, o, block, t);
    if (a.stored % 4 == 0) /* else strips begin at multiples of 8 bytes */
        return load_once(int4_at(a, o, block, t));
    const uint2 *half = (const uint2 *)int4_at(a, o, block, t);
    return make_uint4(half[0].x, half[0].y, half[1].x, half[1].y);
}

/* Where they lie, if there are 16. */
template <int TYPE>
static __device__ __forceinline__ const void *weight_at(const struct linear_args &a, int64_t o,
                                                        int64_t i)
{
    constexpr int BLOCK = TYPE == K_BF16 ? (int)CUDA_BLOCK_BF16 : (int)CUDA_BLOCK_INT8;
    constexpr int BYTES = TYPE == K_BF16 ? 2 : 1;
    int64_t at = o / CUDA_STRIP * CUDA_STRIP * a.stored + i * CUDA_STRIP + o % CUDA_STRIP * BLOCK;
    return (const char *)a.k.w.data + at * BYTES;
}

/* The last block, narrower than others. */
template <int TYPE>
static __device__ uint4 weight_tail(const struct linear_args &a, int64_t o, int64_t i)
{
    uint32_t word[4] = {0, 0, 0, 0};
    for (int64_t j = i; j < a.stored; j++) {
        int at = (int)(j - i);
        if (TYPE == K_BF16) {
            uint32_t v = ((const k_bf16 *)a.k.w.data)[cuda_bf16_at(a.stored, o, j)];
            word[at / 2] |= v << at % 2 * 16;
        } else {
            uint32_t v = ((const uint8_t *)a.k.w.data)[cuda_int8_at(a.stored, o, j)];
            int place = at % 4 == 1 ? 2 : at % 4 == 2 ? 1 : at % 4;
            word[at / 4] |= v << place * 8;
        }
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

template <int TYPE>
static __device__ __forceinline__ uint4 weight_load(const struct linear_args &a, int64_t o,
                                                    int64_t i)
{
    constexpr int BLOCK = TYPE == K_BF16 ? (int)CUDA_BLOCK_BF16 : (int)CUDA_BLOCK_INT8;
    if (i + BLOCK <= a.stored)
        return load_once(weight_at<TYPE>(a, o, i));
    return i < a.stored ? weight_tail<TYPE>(a, o, i) : make_uint4(0, 0, 0, 0);
}

/* ---- rows: 8 numbers of a row, zeros past the end ---- */

static __device__ __forceinline__ uint4 row_load(const void *rows, int64_t stored, bool is_aligned,
                                                 int64_t m, int64_t row, int64_t i)
{
    if (row >= m || i >= stored)
        return make_uint4(0, 0, 0, 0);
    const k_bf16 *x = (const k_bf16 *)rows + row * stored + i;
    if (is_aligned)
        return *(const uint4 *)x;
    const uint32_t *pair = (const uint32_t *)x; /* stored is even */
    int64_t left = stored - i;
    return make_uint4(pair[0], left > 2 ? pair[1] : 0, left > 4 ? pair[2] : 0,
                      left > 6 ? pair[3] : 0);
}

/* ---- results ---- */

/* The bias joins the finished sum, and what is in y joins last. */
static __device__ __forceinline__ void linear_store(const struct linear_args &a, int64_t row,
                                                    int64_t o, float v)
{
    if (row >= a.k.m || o >= a.n)
        return;
    float *y = a.k.y + row * a.k.ld_y + o;
    if (a.k.bias)
        v += a.k.bias[a.strip * CUDA_STRIP + o];
    *y = a.k.add ? *y + v : v;
}

/* The scale of output o of the call in the group that has input i. */
static __device__ __forceinline__ float linear_scale(const struct linear_args &a, int64_t o,
                                                     int64_t i)
{
    return code_scale<K_INT8>(a.k.w, a.strip * CUDA_STRIP + o, i);
}

#endif
