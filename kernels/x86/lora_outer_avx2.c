/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of an adapter that sum over the rank: few steps for each sum, so that a tile of six
 * rows by half a panel goes from its first step straight into y.
 */
#include "kernels/x86/block_avx2.h"
#include "kernels/x86/transpose_avx2.h"
#include "kernels/x86/vec.h"

enum { ROWS = 6, VECTORS = 2 /* of half a panel */, ROW_VECTORS = 12 };

TURN_INLINE vf widened(const k_bf16 *x)
{
    return vf_from_bits(vi_shl(vi_load16(x, VF), 16));
}

/* y[n numbers] += sum */
TURN_INLINE void add_to(float *y, vf sum, int64_t n)
{
    if (n >= VF)
        vf_store(y, vf_add(vf_load(y, VF), sum), VF);
    else if (n > 0)
        vf_store(y, vf_add(vf_load(y, (int)n), sum), (int)n);
}

/* n of the block's h rows by half a panel, `cols` of whose columns are there. */
TURN_INLINE void tile(int n, const struct block *b, const float *rows, const float *panel, float *y,
                      int64_t cols)
{
    vf sum[ROWS * VECTORS];
    int64_t h = b->h, ld_y = b->out.ld_y;
#pragma GCC unroll 12
    for (int i = 0; i < n * VECTORS; i++)
        sum[i] = vf_zero();
#pragma GCC unroll 6
    for (int r = 0; r < n; r++) /* what is added to next: the panel behind this one */
        __builtin_prefetch(y + r * ld_y + K_NR, 1);
    for (int64_t s = 0; s < b->steps; s++, rows += h, panel += K_NR) {
        vf w0 = vf_load(panel, VF), w1 = vf_load(panel + VF, VF);
#pragma GCC unroll 6
        for (int r = 0; r < n; r++) {
            vf x = vf_set(rows[r]);
            sum[r * 2] = vf_fma(x, w0, sum[r * 2]);
            sum[r * 2 + 1] = vf_fma(x, w1, sum[r * 2 + 1]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < n * VECTORS; i++)
        add_to(y + i / 2 * ld_y + i % 2 * VF, sum[i], cols - i % 2 * VF);
}

static void tile_rows(int64_t n, const struct block *b, const float *rows, const float *panel,
                      float *y, int64_t cols)
{
    if (n == ROWS && cols >= K_NR / 2) /* nearly always: no columns to count */
        return tile(ROWS, b, rows, panel, y, K_NR / 2);
    switch (n) {
    case 1:
        return tile(1, b, rows, panel, y, cols);
    case 2:
        return tile(2, b, rows, panel, y, cols);
    case 3:
        return tile(3, b, rows, panel, y, cols);
    case 4:
        return tile(4, b, rows, panel, y, cols);
    case 5:
        return tile(5, b, rows, panel, y, cols);
    default:
        return tile(6, b, rows, panel, y, cols);
    }
}

void lora_outer_avx2(const struct block *b)
{
    const float *rows = (const float *)(const void *)b->rows;
    int64_t parts = linear_ceil_div(b->h, ROWS);
    for (int64_t col = 0; col < linear_min(b->np * K_NR, b->out.cols); col += K_NR / 2) {
        const char *panel = b->panel + col / K_NR * b->stride;
        for (int64_t p = 0; p < parts; p++) {
            int64_t row = b->h * p / parts, n = b->h * (p + 1) / parts - row;
            tile_rows(n, b, rows + row, (const float *)(const void *)panel + col % K_NR,
                      b->out.y + row * b->out.ld_y + col, b->out.cols - col);
        }
    }
}

/* ---- how the adapter comes ------------------------------------------------------------------ */

/* As many of the eight words as are there. */
TURN_INLINE __m256i words_at(const float *x, int64_t left)
{
    return vf_bits(vf_load(x, left < VF ? (int)left : VF));
}

void lora_across_avx2(const float *w, int64_t rows, int64_t rank, float *to)
{
    for (int64_t half = 0; half < 16; half += VF) {
        for (int64_t r = 0; r < rank; r += VF) {
            __m256i v[VF];
#pragma GCC unroll 8
            for (int i = 0; i < VF; i++)
                v[i] = half + i < rows ? words_at(w + (half + i) * rank + r, rank - r)
                                       : _mm256_setzero_si256();
            transpose8(v);
#pragma GCC unroll 8
            for (int i = 0; i < VF; i++)
                if (i < rank - r)
                    vf_store(to + (r + i) * K_NR + half, vf_from_bits(v[i]), VF);
        }
    }
}

void lora_widen_avx2(const k_bf16 *x, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i += VF)
        vf_store(to + i, widened(x + i), VF);
}

/* One row by np panels from `panels` on. */
TURN_INLINE void row_panels(int np, const k_bf16 *panels, const float *t, int64_t rank, float *y,
                            int64_t cols)
{
    vf sum[ROW_VECTORS];
#pragma GCC unroll 12
    for (int v = 0; v < np * 4; v++)
        sum[v] = vf_zero();
    for (int64_t r = 0; r < rank; r++) {
        vf x = vf_set(t[r]);
#pragma GCC unroll 12
        for (int v = 0; v < np * 4; v++)
            sum[v] = vf_fma(x, widened(panels + (v / 4 * rank + r) * K_NR + v % 4 * VF), sum[v]);
    }
#pragma GCC unroll 12
    for (int v = 0; v < np * 4; v++)
        add_to(y + v * VF, sum[v], cols - v * VF);
}

void lora_row_avx2(const k_bf16 *panels, const float *t, int64_t rank, float *y, int64_t cols)
{
    int64_t col = 0;
    for (; col + 2 * K_NR < cols; col += 3 * K_NR)
        row_panels(3, panels + col * rank, t, rank, y + col, cols - col);
    for (; col < cols; col += K_NR)
        row_panels(1, panels + col * rank, t, rank, y + col, cols - col);
}
