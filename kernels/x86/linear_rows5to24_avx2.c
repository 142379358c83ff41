/* SPDX-License-Identifier: Apache-2.0
 *
 * Five to 24 rows against panels of formats without groups as they are stored, with AVX2. What is
 * widened first (kernels/x86/linear_widened.h) has to pass many rows before that has paid. Here
 * three to six rows by half a panel are a tile, whatever blocks the rows are packed in: a run of
 * them becomes f32 in one piece that some panels share, and a run of a panel, 8 KB, stays in the
 * first cache until all tiles of both halves have passed it. Each tile asks for its share of what
 * comes next, evenly: of lines that are asked for in a burst many are dropped.
 *
 * An output is one chain of fused multiply-adds over ascending inputs from zero, as everywhere.
 */
#include <string.h>

#include "kernels/x86/block_avx2.h"
#include "kernels/x86/tile_6x2_avx2.h"
#include "kernels/x86/widen_avx2.h"

#define SOME_INLINE static inline __attribute__((always_inline))

enum {
    RUN_BYTES = 8192,                         /* of a panel */
    INPUTS = 128,                             /* of a run, at most */
    ROWS_MAX = BLOCK_SOME,                    /* of a call */
    TILE_MAX = 6,                             /* rows */
    PANELS = 8,                               /* that share what became of the rows */
    SUMS = ROWS_MAX * K_NR,                   /* of a panel */
    ROWS_BYTES = (INPUTS * ROWS_MAX + 16) * 4 /* f32, and what whole vectors add */
};

_Static_assert(ROWS_BYTES + PANELS * SUMS * 4 <= K_SCRATCH_BYTES, "all of it fits scratch");

#define ROW_STRIDE "4"
#define SUMS(r)    [s##r##0] "+&x"(sum[r * 2]), [s##r##1] "+&x"(sum[r * 2 + 1])

/* The last of the operands is for ODD alone. */
#define INPUT(n)                                                                                   \
    do {                                                                                           \
        if (which == INPUT_PLAIN)                                                                  \
            __asm__ volatile(BOTH TIMES_##n("0") : SUMS_##n, REST : "memory");                     \
        else if (which == INPUT_HALF)                                                              \
            __asm__ volatile(HALF TIMES_##n("0") : SUMS_##n, REST : "memory");                     \
        else if (which == INPUT_EVEN)                                                              \
            __asm__ volatile(EVEN TIMES_##n("0") : SUMS_##n, REST : "memory");                     \
        else                                                                                       \
            __asm__ volatile(ODD TIMES_##n("0") : SUMS_##n, REST : "memory");                      \
    } while (0)

enum input { INPUT_PLAIN, INPUT_HALF, INPUT_EVEN, INPUT_ODD };

/* An input of n rows against two vectors. */
SOME_INLINE void input(int n, enum input which, const float *rows, const char *b, __m256 *sum)
{
    const __m256 high = _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000u));
    __m256 x, b0, b1;
    if (n == 1)
        INPUT(1);
    else if (n == 2)
        INPUT(2);
    else if (n == 3)
        INPUT(3);
    else if (n == 4)
        INPUT(4);
    else if (n == 5)
        INPUT(5);
    else
        INPUT(6);
}

/* Some rows against half a panel's run. */
struct tile {
    const float *rows; /* [n][ld] */
    int64_t ld;
    const char *w;     /* of a panel's steps, the first of the half's outputs */
    int64_t n;         /* inputs */
    const float *from; /* [][32] */
    float *to;
    struct lines ahead;
};

/* Two inputs. */
SOME_INLINE void pair(int n, enum k_type type, struct tile *t, __m256 *sum)
{
    const struct k_stream step = format_stream(type, 0);
    const enum input one = type == K_F32 ? INPUT_PLAIN : INPUT_HALF;
    input(n, step.inputs == 1 ? one : INPUT_EVEN, t->rows, t->w, sum);
    if (step.inputs == 1)
        t->w += step.bytes;
    input(n, step.inputs == 1 ? one : INPUT_ODD, t->rows + t->ld, t->w, sum);
    t->rows += 2 * t->ld;
    t->w += step.bytes;
}

SOME_INLINE void tile_rows(int n, enum k_type type, struct tile t)
{
    const int64_t pairs = t.n / 2;
    const char *at = t.ahead.at;
    int64_t due = 0;
    __m256 sum[2 * TILE_MAX];
#pragma GCC unroll 12
    for (int i = 0; i < 2 * n; i++)
        sum[i] = _mm256_loadu_ps(t.from + i / 2 * K_NR + i % 2 * 8);
    for (int64_t i = 0; i < pairs; i++) {
        due += t.ahead.n;
        if (due >= pairs) {
            __asm__ volatile("prefetcht0 (%0)" ::"r"(at)); /* the builtin the compiler moves */
            at += LINE_BYTES;
            due -= pairs;
        }
        pair(n, type, &t, sum);
    }
    if (format_stream(type, 0).inputs == 1 && t.n % 2)
        input(n, type == K_F32 ? INPUT_PLAIN : INPUT_HALF, t.rows, t.w, sum);
#pragma GCC unroll 12
    for (int i = 0; i < 2 * n; i++)
        _mm256_storeu_ps(t.to + i / 2 * K_NR + i % 2 * 8, sum[i]);
}

typedef void tile_fn(const struct tile *t);

#define TILE(n, type)                                                                              \
    __attribute__((noinline)) static void tile_##type##_##n(const struct tile *t)                  \
    {                                                                                              \
        tile_rows(n, type, *t);                                                                    \
    }
TILE(1, K_F32)
TILE(2, K_F32)
TILE(3, K_F32)
TILE(4, K_F32)
TILE(5, K_F32)
TILE(6, K_F32)
TILE(1, K_BF16)
TILE(2, K_BF16)
TILE(3, K_BF16)
TILE(4, K_BF16)
TILE(5, K_BF16)
TILE(6, K_BF16)

TILE(1, K_F16)
TILE(2, K_F16)
TILE(3, K_F16)
TILE(4, K_F16)
TILE(5, K_F16)
TILE(6, K_F16)

static tile_fn *const tile_of[K_TYPE_COUNT][TILE_MAX] = {
    [K_F32] = {tile_K_F32_1, tile_K_F32_2, tile_K_F32_3, tile_K_F32_4, tile_K_F32_5, tile_K_F32_6},
    [K_BF16] = {tile_K_BF16_1, tile_K_BF16_2, tile_K_BF16_3, tile_K_BF16_4, tile_K_BF16_5,
                tile_K_BF16_6},
    [K_F16] = {tile_K_F16_1, tile_K_F16_2, tile_K_F16_3, tile_K_F16_4, tile_K_F16_5, tile_K_F16_6},
};

/* ---- rows ---- */

/* Eight dwords, or the first n of them. */
SOME_INLINE __m256i dwords(const char *x, int64_t n, bool whole)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    if (whole)
        return _mm256_loadu_si256((const __m256i *)(const void *)x);
    __m256i in = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
    return _mm256_maskload_epi32((const int *)(const void *)x, in);
}

/* Steps of one or two blocks of h[] rows to [input][row]. Whole vectors are written, ascending:
 * what is behind a row's end is written later. `whole`: they may be read, too. */
SOME_INLINE float *steps_take(enum k_type type, int n_block, int nv, bool whole, const char **x,
                              const int64_t *h, int64_t m, int64_t steps, float *to)
{
    const int per = type == K_F32 ? 1 : LINEAR_STEP;
    for (int64_t i = 0; i < steps; i++, to += per * m) {
        for (int e = 0; e < per; e++) {
            for (int q = 0; q < n_block; q++) {
                for (int v = 0; v < nv; v++) {
                    __m256i w = dwords(x[q] + v * 32, h[q] - v * 8, whole);
                    __m256 y = type == K_F32 ? _mm256_castsi256_ps(w) : open_upper(w);
                    if (type == K_BF16 && e == 0)
                        y = open_lower(w);
                    _mm256_storeu_ps(to + e * m + q * h[0] + v * 8, y);
                }
            }
        }
        for (int q = 0; q < n_block; q++)
            x[q] += h[q] * 4;
    }
    return to;
}

SOME_INLINE void blocks_take(enum k_type type, int n_block, int nv, const char **x,
                             const int64_t *h, int64_t m, int64_t steps, float *to)
{
    const int64_t last = linear_min(steps, 8 * nv); /* may be those at the end of the rows */
    to = steps_take(type, n_block, nv, true, x, h, m, steps - last, to);
    steps_take(type, n_block, nv, false, x, h, m, last, to);
}

SOME_INLINE void rows_take(const struct k_linear *a, enum k_type type, int64_t inputs, int64_t lo,
                           int64_t n, float *to)
{
    const struct rows_cut cut = rows_cut_of(a->m);
    const int64_t n_block = rows_blocks(a->m), elem = type == K_F32 ? 4 : 2;
    const int64_t steps = type == K_F32 ? n : n / LINEAR_STEP;
    const char *x[2];
    int64_t h[2];
    for (int64_t q = 0; q < n_block; q++) {
        const struct rows_block b = rows_cut_at(&cut, q);
        x[q] = (const char *)a->rows + (b.row * inputs + lo * b.h) * elem;
        h[q] = b.h;
    }
    if (n_block == 1 && h[0] <= 8)
        blocks_take(type, 1, 1, x, h, a->m, steps, to);
    else if (n_block == 1)
        blocks_take(type, 1, 2, x, h, a->m, steps, to);
    else if (h[0] <= 8)
        blocks_take(type, 2, 1, x, h, a->m, steps, to);
    else
        blocks_take(type, 2, 2, x, h, a->m, steps, to);
}

/* ---- panels ---- */

/* What a thread goes through now: panels [lo, hi) of its call. */
struct some {
    const struct k_linear *a;
    int64_t inputs, run; /* as they are stored; of a run */
    int64_t lo, hi, end; /* end: of its panels */
    float *rows, *sums;  /* [INPUTS][m]; [hi - lo][m][32] */
};

static const char *stored(const struct some *s, int64_t panel, int64_t input)
{
    const int64_t at = (s->a->panel_lo + panel) * s->inputs + input;
    return (const char *)s->a->w.data + linear_panel_bytes(s->a->w.type, at);
}

/* What comes behind a panel's run: lines. */
static struct lines behind(const struct some *s, int64_t panel, int64_t lo)
{
    int64_t next = lo;
    if (++panel == s->hi) {
        next = lo + s->run;
        panel = s->lo;
    }
    if (next >= s->inputs) {
        next = 0;
        panel = s->hi;
    }
    if (panel >= s->end)
        return (struct lines){0};
    const int64_t n = linear_min(s->run, s->inputs - next);
    return (struct lines){stored(s, panel, next),
                          (int64_t)linear_panel_bytes(s->a->w.type, n) / LINE_BYTES};
}

/* Inputs [lo, lo + n) of a panel by all rows. */
static void panel_run(const struct some *s, int64_t panel, int64_t lo, int64_t n)
{
    static const float zero[ROWS_MAX * K_NR] __attribute__((aligned(64)));
    const int64_t m = s->a->m, parts = linear_ceil_div(m, TILE_MAX);
    const struct lines ahead = behind(s, panel, lo);
    float *sums = s->sums + (panel - s->lo) * SUMS;
    const int64_t half_bytes = format_stream(s->a->w.type, 0).bytes / 2;
    for (int64_t i = 0; i < 2 * parts; i++) {
        const int64_t half = i / parts, part = i % parts;
        const int64_t row = m * part / parts, end = m * (part + 1) / parts;
        const int64_t line = ahead.n * i / (2 * parts), at = row * K_NR + half * (K_NR / 2);
        const struct tile t = {
            .rows = s->rows + row,
            .ld = m,
            .w = stored(s, panel, lo) + half * half_bytes,
            .n = n,
            .from = (lo > 0 ? sums : zero) + at,
            .to = sums + at,
            .ahead = {ahead.at + line * LINE_BYTES, ahead.n * (i + 1) / (2 * parts) - line}};
        tile_of[s->a->w.type][end - row - 1](&t);
    }
}

static void panels_run(const struct some *s)
{
    const struct k_linear *a = s->a;
    for (int64_t lo = 0; lo < s->inputs; lo += s->run) {
        const int64_t n = linear_min(s->inputs - lo, s->run);
        if (format_rows(a->w.type) == K_F32)
            rows_take(a, K_F32, s->inputs, lo, n, s->rows);
        else
            rows_take(a, K_BF16, s->inputs, lo, n, s->rows);
        for (int64_t q = s->lo; q < s->hi; q++)
            panel_run(s, q, lo, n);
    }
    if (s->inputs == 0)
        memset(s->sums, 0, (size_t)((s->hi - s->lo) * SUMS) * sizeof *s->sums);
    for (int64_t q = s->lo; q < s->hi; q++) {
        const int64_t first = (a->panel_lo + q) * K_NR;
        const struct tile_out o = {.y = a->y + q * K_NR,
                                   .ld_y = a->ld_y,
                                   .cols = a->w.n - first,
                                   .bias = a->bias ? a->bias + first : NULL,
                                   .add = a->add};
        block_finish_avx2(&o, a->m, s->sums + (q - s->lo) * SUMS);
    }
}

void linear_rows5to24_avx2(const struct k_linear *a, int64_t lo, int64_t hi, void *scratch)
{
    const struct k_stream step = format_stream(a->w.type, 0);
    struct some s = {.a = a,
                     .inputs = linear_k_stored(a->w.type, a->w.k),
                     .run = RUN_BYTES * step.inputs / step.bytes,
                     .end = hi,
                     .rows = scratch,
                     .sums = (float *)scratch + ROWS_BYTES / sizeof(float)};
    const int64_t parts = linear_ceil_div(hi - lo, PANELS);
    for (int64_t i = 0; i < parts; i++) {
        s.lo = lo + (hi - lo) * i / parts;
        s.hi = lo + (hi - lo) * (i + 1) / parts;
        panels_run(&s);
    }
}
