/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes constants of the numbers of rows and panels: for each kind one switch, each case a straight
 * loop of tile_avx512.h.
 */
#include "kernels/x86/block_avx512.h"
#include "kernels/x86/tile_avx512.h"
#include "kernels/x86/tile_nested_avx512.h"
#include "kernels/x86/tile_nf4_avx512.h"

static inline struct tile_out out_of_panel(const struct tile_out *first, int p)
{
    struct tile_out out = *first;
    out.y += p * K_NR;
    out.cols -= p * K_NR;
    if (out.bias)
        out.bias += p * K_NR;
    return out;
}

TILE_INLINE void plain(enum k_type type, int h, int np, const struct block *b)
{
    __m512 sum[TILE_SUMS_MAX];
    if (b->from)
        tile_load(h * np * 2, sum, b->from);
    else
        tile_zero(h * np * 2, sum);
    if (np == 1 && !b->to)
        tile_own(h, &b->out);
    int64_t i = 0;
    do { /* reads what it wants of b anew: held in registers it would push the inner loop's out */
        __asm__ volatile("" : "+r"(b) : : "memory");
        int64_t n = b->ahead_n > 0 ? b->ahead_n : 1, behind = i * b->ahead_stride;
        int64_t at = b->steps * i / n, end = b->steps * ++i / n;
        struct tile_prefetch ahead = {b->ahead.at + behind, b->ahead.pace, b->ahead.also + behind,
                                      b->ahead.also_pace};
        tile_run(type, h, np, sum, b->rows + at * h * 4,
                 b->panel + at * format_stream(type, 0).bytes, b->stride, end - at, ahead);
    } while (i < b->ahead_n);
    if (b->to) {
        tile_store(h * np * 2, sum, b->to);
        return;
    }
#pragma GCC unroll 8
    for (int p = 0; p < np; p++) {
        struct tile_out out = out_of_panel(&b->out, p);
        tile_out(h, sum + p * h * 2, &out);
    }
}

TILE_INLINE void scaled(enum k_type type, int h, int np, const struct block_codes *q)
{
    struct tile_table table = tile_table(type);
    const int64_t group = tile_group_steps(type);
    __m512 sum[TILE_SUMS_MAX], total[TILE_SUMS_MAX / 2];
    const bool stays = h * np * 2 <= TILE_SUMS_MAX / 2; /* beside the sums, in registers */
    tile_zero(h * np * 2, sum);
    if (stays)
        tile_zero(h * np * 2, total);
    else
        tile_store(h * np * 2, sum, q->total);
    for (int64_t at = 0; at < q->b.steps; at += group) {
        int64_t steps = linear_min(q->b.steps - at, group), g = at / group;
        struct tile_prefetch ahead = tile_prefetch_behind(&q->b.ahead, at);
        tile_zero(h * np * 2, sum);
        tile_run_codes(type, h, np, sum, q->b.rows + at * h * 4,
                       q->b.panel + at * format_stream(type, 0).bytes, q->b.stride, steps, &table,
                       ahead);
#pragma GCC unroll 8
        for (int p = 0; p < np; p++) {
            const char *scale = q->scale + p * q->scale_stride + g * format_stream(type, 1).bytes;
            if (stays)
                tile_fold_here(type, h, sum + p * h * 2, scale, total + p * h * 2);
            else
                tile_fold(type, h, sum + p * h * 2, scale, q->total + p * h * K_NR);
        }
    }
    if (!stays)
        tile_load(h * np * 2, sum, q->total);
#pragma GCC unroll 8
    for (int p = 0; p < np; p++) {
        struct tile_out out = out_of_panel(&q->b.out, p);
        tile_out(h, (stays ? total : sum) + p * h * 2, &out);
    }
}

TILE_INLINE void nf4(int h, int np, const struct block_codes *q)
{
    const __m512 table = tile_nf4_table();
    const struct k_stream codes = format_stream(K_NF4, 0), scales = format_stream(K_NF4, 1);
    __m512 sum[TILE_SUMS_MAX], scale[TILE_SUMS_MAX];
    tile_zero(h * np * 2, sum);
    for (int64_t at = 0; at < q->b.steps; at += K_NF4_GROUP) {
        const char *from = q->scale + at / K_NF4_GROUP * scales.bytes;
#pragma GCC unroll 8
        for (int i = 0; i < np * 2; i++)
            scale[i] = tile_scale(K_NF4, from + i / 2 * q->scale_stride, i % 2);
        tile_run_nf4(h, np, sum, q->b.rows + at * h * 4, q->b.panel + at * codes.bytes, q->b.stride,
                     linear_min(q->b.steps - at, K_NF4_GROUP), table, scale,
                     tile_prefetch_behind(&q->b.ahead, at));
    }
#pragma GCC unroll 8
    for (int p = 0; p < np; p++) {
        struct tile_out out = out_of_panel(&q->b.out, p);
        tile_out(h, sum + p * h * 2, &out);
    }
}

/* A block asks for its share of what is wanted at once: it takes long. */
TILE_INLINE void nested(enum k_type type, int h, int np, const struct block *b)
{
    __m512 sum[TILE_SUMS_MAX];
    tile_zero(h * np * 2, sum);
    for (int64_t i = 0; i < b->steps; i++) {
        for (int64_t at = 0; np == 1 && at < b->ahead.pace; at += LINE_BYTES)
            _mm_prefetch(b->ahead.at + i * b->ahead.pace + at, _MM_HINT_T1);
        tile_run_nested(type, h, np, sum, b->rows + i * K_NESTED * h * 4,
                        b->panel + i * nested_bytes(type), b->stride);
    }
#pragma GCC unroll 8
    for (int p = 0; p < np; p++) {
        struct tile_out out = out_of_panel(&b->out, p);
        tile_out(h, sum + p * h * 2, &out);
    }
}

TILE_INLINE void fixed(enum k_type type, int h, int np, const void *b)
{
    if (format_is_nested(type))
        nested(type, h, np, b);
    else if (type == K_NF4)
        nf4(h, np, b);
    else if (format_group(type))
        scaled(type, h, np, b);
    else
        plain(type, h, np, b);
}

/* A function for each: in one they would be compiled in the square of their number. */
/* clang-format off */
#define EACH(X, kind)                                                                              \
    X(kind, 1, 1) X(kind, 1, 2) X(kind, 1, 3) X(kind, 1, 4)                                        \
    X(kind, 2, 1) X(kind, 2, 2) X(kind, 3, 1) X(kind, 3, 2)                                        \
    X(kind, 4, 1) X(kind, 5, 1) X(kind, 6, 1) X(kind, 7, 1) X(kind, 8, 1)                          \
    X(kind, 9, 1) X(kind, 10, 1) X(kind, 11, 1) X(kind, 12, 1)
/* clang-format on */

#define FUNCTION(kind, h, np)                                                                      \
    __attribute__((noinline)) static void kind##_##h##_##np(const void *b)                         \
    {                                                                                              \
        fixed(K_##kind, h, np, b);                                                                 \
    }
EACH(FUNCTION, F32)
EACH(FUNCTION, BF16)
EACH(FUNCTION, F16)
EACH(FUNCTION, INT8)
EACH(FUNCTION, INT8G)
EACH(FUNCTION, INT8C)
EACH(FUNCTION, FP8)
EACH(FUNCTION, INT4)
EACH(FUNCTION, MXFP4)
EACH(FUNCTION, NF4)
EACH(FUNCTION, INT4K)
EACH(FUNCTION, INT5K)
EACH(FUNCTION, INT6K)
EACH(FUNCTION, INT8K)

#define CASE(kind, h, np)                                                                          \
    case h * 8 + np:                                                                               \
        return kind##_##h##_##np(b);

void block_f32_avx512(const struct block *b)
{
    switch (b->h * 8 + b->np) {
        EACH(CASE, F32)
    }
}

void block_bf16_avx512(const struct block *b)
{
    switch (b->h * 8 + b->np) {
        EACH(CASE, BF16)
    }
}

void block_f16_avx512(const struct block *b)
{
    switch (b->h * 8 + b->np) {
        EACH(CASE, F16)
    }
}

void block_int8_avx512(const struct block_codes *b)
{
    switch (b->b.h * 8 + b->b.np) {
        EACH(CASE, INT8)
    }
}

void block_int8g_avx512(const struct block_codes *b)
{
    switch (b->b.h * 8 + b->b.np) {
        EACH(CASE, INT8G)
    }
}

void block_int8c_avx512(const struct block_codes *b)
{
    switch (b->b.h * 8 + b->b.np) {
        EACH(CASE, INT8C)
    }
}

void block_fp8_avx512(const struct block_codes *b)
{
    switch (b->b.h * 8 + b->b.np) {
        EACH(CASE, FP8)
    }
}

void block_int4_avx512(const struct block_codes *b)
{
    switch (b->b.h * 8 + b->b.np) {
        EACH(CASE, INT4)
    }
}

void block_mxfp4_avx512(const struct block_codes *b)
{
    switch (b->b.h * 8 + b->b.np) {
        EACH(CASE, MXFP4)
    }
}

void block_nf4_avx512(const struct block_codes *b)
{
    switch (b->b.h * 8 + b->b.np) {
        EACH(CASE, NF4)
    }
}

void block_int4k_avx512(const struct block *b)
{
    switch (b->h * 8 + b->np) {
        EACH(CASE, INT4K)
    }
}

void block_int5k_avx512(const struct block *b)
{
    switch (b->h * 8 + b->np) {
        EACH(CASE, INT5K)
    }
}

void block_int6k_avx512(const struct block *b)
{
    switch (b->h * 8 + b->np) {
        EACH(CASE, INT6K)
    }
}

void block_int8k_avx512(const struct block *b)
{
    switch (b->h * 8 + b->np) {
        EACH(CASE, INT8K)
    }
}
