/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a sequence, which is to say the heads of a group, against the cells of a chunk: what
 * decoding is made of. A few heads alone leave most registers empty and most products waiting for
 * the one before, so scores take several cells at once and values several panels, as many as there
 * are registers for; and each step asks memory for as much of the cells to come as it reads.
 *
 * An output's sum is the one of attn_product, input after input from zero, so the bits are too.
 */
#include <string.h>

#include "kernels/x86/attn_avx512.h"

enum { CELLS_MAX = 4, PANELS_MAX = 4 };

struct pair { /* 32 columns */
    __m512 v[2];
};

/* Inputs of a step: a bf16 product takes two. */
INLINE int step_of(const enum k_type type)
{
    return type == K_BF16 ? 2 : 1;
}

/* Asks for what stands `away` from a step: it is 128 bytes of a cell to come, as it is of this. */
INLINE void fetch(const char *at, ptrdiff_t away)
{
    const char *p = (const char *)((uintptr_t)at + (uintptr_t)away);
    _mm_prefetch(p, _MM_HINT_T1);
    _mm_prefetch(p + 64, _MM_HINT_T1);
}

INLINE __m512 times(__m512 sum, __m512 x, __m512 y, const enum k_type type)
{
    if (type == K_BF16)
        return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
    return _mm512_fmadd_ps(x, y, sum);
}

/* What a step takes of row r, in all lanes. */
INLINE __m512 input_of(const char *rows, int r, const enum k_type type)
{
    float x;
    memcpy(&x, rows + (size_t)r * (type == K_BF16 ? ROW_BF16 : ROW_F32), sizeof x);
    return _mm512_set1_ps(x);
}

/* Scores of mr heads and nc cells from `cell` on. */
INLINE void scores(const struct attn_row *p, int cell, const int mr, const int nc,
                   const enum k_type type)
{
    struct pair acc[ATTN_MR][CELLS_MAX];
    const char *rows = p->rows, *b[CELLS_MAX];
    ptrdiff_t away[CELLS_MAX];
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int c = 0; c < nc; c++)
            acc[r][c].v[0] = acc[r][c].v[1] = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int c = 0; c < nc; c++) {
        b[c] = p->cell[cell + c];
        away[c] = p->away[cell + c];
    }
    for (int i = 0; i < p->d; i += step_of(type), rows += 4) {
        __m512 x[ATTN_MR];
#pragma GCC unroll 12
        for (int r = 0; r < mr; r++)
            x[r] = input_of(rows, r, type);
#pragma GCC unroll 4
        for (int c = 0; c < nc; c++, b[c - 1] += K_CELL * 4) {
            __m512 lo = _mm512_loadu_ps(b[c]), hi = _mm512_loadu_ps(b[c] + 64);
            fetch(b[c], away[c]);
#pragma GCC unroll 12
            for (int r = 0; r < mr; r++) {
                acc[r][c].v[0] = times(acc[r][c].v[0], x[r], lo, type);
                acc[r][c].v[1] = times(acc[r][c].v[1], x[r], hi, type);
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

INLINE void scores_rows(const struct attn_row *p, const int mr, const enum k_type type)
{
    int c = 0;
    for (; mr == 1 && c + 4 <= p->n_cell; c += 4)
        scores(p, c, mr, mr == 1 ? 4 : 1, type);
    for (; mr <= 4 && c + 2 <= p->n_cell; c += 2)
        scores(p, c, mr, mr <= 4 ? 2 : 1, type);
    for (; c < p->n_cell; c++)
        scores(p, c, mr, 1, type);
}

/* Columns [col, col + 32 np) of o = o keep + (p v) take for mr heads. What the last panel lacks of
 * 32 columns is read as zeros. */
INLINE void values(const struct attn_row *p, int col, const int mr, const int np,
                   const enum k_type type)
{
    const int last = p->d - col - (np - 1) * K_NR, w = last < K_NR ? last : K_NR;
    const __mmask16 m0 = lanes(w, 0), m1 = lanes(w, 1);
    const char *rows = p->rows;
    struct pair acc[ATTN_MR][PANELS_MAX];
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < np; n++)
            acc[r][n].v[0] = acc[r][n].v[1] = _mm512_setzero_ps();
    for (int c = 0; c < p->n_cell; c++) {
        const size_t panel_bytes = (size_t)(K_NR * K_CELL) * (type == K_BF16 ? 2 : 4);
        const char *first = (const char *)p->cell[c] + (size_t)(col / K_NR) * panel_bytes;
        const char *end = first + (size_t)(np - 1) * panel_bytes;
        for (int i = 0; i < K_CELL;
             i += step_of(type), rows += 4, first += K_NR * 4, end += w * 4) {
            __m512 x[ATTN_MR];
#pragma GCC unroll 12
            for (int r = 0; r < mr; r++)
                x[r] = input_of(rows, r, type);
#pragma GCC unroll 4
            for (int n = 0; n < np; n++) {
                const char *b = n == np - 1 ? end : first + (size_t)n * panel_bytes;
                __m512 lo = n == np - 1 ? _mm512_maskz_loadu_ps(m0, b) : _mm512_loadu_ps(b);
                __m512 hi =
                    n == np - 1 ? _mm512_maskz_loadu_ps(m1, b + 64) : _mm512_loadu_ps(b + 64);
                fetch(b, p->away[c]);
#pragma GCC unroll 12
                for (int r = 0; r < mr; r++) {
                    acc[r][n].v[0] = times(acc[r][n].v[0], x[r], lo, type);
                    acc[r][n].v[1] = times(acc[r][n].v[1], x[r], hi, type);
                }
            }
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++) {
        if (r >= p->n_row)
            break;
        __m512 keep = _mm512_set1_ps(p->keep[r]), take = _mm512_set1_ps(p->take[r]);
#pragma GCC unroll 8
        for (int i = 0; i < np * 2; i++) {
            int at = col + i * 16;
            float *o = p->c + r * p->d;
            __m512 old = _mm512_maskz_loadu_ps(lanes(p->d - at, 0), o + at);
            old = _mm512_mul_ps(old, keep);
            store_ps(o, at, p->d, _mm512_fmadd_ps(acc[r][i / 2].v[i % 2], take, old));
        }
    }
}

/* As many panels at once as leave registers for the rest. */
INLINE void values_rows(const struct attn_row *p, const int mr, const enum k_type type)
{
    int n = (p->d + K_NR - 1) / K_NR, i = 0;
    for (; mr <= 3 && i + 4 <= n; i += 4)
        values(p, i * K_NR, mr, mr <= 3 ? 4 : 1, type);
    for (; mr <= 6 && i + 2 <= n; i += 2)
        values(p, i * K_NR, mr, mr <= 6 ? 2 : 1, type);
    for (; i < n; i++)
        values(p, i * K_NR, mr, 1, type);
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
