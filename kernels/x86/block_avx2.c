/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of f32 rows against a panel of f32, with sixteen vectors of eight: six rows by half a
 * panel are twelve sums. Everything is a fused multiply-add; vectors of integers would take the
 * multipliers' turns, so that bf16 and codes become f32 before (kernels/x86/opened.c).
 *
 * A block of twelve is four such tiles, so the panel is cut into runs of steps that stay in the
 * first-level cache while the tiles pass; sums wait in memory meanwhile. Both tiles of a half pass
 * before the other half comes.
 */
#include "kernels/x86/block_avx2.h"

#include <immintrin.h>
#include <string.h>

#define TILE_INLINE static inline __attribute__((always_inline))

enum { RUN_STEPS = 128, ROWS_MAX = 6, VECTORS = 2 /* of half a panel */, SUMS_MAX = 12 };

/* Some steps of a block: n_row of its h rows, half a panel. */
struct tile {
    const float *rows, *panel;
    int64_t h, n_row, steps;
    const float *from;  /* [][32]; NULL: zero */
    const float *scale; /* NULL: none; else the sums join `from` times these */
    float *to;          /* [][32] */
    struct tile_ahead ahead;
};

TILE_INLINE void tile_start(int n, const struct tile *t, __m256 *sum)
{
#pragma GCC unroll 12
    for (int i = 0; i < n * VECTORS; i++) {
        sum[i] = _mm256_setzero_ps();
        if (t->from && !t->scale)
            sum[i] = _mm256_loadu_ps(t->from + i / VECTORS * K_NR + i % VECTORS * 8);
    }
}

TILE_INLINE void tile_end(int n, const struct tile *t, const __m256 *sum)
{
#pragma GCC unroll 12
    for (int i = 0; i < n * VECTORS; i++) {
        int64_t at = i / VECTORS * K_NR + i % VECTORS * 8;
        __m256 all = sum[i];
        if (t->scale) {
            __m256 before = t->from ? _mm256_loadu_ps(t->from + at) : _mm256_setzero_ps();
            all = _mm256_fmadd_ps(_mm256_loadu_ps(t->scale + i % VECTORS * 8), all, before);
        }
        _mm256_storeu_ps(t->to + at, all);
    }
}

TILE_INLINE void tile_steps(int n, bool asks, const struct tile *t, __m256 *sum)
{
    const float *rows = t->rows, *panel = t->panel;
    const char *at = t->ahead.at;
    for (int64_t i = 0; i < t->steps; i++, rows += t->h, panel += K_NR) {
        __m256 w0 = _mm256_loadu_ps(panel), w1 = _mm256_loadu_ps(panel + 8);
        if (asks) {
            _mm_prefetch(at, _MM_HINT_T1);
            at += t->ahead.pace;
        }
#pragma GCC unroll 6
        for (int r = 0; r < n; r++) {
            __m256 x = _mm256_broadcast_ss(rows + r);
            sum[r * 2] = _mm256_fmadd_ps(x, w0, sum[r * 2]);
            sum[r * 2 + 1] = _mm256_fmadd_ps(x, w1, sum[r * 2 + 1]);
        }
    }
}

TILE_INLINE void tile_rows(int n, const struct tile *t)
{
    __m256 sum[SUMS_MAX];
    tile_start(n, t, sum);
    if (t->ahead.pace > 0)
        tile_steps(n, true, t, sum);
    else
        tile_steps(n, false, t, sum);
    tile_end(n, t, sum);
}

static void tile_run(const struct tile *t)
{
    switch (t->n_row) {
    case 1:
        return tile_rows(1, t);
    case 2:
        return tile_rows(2, t);
    case 3:
        return tile_rows(3, t);
    case 4:
        return tile_rows(4, t);
    case 5:
        return tile_rows(5, t);
    default:
        return tile_rows(6, t);
    }
}

/* Steps [at, at + steps) for all rows; the first tile asks ahead. */
static void block_steps(const struct block *b, const float *from, float *to, int64_t at,
                        int64_t steps, const struct tile_ahead *ahead)
{
    int64_t parts = linear_ceil_div(b->h, ROWS_MAX);
    for (int64_t half = 0; half < K_NR; half += K_NR / 2) {
        for (int64_t p = 0; p < parts; p++) {
            int64_t row = b->h * p / parts;
            struct tile t = {.rows = (const float *)(const void *)b->rows + at * b->h + row,
                             .panel = (const float *)(const void *)b->panel + at * K_NR + half,
                             .h = b->h,
                             .n_row = b->h * (p + 1) / parts - row,
                             .steps = steps,
                             .from = from ? from + row * K_NR + half : NULL,
                             .scale = b->scale ? b->scale + half : NULL,
                             .to = to + row * K_NR + half};
            if (half == 0 && p == 0)
                t.ahead = *ahead;
            tile_run(&t);
        }
    }
}

/* ---- outputs ------------------------------------------------------------------------------- */

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

void block_finish_avx2(const struct tile_out *o, int64_t h, const float *sum)
{
    if (o->cols >= K_NR && !o->bias && !o->add) {
        for (int64_t r = 0; r < h; r++)
            memcpy(o->y + r * o->ld_y, sum + r * K_NR, K_NR * sizeof *sum);
        return;
    }
    for (int64_t r = 0; r < h; r++) {
        for (int64_t col = 0; col < K_NR; col += 8)
            store(o->y + r * o->ld_y + col, o->cols - col, _mm256_loadu_ps(sum + r * K_NR + col),
                  o->bias ? o->bias + col : NULL, o->add);
    }
}

/* ---- the block ----------------------------------------------------------------------------- */

void block_f32_avx2(const struct block *b)
{
    float own[LINEAR_MR * K_NR] __attribute__((aligned(64)));
    const float *from = b->from;
    if (b->h <= BLOCK_FEW && !b->scale) {
        few_avx2(K_F32, b);
        return;
    }
    float *sum = b->to ? b->to : own;
    int64_t n = b->ahead_n > 0 ? b->ahead_n : 1;
    struct tile_ahead ahead = b->ahead;
    if (b->steps == 0 && from && from != sum)
        memcpy(sum, from, (size_t)b->h * K_NR * sizeof *sum);
    else if (b->steps == 0 && !from)
        memset(sum, 0, (size_t)b->h * K_NR * sizeof *sum);
    for (int64_t i = 0; i < n; i++, ahead.at += b->ahead_stride) {
        int64_t first = b->steps * i / n, end = b->steps * (i + 1) / n;
        for (int64_t at = first; at < end; at += RUN_STEPS) {
            struct tile_ahead now = tile_ahead_behind(&ahead, at - first);
            block_steps(b, from, sum, at, linear_min(end - at, RUN_STEPS), &now);
            from = sum;
        }
    }
    if (!b->to)
        block_finish_avx2(&b->out, b->h, sum);
}
