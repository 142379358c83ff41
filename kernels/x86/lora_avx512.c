/* SPDX-License-Identifier: Apache-2.0
 *
 * lora, lora_bwd. The two products of a pass have a long side and a short one, the rank:
 *
 *   x a^T, dy b   sums over the long side: few results per row, straight from the row-major
 * operands t b^T, dt a   sums over the rank: the adapter becomes packed panels, some at a time, in
 * scratch, and each block of rows passes them, so that y and dx are walked along their rows
 *
 * A slice's rows of one group share the panels.
 */
#include "kernels/lora_grid.h"
#include "kernels/variants.h"
#include "kernels/x86/block_avx512.h"
#include "kernels/x86/transpose_avx512.h"

enum {
    LEFT_BYTES = K_SCRATCH_BYTES / 2,  /* rows of t or dt, packed */
    RIGHT_BYTES = K_SCRATCH_BYTES / 4, /* panels of the adapter */
    DOT_RANKS = 8,
    DOT_ROWS = 3
};

/* ---- sums over inputs --------------------------------------------------------------------- */

/* The sums of eight vectors, each by the same tree. */
TILE_INLINE __m256 sums_of(const __m512 v[DOT_RANKS])
{
    __m256 h[DOT_RANKS];
#pragma GCC unroll 8
    for (int i = 0; i < DOT_RANKS; i++)
        h[i] = _mm256_add_ps(_mm512_castps512_ps256(v[i]), _mm512_extractf32x8_ps(v[i], 1));
    __m256 lo = _mm256_hadd_ps(_mm256_hadd_ps(h[0], h[1]), _mm256_hadd_ps(h[2], h[3]));
    __m256 hi = _mm256_hadd_ps(_mm256_hadd_ps(h[4], h[5]), _mm256_hadd_ps(h[6], h[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(lo, hi, 0x20),
                         _mm256_permute2f128_ps(lo, hi, 0x31));
}

/* t[row, r..r + ranks) of `rows` rows, ranks at most DOT_RANKS. */
TILE_INLINE void dot(int rows, int ranks, const struct k_lora *a, const struct k_lora_group *g,
                     int64_t row, int64_t r, int64_t n_rank)
{
    __m512 sum[DOT_ROWS][DOT_RANKS];
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
        tile_zero(DOT_RANKS, sum[i]);
    for (int64_t i = 0; i < a->k; i += 16) {
        __mmask16 m = tile_mask(a->k - i);
        __m512 x[DOT_ROWS];
#pragma GCC unroll 3
        for (int j = 0; j < rows; j++)
            x[j] = _mm512_maskz_loadu_ps(m, a->x + (row + j) * a->ld_x + i);
#pragma GCC unroll 8
        for (int q = 0; q < ranks; q++) {
            __m512 w = _mm512_maskz_loadu_ps(m, g->a + (r + q) * a->k + i);
#pragma GCC unroll 3
            for (int j = 0; j < rows; j++)
                sum[j][q] = _mm512_fmadd_ps(x[j], w, sum[j][q]);
        }
    }
#pragma GCC unroll 3
    for (int j = 0; j < rows; j++)
        _mm256_mask_storeu_ps(a->t + (row + j) * a->rank_max + r, (__mmask8)tile_mask(n_rank),
                              sums_of(sum[j]));
}

TILE_INLINE void dot_ranks(int rows, const struct k_lora *a, const struct k_lora_group *g,
                           int64_t row)
{
    int64_t r = 0;
    for (; r + DOT_RANKS <= g->rank; r += DOT_RANKS)
        dot(rows, DOT_RANKS, a, g, row, r, DOT_RANKS);
    for (; r < g->rank; r++)
        dot(rows, 1, a, g, row, r, 1);
}

static void inner_forward(const struct k_lora *a, const struct lora_rows *rows)
{
    int64_t row = rows->row_lo;
    for (; row + DOT_ROWS <= rows->row_hi; row += DOT_ROWS)
        dot_ranks(DOT_ROWS, a, rows->group, row);
    for (; row < rows->row_hi; row++)
        dot_ranks(1, a, rows->group, row);
}

/* dt of `rows` rows, 16 ranks from r on: a chain over the outputs each. */
TILE_INLINE void axpy(int rows, const struct k_lora_bwd *a, const struct k_lora_group *g,
                      int64_t row, int64_t r)
{
    __m512 sum[4];
    __mmask16 m = tile_mask(g->rank - r);
    const float *dy = a->dy + row * a->ld_dy;
    tile_zero(rows, sum);
    for (int64_t o = 0; o < a->fwd.n; o++) {
        __m512 b = _mm512_maskz_loadu_ps(m, g->b + o * g->rank + r);
#pragma GCC unroll 4
        for (int j = 0; j < rows; j++)
            sum[j] = _mm512_fmadd_ps(_mm512_set1_ps(dy[j * a->ld_dy + o]), b, sum[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < rows; j++)
        _mm512_mask_storeu_ps(a->dt + (row + j) * a->fwd.rank_max + r, m,
                              _mm512_mul_ps(_mm512_set1_ps(g->scale), sum[j]));
}

static void inner_backward(const struct k_lora_bwd *a, const struct lora_rows *rows)
{
    for (int64_t r = 0; r < rows->group->rank; r += 16) {
        int64_t row = rows->row_lo;
        for (; row + 4 <= rows->row_hi; row += 4)
            axpy(4, a, rows->group, row, r);
        for (; row < rows->row_hi; row++)
            axpy(1, a, rows->group, row, r);
    }
}

/* ---- sums over the rank ------------------------------------------------------------------- */

/* y[rows, cols] += scale * t[rows, rank] times the adapter's panels. */
struct outer {
    const float *t; /* row 0 of the batch */
    int64_t ld_t, rank;
    float scale;
    const float *w; /* [cols, rank], or [rank, cols] when along */
    bool along;
    float *y;
    int64_t ld_y, cols;
};

/* Rows as packed blocks of LINEAR_MR, the last one lower: [rank][h]. */
static void pack_t(const struct outer *o, int64_t row_lo, int64_t row_hi, float *to)
{
    for (int64_t row = row_lo; row < row_hi; row += LINEAR_MR) {
        int64_t h = linear_min(row_hi - row, LINEAR_MR);
        for (int64_t r = 0; r < o->rank; r++) {
            for (int64_t j = 0; j < h; j++)
                *to++ = o->scale * o->t[(row + j) * o->ld_t + r];
        }
    }
}

/* Outputs [col, col + 16) as half a panel. */
static void pack_across(const struct outer *o, int64_t col, char *to)
{
    for (int64_t r = 0; r < o->rank; r += 16) {
        __mmask16 m = tile_mask(o->rank - r);
        __m512i v[16];
        for (int i = 0; i < 16; i++)
            v[i] = col + i < o->cols ? _mm512_maskz_loadu_epi32(m, o->w + (col + i) * o->rank + r)
                                     : _mm512_setzero_si512();
        transpose16(v);
        for (int i = 0; i < linear_min(o->rank - r, 16); i++)
            _mm512_store_si512(to + (r + i) * TILE_STEP_BYTES, v[i]);
    }
}

static void pack_along(const struct outer *o, int64_t col, char *to)
{
    __mmask16 m = tile_mask(o->cols - col);
    for (int64_t r = 0; r < o->rank; r++)
        _mm512_store_ps(to + r * TILE_STEP_BYTES,
                        _mm512_maskz_loadu_ps(m, o->w + r * o->cols + col));
}

static void pass_panels(const struct outer *o, int64_t col_lo, int64_t col_hi, int64_t row,
                        int64_t h, const float *left, const char *right)
{
    for (int64_t col = col_lo; col < col_hi; col += K_NR) {
        struct block b = {.h = h,
                          .np = 1,
                          .rows = (const char *)left,
                          .panel = right + (col - col_lo) / K_NR * o->rank * TILE_STEP_BYTES,
                          .steps = o->rank,
                          .out = {.y = o->y + row * o->ld_y + col,
                                  .ld_y = o->ld_y,
                                  .cols = o->cols - col,
                                  .add = true}};
        b.ahead.at = b.panel;
        block_f32_avx512(&b);
    }
}

/* Rows [row_lo, row_hi), which fit packed in the left half. */
static void outer_rows(const struct outer *o, int64_t row_lo, int64_t row_hi, char *scratch)
{
    float *left = (float *)(void *)scratch;
    char *right = scratch + LEFT_BYTES;
    int64_t cols = RIGHT_BYTES / (o->rank * TILE_STEP_BYTES) * K_NR;
    pack_t(o, row_lo, row_hi, left);
    for (int64_t lo = 0; lo < o->cols; lo += cols) {
        int64_t hi = linear_min(o->cols, lo + cols);
        for (int64_t col = lo; col < hi; col += 16) {
            char *to = right + (col - lo) / K_NR * o->rank * TILE_STEP_BYTES + col % K_NR * 4;
            if (o->along)
                pack_along(o, col, to);
            else
                pack_across(o, col, to);
        }
        for (int64_t row = row_lo; row < row_hi; row += LINEAR_MR)
            pass_panels(o, lo, hi, row, linear_min(row_hi - row, LINEAR_MR),
                        left + (row - row_lo) * o->rank, right);
    }
}

static void outer(const struct outer *o, const struct lora_rows *rows, char *scratch)
{
    int64_t step = LEFT_BYTES / (o->rank * 4) / LINEAR_MR * LINEAR_MR;
    for (int64_t row = rows->row_lo; row < rows->row_hi; row += step)
        outer_rows(o, row, linear_min(rows->row_hi, row + step), scratch);
}

void lora_avx512(const void *args, const struct k_slice *s)
{
    const struct k_lora *a = args;
    for (int64_t u = s->lo; u < s->hi;) {
        struct lora_rows rows = lora_rows_next(a, &u, s->hi);
        const struct k_lora_group *g = rows.group;
        if (!g)
            return;
        inner_forward(a, &rows);
        struct outer o = {.t = a->t,
                          .ld_t = a->rank_max,
                          .rank = g->rank,
                          .scale = g->scale,
                          .w = g->b,
                          .y = a->y,
                          .ld_y = a->ld_y,
                          .cols = a->n};
        outer(&o, &rows, s->scratch);
    }
}

void lora_bwd_avx512(const void *args, const struct k_slice *s)
{
    const struct k_lora_bwd *a = args;
    for (int64_t u = s->lo; u < s->hi;) {
        struct lora_rows rows = lora_rows_next(&a->fwd, &u, s->hi);
        const struct k_lora_group *g = rows.group;
        if (!g)
            return;
        inner_backward(a, &rows);
        struct outer o = {.t = a->dt,
                          .ld_t = a->fwd.rank_max,
                          .rank = g->rank,
                          .scale = 1,
                          .w = g->a,
                          .along = true,
                          .y = a->dx,
                          .ld_y = a->ld_dx,
                          .cols = a->fwd.k};
        if (a->dx)
            outer(&o, &rows, s->scratch);
    }
}
