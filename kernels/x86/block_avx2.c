/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of f32 rows against a panel of f32 that was widened, with sixteen vectors of eight: six
 * rows by half a panel are twelve sums. Everything is a fused multiply-add; vectors of integers
 * would take the multipliers' turns, so that bf16 and codes become f32 before
 * (kernels/x86/linear_widened.c).
 *
 * A block of twelve is four such tiles. Both tiles of a half pass before the other half comes, so
 * that a run of 256 inputs, 16 KB of it, stays in the first-level cache meanwhile. A tile asks for
 * what the next one starts from: sums of some panels are more than that cache holds. A prefetch
 * takes about two cycles from the products, so that no line is asked for twice.
 */
#include "kernels/x86/block_avx2.h"

#include <immintrin.h>
#include <string.h>

#define TILE_INLINE static inline __attribute__((always_inline))

enum { ROWS_MAX = 6, VECTORS = 2 /* of half a panel */, SUMS_MAX = 12, HALF = K_NR / 2 };
enum { INPUTS = 4 /* at a time */ };

_Static_assert(LINEAR_MR <= 2 * ROWS_MAX, "a block is one tile high, or two");

/* Some inputs of a block: n_row of its h rows, half a panel. */
struct tile {
    const float *rows, *panel;   /* panel: [n][16] */
    int64_t to_second, to_third; /* of rows: from an input to the next, and to the one behind it */
    int64_t n_row, n;            /* inputs */
    const float *from;           /* [][32]; NULL: zero */
    const float *scale;          /* NULL: none; else the sums join `from` times these */
    float *to;                   /* [][32], or rows ld_to apart */
    int64_t ld_to;
    const float *next_from; /* what the next tile starts from; NULL: nothing */
    struct lines ahead;
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
        int64_t col = i % VECTORS * 8, row = i / VECTORS;
        __m256 all = sum[i];
        if (t->scale) {
            __m256 before =
                t->from ? _mm256_loadu_ps(t->from + row * K_NR + col) : _mm256_setzero_ps();
            all = _mm256_fmadd_ps(_mm256_loadu_ps(t->scale + col), all, before);
        }
        _mm256_storeu_ps(t->to + row * t->ld_to + col, all);
    }
}

/* Left to itself the compiler orders and names the sums anew: where loops are unrolled it moves
 * them about and spills some. */
TILE_INLINE void times(__m256 *sum, __m256 x, __m256 w)
{
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(x), "x"(w));
}

TILE_INLINE void tile_input(int n, const float *rows, const float *panel, __m256 *sum)
{
    __m256 w0 = _mm256_loadu_ps(panel), w1 = _mm256_loadu_ps(panel + 8);
#pragma GCC unroll 6
    for (int r = 0; r < n; r++) {
        __m256 x = _mm256_broadcast_ss(rows + r);
        times(&sum[r * 2], x, w0);
        times(&sum[r * 2 + 1], x, w1);
    }
}

/* So many inputs, a multiple of INPUTS; leaves the tile behind them. */
TILE_INLINE void tile_inputs(int n, bool asks, struct tile *t, int64_t inputs, __m256 *sum)
{
    const float *rows = t->rows, *second = rows + t->to_second, *panel = t->panel;
    const char *at = t->ahead.at;
    int64_t third = t->to_third;
    for (int64_t i = inputs / INPUTS; i > 0; i--) {
        if (asks) {
            _mm_prefetch(at, _MM_HINT_T1);
            at += LINE_BYTES;
        }
        tile_input(n, rows, panel, sum);
        tile_input(n, second, panel + HALF, sum);
        tile_input(n, rows + third, panel + 2 * HALF, sum);
        tile_input(n, second + third, panel + 3 * HALF, sum);
        rows += 2 * third;
        second += 2 * third;
        panel += INPUTS * HALF;
    }
    t->rows = rows;
    t->panel = panel;
    t->n -= inputs;
}

/* The last inputs, fewer than INPUTS. */
TILE_INLINE void tile_last(int n, const struct tile *t, __m256 *sum)
{
    for (int64_t i = 0; i < t->n; i++)
        tile_input(n, t->rows + i / 2 * t->to_third + i % 2 * t->to_second, t->panel + i * HALF,
                   sum);
}

TILE_INLINE void tile_rows(int n, struct tile *t)
{
    __m256 sum[SUMS_MAX];
    for (int r = 0; r < n && t->next_from; r++)
        _mm_prefetch((const char *)(t->next_from + r * K_NR), _MM_HINT_T0);
    tile_start(n, t, sum);
    tile_inputs(n, true, t, t->ahead.n * INPUTS, sum);
    tile_inputs(n, false, t, t->n / INPUTS * INPUTS, sum);
    tile_last(n, t, sum);
    tile_end(n, t, sum);
}

static void tile_run(struct tile *t)
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

/* All rows by both halves of a panel, of which the tile is the first row and the first half. */
static void tiles_run(const struct tile *all, int64_t h)
{
    int64_t parts = h > ROWS_MAX ? 2 : 1, first = h / parts;
    struct lines ahead = all->ahead;
    for (int64_t half = 0; half < 2; half++) {
        for (int64_t row = 0, end; row < h; row = end) {
            struct tile t = *all;
            int64_t at = row * K_NR + half * HALF;
            end = row < first ? first : h;
            t.rows += row;
            t.panel += half * t.n * HALF;
            t.n_row = end - row;
            if (t.from) {
                t.from += at;
                t.next_from = all->from + (half > 0 ? LINEAR_MR * K_NR : HALF);
                if (end < h)
                    t.next_from = all->from + end * K_NR + half * HALF;
            }
            t.scale = t.scale ? t.scale + half * HALF : NULL;
            t.to += row * t.ld_to + half * HALF;
            t.ahead = (struct lines){ahead.at, linear_min(ahead.n, t.n / INPUTS)};
            ahead.at += t.ahead.n * LINE_BYTES;
            ahead.n -= t.ahead.n;
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

static bool takes_sums(const struct tile_out *o)
{
    return o->cols >= K_NR && !o->bias && !o->add;
}

void block_finish_avx2(const struct tile_out *o, int64_t h, const float *sum)
{
    if (takes_sums(o)) {
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

/* ---- blocks -------------------------------------------------------------------------------- */

void block_widened_avx2(const struct block_widened *o)
{
    float own[LINEAR_MR * K_NR] __attribute__((aligned(64)));
    const struct block *b = &o->b;
    bool is_out = !b->to && b->steps > 0 && takes_sums(&b->out);
    float *sum = b->to ? b->to : is_out ? b->out.y : own;
    if (b->steps == 0)
        memset(sum, 0, (size_t)(b->h * K_NR) * sizeof *sum);
    else
        tiles_run(&(struct tile){.rows = (const float *)(const void *)b->rows,
                                 .panel = (const float *)(const void *)b->panel,
                                 .to_second = o->to_second,
                                 .to_third = o->to_third,
                                 .n = b->steps,
                                 .from = b->from,
                                 .scale = o->scale,
                                 .to = sum,
                                 .ld_to = is_out ? b->out.ld_y : K_NR,
                                 .ahead = o->ahead},
                  b->h);
    if (!b->to && !is_out)
        block_finish_avx2(&b->out, b->h, sum);
}
