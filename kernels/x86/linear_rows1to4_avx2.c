/* SPDX-License-Identifier: Apache-2.0
 *
 * One to four rows against some panels: memory is the limit, and one stream of it is not all that a
 * core can read (20 GB/s; 25 from three or four). So up to four panels come by turns, a kilobyte of
 * each, and no prefetch is asked for, which costs more than it brings. The sums of the others wait
 * in the first cache meanwhile.
 *
 * Codes of one row are bound by their widening, some 30 instructions for 64 of them. Tried for
 * groups of 32: two panels at a time, a function for each height: nothing.
 */
#include "kernels/x86/block_avx2.h"
#include "kernels/x86/widen_avx2.h"

#include <string.h>

#define FEW_INLINE static inline __attribute__((always_inline))

enum { BURST_BYTES = 1024, ROWS = BLOCK_FEW, PANELS = BLOCK_FEW_PANELS };

/* A step of a panel, half of it or all: n vectors of outputs from vector v0 on. Input e of its pair
 * joins the sums. */
FEW_INLINE void few_step(enum k_type type, int h, int v0, int nv, const char *step,
                         const char *rows, __m256 *sum)
{
    const int pair = format_stream(type, 0).inputs;
#pragma GCC unroll 2
    for (int e = 0; e < pair; e++) {
        __m256 x[ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < h; r++)
            x[r] = open_input(type, rows, r, e);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            __m256 w = open_vector(type, step, v0 + v, e);
#pragma GCC unroll 4
            for (int r = 0; r < h; r++)
                sum[r * nv + v] = _mm256_fmadd_ps(x[r], w, sum[r * nv + v]);
        }
    }
}

FEW_INLINE void few_part(enum k_type type, int h, int v0, int nv, const char *panel,
                         const char *rows, int64_t steps, float *to)
{
    __m256 sum[8 + ROWS];
    const int64_t bytes = format_stream(type, 0).bytes;
#pragma GCC unroll 12
    for (int i = 0; i < h * nv; i++)
        sum[i] = _mm256_loadu_ps(to + i / nv * K_NR + (v0 + i % nv) * 8);
    for (int64_t i = 0; i < steps; i++, panel += bytes, rows += h * 4)
        few_step(type, h, v0, nv, panel, rows, sum);
#pragma GCC unroll 12
    for (int i = 0; i < h * nv; i++)
        _mm256_storeu_ps(to + i / nv * K_NR + (v0 + i % nv) * 8, sum[i]);
}

/* Steps of one panel for all rows: sums from memory and back. */
FEW_INLINE void few_burst(enum k_type type, int h, const char *panel, const char *rows,
                          int64_t steps, float *to)
{
    if (h * 4 <= 12) {
        few_part(type, h, 0, 4, panel, rows, steps, to);
        return;
    }
    few_part(type, h, 0, 2, panel, rows, steps, to);
    few_part(type, h, 2, 2, panel, rows, steps, to);
}

/* Steps [at, at + steps) of np panels; sums: [np][h][32]. */
FEW_INLINE void few_steps(enum k_type type, int h, const struct block *b, int64_t at, int64_t steps,
                          float *sum)
{
    const int64_t bytes = format_stream(type, 0).bytes, burst = BURST_BYTES / bytes;
    for (int64_t i = 0; i < steps; i += burst) {
        int64_t n = linear_min(steps - i, burst);
        for (int64_t q = 0; q < b->np; q++)
            few_burst(type, h, b->panel + q * b->stride + (at + i) * bytes,
                      b->rows + (at + i) * h * 4, n, sum + q * h * K_NR);
    }
}

FEW_INLINE void few_height(enum k_type type, const struct block *b, int64_t at, int64_t steps,
                           float *sum)
{
    if (format_is_nested(type))
        return;
    switch (b->h) {
    case 1:
        return few_steps(type, 1, b, at, steps, sum);
    case 2:
        return few_steps(type, 2, b, at, steps, sum);
    case 3:
        return few_steps(type, 3, b, at, steps, sum);
    default:
        return few_steps(type, 4, b, at, steps, sum);
    }
}

static void few_any(enum k_type type, const struct block *b, int64_t at, int64_t steps, float *sum)
{
    switch (type) {
#define FORMAT(name, ID, ...)                                                                      \
    case K_##ID:                                                                                   \
        return few_height(K_##ID, b, at, steps, sum);
#include "kernels/format.def"
#undef FORMAT
    default:
        return;
    }
}

static void few_finish(const struct block *b, const float *sum)
{
    for (int64_t q = 0; q < b->np; q++) {
        struct tile_out o = b->out;
        o.y += q * K_NR;
        o.cols -= q * K_NR;
        o.bias = o.bias ? o.bias + q * K_NR : NULL;
        block_finish_avx2(&o, b->h, sum + q * b->h * K_NR);
    }
}

static void few(enum k_type type, const struct block *b)
{
    float own[PANELS * ROWS * K_NR] __attribute__((aligned(64)));
    memset(own, 0, (size_t)(b->np * b->h * K_NR) * sizeof *own);
    few_any(type, b, 0, b->steps, own);
    few_finish(b, own);
}

/* ---- nested scales: what is multiplied is the weight, so a sum is one chain -------------------
 */

/* Vectors of outputs [v0, v0 + nv) over a block. */
FEW_INLINE void nested_part(enum k_type type, int h, int v0, int nv, const char *block,
                            const char *rows, float *to)
{
    const int group = nested_group(type);
    __m256 sum[8 + ROWS];
#pragma GCC unroll 12
    for (int i = 0; i < h * nv; i++)
        sum[i] = _mm256_loadu_ps(to + i / nv * K_NR + (v0 + i % nv) * 8);
    for (int64_t at = 0; at < K_NESTED; at += group) {
        struct open_nested s[4];
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            s[v] = open_nested(type, block, v0 + v, at);
        for (int64_t i = at; i < at + group; i++, rows += h * 4) {
            __m256 x[ROWS];
#pragma GCC unroll 4
            for (int r = 0; r < h; r++)
                x[r] = open_input(type, rows, r, 0);
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++) {
                __m256 w = open_nested_vector(type, block, v0 + v, i, &s[v]);
#pragma GCC unroll 4
                for (int r = 0; r < h; r++)
                    sum[r * nv + v] = _mm256_fmadd_ps(x[r], w, sum[r * nv + v]);
            }
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < h * nv; i++)
        _mm256_storeu_ps(to + i / nv * K_NR + (v0 + i % nv) * 8, sum[i]);
}

/* Panels by turns, a block of each. */
FEW_INLINE void nested_blocks(enum k_type type, int h, const struct block *b, float *sum)
{
    for (int64_t i = 0; i < b->steps; i++) {
        for (int64_t q = 0; q < b->np; q++) {
            const char *block = b->panel + q * b->stride + i * nested_bytes(type);
            const char *rows = b->rows + i * K_NESTED * h * 4;
            if (h * 4 <= 12) {
                nested_part(type, h, 0, 4, block, rows, sum + q * h * K_NR);
                continue;
            }
            nested_part(type, h, 0, 2, block, rows, sum + q * h * K_NR);
            nested_part(type, h, 2, 2, block, rows, sum + q * h * K_NR);
        }
    }
}

FEW_INLINE void few_nested(enum k_type type, const struct block *b)
{
    float own[PANELS * ROWS * K_NR] __attribute__((aligned(64)));
    memset(own, 0, (size_t)(b->np * b->h * K_NR) * sizeof *own);
    if (b->h == 1)
        nested_blocks(type, 1, b, own);
    else if (b->h == 2)
        nested_blocks(type, 2, b, own);
    else if (b->h == 3)
        nested_blocks(type, 3, b, own);
    else
        nested_blocks(type, 4, b, own);
    few_finish(b, own);
}

/* A group's sums join the totals times their scales. */
FEW_INLINE void few_join(enum k_type type, const char *scale, int v, __m256 sum, float *total)
{
    float *at = total + v * 8;
    _mm256_storeu_ps(at, _mm256_fmadd_ps(open_scale(type, scale, v), sum, _mm256_loadu_ps(at)));
}

/* A group of a panel that is no longer than a burst: its sums never leave the registers. */
struct few_group {
    const char *panel, *scale, *rows;
    int64_t steps;
    float *total; /* [h][32] */
};

/* Vectors of outputs [v0, v0 + nv). */
FEW_INLINE void few_group_part(enum k_type type, int h, int v0, int nv, const struct few_group *g)
{
    __m256 sum[8 + ROWS];
    const int64_t bytes = format_stream(type, 0).bytes;
    const char *rows = g->rows, *panel = g->panel;
#pragma GCC unroll 12
    for (int i = 0; i < h * nv; i++)
        sum[i] = _mm256_setzero_ps();
    for (int64_t i = 0; i < g->steps; i++, panel += bytes, rows += h * 4)
        few_step(type, h, v0, nv, panel, rows, sum);
#pragma GCC unroll 12
    for (int i = 0; i < h * nv; i++)
        few_join(type, g->scale, v0 + i % nv, sum[i], g->total + i / nv * K_NR);
}

/* The same of weights that are scaled one by one: the totals are the sums. */
FEW_INLINE void few_scaled_part(enum k_type type, int h, int v0, int nv, const struct few_group *g)
{
    __m256 sum[8 + ROWS], scale[4];
    const char *rows = g->rows, *step = g->panel;
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++)
        scale[v] = open_scale(type, g->scale, v0 + v);
#pragma GCC unroll 12
    for (int i = 0; i < h * nv; i++)
        sum[i] = _mm256_loadu_ps(g->total + i / nv * K_NR + (v0 + i % nv) * 8);
    for (int64_t i = 0; i < g->steps; i++, step += format_stream(type, 0).bytes, rows += h * 4) {
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            __m256 w = _mm256_mul_ps(open_vector(type, step, v0 + v, 0), scale[v]);
#pragma GCC unroll 4
            for (int r = 0; r < h; r++)
                sum[r * nv + v] = _mm256_fmadd_ps(open_input(type, rows, r, 0), w, sum[r * nv + v]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < h * nv; i++)
        _mm256_storeu_ps(g->total + i / nv * K_NR + (v0 + i % nv) * 8, sum[i]);
}

/* The group of panel p that begins at step `at`. */
FEW_INLINE void few_group(enum k_type type, int h, const struct block_codes *q, int64_t p,
                          int64_t at)
{
    const struct block *b = &q->b;
    const int64_t group = tile_group_steps(type), scale_bytes = format_stream(type, 1).bytes;
    struct few_group g = {.panel = b->panel + p * b->stride + at * format_stream(type, 0).bytes,
                          .rows = b->rows + at * h * 4,
                          .steps = linear_min(b->steps - at, group),
                          .scale = q->scale + p * q->scale_stride + at / group * scale_bytes,
                          .total = q->total + p * h * K_NR};
    if (!format_folds(type)) {
        few_scaled_part(type, h, 0, 2, &g);
        few_scaled_part(type, h, 2, 2, &g);
        return;
    }
    if (h <= 3) {
        few_group_part(type, h, 0, 4, &g);
        return;
    }
    few_group_part(type, h, 0, 2, &g);
    few_group_part(type, h, 2, 2, &g);
}

/* Panels by turns, as many groups of each as a burst has. */
FEW_INLINE void few_groups(enum k_type type, int h, const struct block_codes *q)
{
    const int64_t group = tile_group_steps(type),
                  burst = BURST_BYTES / format_stream(type, 0).bytes;
    for (int64_t lo = 0; lo < q->b.steps; lo += burst)
        for (int64_t p = 0; p < q->b.np; p++)
            for (int64_t at = lo; at < linear_min(lo + burst, q->b.steps); at += group)
                few_group(type, h, q, p, at);
}

/* One that is longer: sums wait in memory between bursts. */
FEW_INLINE void few_long_groups(enum k_type type, const struct block_codes *q)
{
    float sum[PANELS * ROWS * K_NR] __attribute__((aligned(64)));
    const struct block *b = &q->b;
    const int64_t group = tile_group_steps(type), scale_bytes = format_stream(type, 1).bytes;
    for (int64_t at = 0; at < b->steps; at += group) {
        memset(sum, 0, (size_t)(b->np * b->h * K_NR) * sizeof *sum);
        few_any(type, b, at, linear_min(b->steps - at, group), sum);
        for (int64_t i = 0; i < b->np * b->h; i++) {
            const char *scale = q->scale + i / b->h * q->scale_stride + at / group * scale_bytes;
            for (int v = 0; v < 4; v++)
                few_join(type, scale, v, _mm256_load_ps(sum + i * K_NR + v * 8),
                         q->total + i * K_NR);
        }
    }
}

FEW_INLINE void few_codes(enum k_type type, const struct block_codes *q)
{
    const bool is_short = tile_group_steps(type) * format_stream(type, 0).bytes <= BURST_BYTES;
    const int64_t h = q->b.h;
    memset(q->total, 0, (size_t)(q->b.np * h * K_NR) * sizeof *q->total);
    if (!is_short)
        few_long_groups(type, q);
    else if (h == 1)
        few_groups(type, 1, q);
    else if (h == 2)
        few_groups(type, 2, q);
    else if (h == 3)
        few_groups(type, 3, q);
    else
        few_groups(type, 4, q);
    few_finish(&q->b, q->total);
}

void block_int8_avx2(const struct block_codes *q)
{
    few_codes(K_INT8, q);
}

void block_int8g_avx2(const struct block_codes *q)
{
    few_codes(K_INT8G, q);
}

void block_int8c_avx2(const struct block_codes *q)
{
    few_codes(K_INT8C, q);
}

void block_fp8_avx2(const struct block_codes *q)
{
    few_codes(K_FP8, q);
}

void block_int4_avx2(const struct block_codes *q)
{
    few_codes(K_INT4, q);
}

void block_mxfp4_avx2(const struct block_codes *q)
{
    few_codes(K_MXFP4, q);
}

void block_nf4_avx2(const struct block_codes *q)
{
    few_codes(K_NF4, q);
}

void block_int4k_avx2(const struct block *b)
{
    few_nested(K_INT4K, b);
}

void block_int5k_avx2(const struct block *b)
{
    few_nested(K_INT5K, b);
}

void block_int6k_avx2(const struct block *b)
{
    few_nested(K_INT6K, b);
}

void block_int8k_avx2(const struct block *b)
{
    few_nested(K_INT8K, b);
}

void block_f32_avx2(const struct block *b)
{
    few(K_F32, b);
}

void block_bf16_avx2(const struct block *b)
{
    few(K_BF16, b);
}

void block_f16_avx2(const struct block *b)
{
    few(K_F16, b);
}
