/* SPDX-License-Identifier: Apache-2.0
 *
 * A block against a panel with sixteen vectors of eight: six rows by half a panel, or three by a
 * whole one, are twelve sums. bf16 and codes become f32 on the way, exactly, and everything is a
 * fused multiply-add: a pair's first input, then its second.
 *
 * A block of twelve is four such parts, so the panel is cut into runs of steps that stay in the
 * first-level cache while the parts pass; sums wait in memory meanwhile.
 */
#include "kernels/x86/block_avx2.h"

#include <immintrin.h>
#include <string.h>

#define TILE_INLINE static inline __attribute__((always_inline))

enum kind { KIND_F32, KIND_BF16, KIND_INT8 };

enum { RUN_STEPS = 128, ROWS_MAX = 6, SUMS_MAX = 12, VECTORS = 4 /* of a panel */ };

/* Some steps of a block: `rows` of its h rows from `row` on. */
struct run {
    const char *rows, *panel;
    int64_t h, row, n_row, steps;
    float *sum;         /* [h][32]; int8: the totals */
    const float *scale; /* int8: of the group */
    struct tile_ahead ahead;
};

/* The first output of vector v: codes come as halves of 128-bit lanes (linear_int8_at). */
TILE_INLINE int column(enum kind kind, int v)
{
    return kind == KIND_INT8 ? v % 2 * 16 + v / 2 * 8 : v * 8;
}

TILE_INLINE __m256 upper(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
}

TILE_INLINE __m256 lower(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

/* Vector v of a step, input e of its pair. Codes come times 2^24, which the scale makes good. */
TILE_INLINE __m256 weight(enum kind kind, const char *step, int v, int e)
{
    const __m256i *at = (const __m256i *)(const void *)step;
    if (kind == KIND_F32)
        return _mm256_loadu_ps((const float *)(const void *)(at + v));
    if (kind == KIND_BF16)
        return e ? upper(_mm256_loadu_si256(at + v)) : lower(_mm256_loadu_si256(at + v));
    __m256i code = _mm256_loadu_si256(at + v / 2);
    __m256i size = _mm256_and_si256(code, _mm256_set1_epi8(0x7f));
    __m256i plain = _mm256_sign_epi8(size, code);
    __m256i word =
        e ? _mm256_and_si256(plain, _mm256_set1_epi16((short)0xff00)) : _mm256_slli_epi16(plain, 8);
    __m256i zero = _mm256_setzero_si256();
    return _mm256_cvtepi32_ps(v % 2 ? _mm256_unpackhi_epi16(zero, word)
                                    : _mm256_unpacklo_epi16(zero, word));
}

/* Row r of a step. */
TILE_INLINE __m256 input(enum kind kind, const char *rows, int r, int e)
{
    int bits;
    memcpy(&bits, rows + r * 4, sizeof bits);
    __m256i all = _mm256_set1_epi32(bits);
    if (kind == KIND_F32)
        return _mm256_castsi256_ps(all);
    return e ? upper(all) : lower(all);
}

/* sum[n][nv] += input e of a step's pair, for n rows and nv vectors from v0 on */
TILE_INLINE void step_run(enum kind kind, int n, int v0, int nv, __m256 *sum, const char *rows,
                          const char *step, int e)
{
    __m256 w[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++)
        w[v] = weight(kind, step, v0 + v, e);
#pragma GCC unroll 6
    for (int r = 0; r < n; r++) {
        __m256 x = input(kind, rows, r, e);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            sum[r * nv + v] = _mm256_fmadd_ps(x, w[v], sum[r * nv + v]);
    }
}

TILE_INLINE void steps_run(enum kind kind, int n, int v0, int nv, __m256 *sum, const struct run *u)
{
    const char *rows = u->rows + u->row * 4;
    for (int64_t i = 0; i < u->steps; i++, rows += u->h * 4) {
        const char *step = u->panel + i * (kind == KIND_INT8 ? 64 : 128);
        if (v0 == 0) {
            _mm_prefetch(u->ahead.at + i * u->ahead.pace, _MM_HINT_T1);
            _mm_prefetch(u->ahead.also + i * u->ahead.also_pace, _MM_HINT_T1);
            _mm_prefetch(u->ahead.also + i * u->ahead.also_pace + u->ahead.also_pace / 2,
                         _MM_HINT_T1);
        }
        step_run(kind, n, v0, nv, sum, rows, step, 0);
        if (kind != KIND_F32)
            step_run(kind, n, v0, nv, sum, rows, step, 1);
    }
}

/* The run for n rows and nv vectors: sums from memory and back; int8: a group joins the totals. */
TILE_INLINE void part(enum kind kind, int n, int v0, int nv, const struct run *u)
{
    __m256 sum[SUMS_MAX];
    float *at = u->sum + u->row * K_NR;
#pragma GCC unroll 12
    for (int i = 0; i < n * nv; i++) {
        sum[i] = _mm256_setzero_ps();
        if (kind != KIND_INT8)
            sum[i] = _mm256_loadu_ps(at + i / nv * K_NR + column(kind, v0 + i % nv));
    }
    steps_run(kind, n, v0, nv, sum, u);
#pragma GCC unroll 12
    for (int i = 0; i < n * nv; i++) {
        float *to = at + i / nv * K_NR + column(kind, v0 + i % nv);
        if (kind == KIND_INT8) {
            __m256 scale = _mm256_loadu_ps(u->scale + column(kind, v0 + i % nv));
            scale = _mm256_mul_ps(scale, _mm256_set1_ps(0x1p-24f));
            sum[i] = _mm256_fmadd_ps(scale, sum[i], _mm256_loadu_ps(to));
        }
        _mm256_storeu_ps(to, sum[i]);
    }
}

TILE_INLINE void rows_fixed(enum kind kind, int n, const struct run *u)
{
    if (n * VECTORS <= SUMS_MAX) {
        part(kind, n, 0, VECTORS, u);
        return;
    }
    part(kind, n, 0, 2, u);
    part(kind, n, 2, 2, u);
}

TILE_INLINE void rows_any(enum kind kind, const struct run *u)
{
    switch (u->n_row) {
    case 1:
        return rows_fixed(kind, 1, u);
    case 2:
        return rows_fixed(kind, 2, u);
    case 3:
        return rows_fixed(kind, 3, u);
    case 4:
        return rows_fixed(kind, 4, u);
    case 5:
        return rows_fixed(kind, 5, u);
    default:
        return rows_fixed(kind, 6, u);
    }
}

/* Steps [at, at + steps) for all rows, in one or two parts; the first one asks ahead. */
TILE_INLINE void block_steps(enum kind kind, const struct block *b, float *sum, const float *scale,
                             int64_t at, int64_t steps, struct tile_ahead ahead)
{
    int64_t parts = linear_ceil_div(b->h, ROWS_MAX);
    for (int64_t p = 0; p < parts; p++) {
        struct run u = {.rows = b->rows + at * b->h * 4,
                        .panel = b->panel + at * (kind == KIND_INT8 ? 64 : 128),
                        .h = b->h,
                        .row = b->h * p / parts,
                        .steps = steps,
                        .sum = sum,
                        .scale = scale,
                        .ahead = tile_ahead_at(b->panel, 0)};
        u.n_row = b->h * (p + 1) / parts - u.row;
        if (p == 0)
            u.ahead = ahead;
        rows_any(kind, &u);
    }
}

static void store(float *y, int64_t cols, __m256 v, const float *bias, bool add)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i m = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)linear_min(cols, 8)), lane);
    if (cols <= 0)
        return;
    if (bias)
        v = _mm256_add_ps(v, _mm256_maskload_ps(bias, m));
    if (add)
        v = _mm256_add_ps(_mm256_maskload_ps(y, m), v);
    if (cols >= 8)
        _mm256_storeu_ps(y, v);
    else
        _mm256_maskstore_ps(y, m, v);
}

static void finish(const struct block *b, const float *sum)
{
    const struct tile_out *o = &b->out;
    for (int64_t r = 0; r < b->h; r++) {
        for (int64_t col = 0; col < K_NR; col += 8)
            store(o->y + r * o->ld_y + col, o->cols - col, _mm256_loadu_ps(sum + r * K_NR + col),
                  o->bias ? o->bias + col : NULL, o->add);
    }
}

TILE_INLINE void plain(enum kind kind, const struct block *b)
{
    float sum[LINEAR_MR * K_NR] __attribute__((aligned(32)));
    size_t bytes = (size_t)b->h * K_NR * sizeof *sum;
    int64_t n = b->ahead_n > 0 ? b->ahead_n : 1;
    struct tile_ahead ahead = b->ahead;
    if (b->from)
        memcpy(sum, b->from, bytes);
    else
        memset(sum, 0, bytes);
    for (int64_t i = 0; i < n; i++, ahead.at += b->ahead_stride, ahead.also += b->ahead_stride) {
        int64_t first = b->steps * i / n, end = b->steps * (i + 1) / n;
        for (int64_t at = first; at < end; at += RUN_STEPS) {
            struct tile_ahead now = tile_ahead_behind(&ahead, at - first);
            block_steps(kind, b, sum, NULL, at, linear_min(end - at, RUN_STEPS), now);
        }
    }
    if (b->to)
        memcpy(b->to, sum, bytes);
    else
        finish(b, sum);
}

void block_f32_avx2(const struct block *b)
{
    plain(KIND_F32, b);
}

void block_bf16_avx2(const struct block *b)
{
    plain(KIND_BF16, b);
}

void block_int8_avx2(const struct block_int8 *q)
{
    const struct block *b = &q->b;
    memset(q->total, 0, (size_t)b->h * K_NR * sizeof *q->total);
    for (int64_t at = 0; at < b->steps; at += TILE_GROUP_STEPS) {
        struct tile_ahead now = tile_ahead_behind(&b->ahead, at);
        block_steps(KIND_INT8, b, q->total, q->scale + at / TILE_GROUP_STEPS * K_NR, at,
                    linear_min(b->steps - at, TILE_GROUP_STEPS), now);
    }
    finish(b, q->total);
}
