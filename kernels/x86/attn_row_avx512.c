/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a sequence, which is to say the heads of a group, against the cells of a chunk: what
 * decoding is made of. Cells are read from their first byte to their last, one after the other, and
 * each step asks memory for as much of the cells to come as it reads, in their order: two streams
 * read by turns, of two cells or of two panels of one, get a fifth less of the memory. So the sums
 * of values wait in the first cache from cell to cell. Only where one or two heads alone would wait
 * for their products are scores taken of several cells at once.
 *
 * An output's sum is the one of attn_product, input after input from zero, so the bits are too.
 */
#include <string.h>

#include "kernels/x86/attn_avx512.h"

enum { CELLS_MAX = 4, LINE = 64, STEP = 2 * LINE };

struct pair { /* 32 columns */
    __m512 v[2];
};

/* Inputs of a step, which takes 128 bytes of a cell: a bf16 product has two. */
INLINE int step_of(const enum k_type type)
{
    return type == K_BF16 ? 2 : 1;
}

/* Asks for what n steps read, or with `sparse` for one line of each: the hardware brings the other.
 */
INLINE void fetch(const char *p, const int n, bool sparse)
{
#pragma GCC unroll 4
    for (int i = 0; i < n; i++, p += STEP) {
        _mm_prefetch(p, _MM_HINT_T1);
        if (!sparse)
            _mm_prefetch(p + LINE, _MM_HINT_T1);
    }
}

INLINE __m512 times(__m512 sum, __m512i x, __m512i y, const enum k_type type)
{
    if (type == K_BF16)
        return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(y), sum);
}

/* What a step takes of row r, in all lanes. */
INLINE __m512i input_of(const char *rows, int r, const enum k_type type)
{
    int32_t x;
    memcpy(&x, rows + (size_t)r * (type == K_BF16 ? ROW_BF16 : ROW_F32), sizeof x);
    return _mm512_set1_epi32(x);
}

/* Scores of mr heads and nc cells from `cell` on. */
INLINE void scores(const struct attn_row *p, int cell, const int mr, const int nc,
                   const enum k_type type)
{
    struct pair acc[ATTN_MR][CELLS_MAX];
    const char *rows = p->rows, *b[CELLS_MAX];
    const bool sparse = p->sparse;
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int c = 0; c < nc; c++)
            acc[r][c].v[0] = acc[r][c].v[1] = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int c = 0; c < nc; c++)
        b[c] = p->cell[cell + c];
    for (int part = 0; part < nc; part++) { /* of the steps: each asks for one cell */
        const char *ahead = (const char *)p->cell[cell + part] + p->away[cell + part];
        const int from = p->d * part / nc / 2 * 2, to = p->d * (part + 1) / nc / 2 * 2;
        for (int i = from; i < (part == nc - 1 ? p->d : to); i += step_of(type), rows += 4) {
            fetch(ahead, nc, sparse);
            ahead += nc * STEP;
#pragma GCC unroll 4
            for (int c = 0; c < nc; c++, b[c - 1] += STEP) {
                __m512i lo = _mm512_loadu_si512(b[c]), hi = _mm512_loadu_si512(b[c] + LINE);
#pragma GCC unroll 12
                for (int r = 0; r < mr; r++) {
                    __m512i x = input_of(rows, r, type);
                    acc[r][c].v[0] = times(acc[r][c].v[0], x, lo, type);
                    acc[r][c].v[1] = times(acc[r][c].v[1], x, hi, type);
                }
            }
        }
    }
    const __m512 factor = _mm512_set1_ps(p->factor);
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++) {
        if (r >= p->n_row)
            break;
#pragma GCC unroll 4
        for (int c = 0; c < nc; c++) {
            float *to = p->c + r * ATTN_LD + (cell + c) * K_CELL;
            _mm512_storeu_ps(to, _mm512_mul_ps(acc[r][c].v[0], factor));
            _mm512_storeu_ps(to + 16, _mm512_mul_ps(acc[r][c].v[1], factor));
        }
    }
}

/* A product takes six cycles and one begins in each: six sums at least. */
INLINE void scores_rows(const struct attn_row *p, const int mr, const enum k_type type)
{
    const int nc = mr == 1 ? 4 : mr == 2 ? 2 : 1;
    int c = 0;
    for (; c + nc <= p->n_cell; c += nc)
        scores(p, c, mr, nc, type);
    for (; c < p->n_cell; c++)
        scores(p, c, mr, 1, type);
}

/* One panel of a cell: w columns of the values of n_key keys, from b on. */
struct panel {
    const char *b;
    ptrdiff_t away;
    int w, n_key;
    bool sparse;
};

/* A step of a panel. The second key of a pair may be one that is not seen. */
INLINE void values_step(struct pair *acc, const char *rows, const char *b, const __mmask16 *in,
                        bool odd, const int mr, const enum k_type type)
{
    __m512i lo = _mm512_maskz_loadu_epi32(in[0], b), hi = _mm512_maskz_loadu_epi32(in[1], b + LINE);
    if (odd) {
        lo = _mm512_and_si512(lo, _mm512_set1_epi32(0xffff));
        hi = _mm512_and_si512(hi, _mm512_set1_epi32(0xffff));
    }
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++) {
        __m512i x = input_of(rows, r, type);
        acc[r].v[0] = times(acc[r].v[0], x, lo, type);
        acc[r].v[1] = times(acc[r].v[1], x, hi, type);
    }
}

/* Goes on with the sums of mr heads over a panel. */
INLINE void values_panel(const struct panel *p, const char *rows, struct pair *sum, const int mr,
                         const enum k_type type)
{
    const __mmask16 in[2] = {lanes(p->w, 0), lanes(p->w, 1)};
    const int step = step_of(type), whole = p->n_key / step * step;
    const char *b = p->b, *ahead = (const char *)((uintptr_t)b + (uintptr_t)p->away);
    const bool sparse = p->sparse;
    struct pair acc[ATTN_MR];
    int i = 0;
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++)
        acc[r] = sum[r];
    for (; i < whole; i += step, rows += 4, b += p->w * 4, ahead += p->w * 4) {
        fetch(ahead, 1, sparse);
        values_step(acc, rows, b, in, false, mr, type);
    }
    if (i < p->n_key)
        values_step(acc, rows, b, in, true, mr, type);
    for (; i < K_CELL; i += step, ahead += p->w * 4)
        fetch(ahead, 1, sparse);
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++)
        sum[r] = acc[r];
}

/* o = o keep + sum take for 16 columns of a head. */
INLINE void values_fold(const struct attn_row *p, int r, int col, __m512 sum)
{
    __m512 keep = _mm512_set1_ps(p->keep[r]), take = _mm512_set1_ps(p->take[r]);
    float *o = p->c + r * p->d;
    __m512 old = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes(p->d - col, 0), o + col), keep);
    store_ps(o, col, p->d, _mm512_fmadd_ps(sum, take, old));
}

/* o = o keep + (p v) take for mr heads. */
INLINE void values_rows(const struct attn_row *p, const int mr, const enum k_type type)
{
    struct pair sum[K_HEAD_MAX / K_NR][ATTN_MR];
    const int n = (p->d + K_NR - 1) / K_NR;
    const char *rows = p->rows;
    for (int i = 0; i < n; i++)
#pragma GCC unroll 12
        for (int r = 0; r < mr; r++)
            sum[i][r].v[0] = sum[i][r].v[1] = _mm512_setzero_ps();
    for (int c = 0; c < p->n_cell; c++, rows += K_CELL / step_of(type) * 4) {
        const int keys = p->n_key - c * K_CELL;
        struct panel panel = {.b = p->cell[c],
                              .away = p->away[c],
                              .n_key = keys < K_CELL ? keys : K_CELL,
                              .sparse = p->sparse};
        for (int i = 0; i < n; i++, panel.b += K_NR * K_CELL * 4 / step_of(type)) {
            const int left = p->d - i * K_NR;
            panel.w = left < K_NR ? left : K_NR;
            values_panel(&panel, rows, sum[i], mr, type);
        }
    }
    for (int i = 0; i < n; i++) {
#pragma GCC unroll 12
        for (int r = 0; r < mr; r++) {
            if (r >= p->n_row)
                break;
            values_fold(p, r, i * K_NR, sum[i][r].v[0]);
            if (p->d - i * K_NR > 16)
                values_fold(p, r, i * K_NR + 16, sum[i][r].v[1]);
        }
    }
}

INLINE void row_of(const struct attn_row *p, const int mr, const enum k_type type)
{
    if (p->take)
        values_rows(p, mr, type);
    else
        scores_rows(p, mr, type);
}

/* The number of heads is rounded up to one there is code for: what lies behind the last one is
 * computed with and not stored. */
INLINE void row_of_type(const struct attn_row *p, const enum k_type type)
{
    switch (p->n_row) {
    case 1:
        row_of(p, 1, type);
        break;
    case 2:
        row_of(p, 2, type);
        break;
    case 3:
        row_of(p, 3, type);
        break;
    case 4:
        row_of(p, 4, type);
        break;
    case 5:
    case 6:
        row_of(p, 6, type);
        break;
    case 7:
        row_of(p, 7, type);
        break;
    case 8:
        row_of(p, 8, type);
        break;
    default:
        row_of(p, 12, type);
    }
}

void attn_row_avx512(enum k_type type, const struct attn_row *p)
{
    if (type == K_BF16)
        row_of_type(p, K_BF16);
    else
        row_of_type(p, K_F32);
}
