/* SPDX-License-Identifier: Apache-2.0
 *
 * What the routed rows of mixtures of experts are beside products: sums of a row's experts, and
 * gradients of an expert's weight, a tile of it at a time: its sums stay in registers while the
 * expert's rows pass.
 */
#include <immintrin.h>

#include "kernels/experts_grid.h"
#include "kernels/variants.h"

enum { TILE_ROWS = 4, TILE_COLS = 16 };

/* dw[o .. o + rows, j .. j + cols) */
struct tile {
    int64_t o, j, rows, cols;
};

static void tile_whole(const struct k_experts_dw *a, const struct tile *t, int64_t lo, int64_t hi)
{
    __m256 sum[TILE_ROWS][2];
    for (int r = 0; r < TILE_ROWS; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_ps();
    for (int64_t i = lo; i < hi; i++) {
        const float *x = a->x + experts_row(a->from_x, a->top, i) * a->ld_x + t->j;
        const float *dy = a->dy + experts_row(a->from_dy, a->top, i) * a->ld_dy + t->o;
        __m256 x0 = _mm256_loadu_ps(x), x1 = _mm256_loadu_ps(x + 8);
        for (int r = 0; r < TILE_ROWS; r++) {
            __m256 d = _mm256_set1_ps(dy[r]);
            sum[r][0] = _mm256_fmadd_ps(d, x0, sum[r][0]);
            sum[r][1] = _mm256_fmadd_ps(d, x1, sum[r][1]);
        }
    }
    for (int r = 0; r < TILE_ROWS; r++) {
        float *dw = a->dw + (t->o + r) * a->k + t->j;
        _mm256_storeu_ps(dw, _mm256_add_ps(_mm256_loadu_ps(dw), sum[r][0]));
        _mm256_storeu_ps(dw + 8, _mm256_add_ps(_mm256_loadu_ps(dw + 8), sum[r][1]));
    }
}

static void tile_cut(const struct k_experts_dw *a, const struct tile *t, int64_t lo, int64_t hi)
{
    for (int64_t o = t->o; o < t->o + t->rows; o++) {
        for (int64_t j = t->j; j < t->j + t->cols; j++) {
            float sum = 0;
            for (int64_t i = lo; i < hi; i++)
                sum = __builtin_fmaf(a->dy[experts_row(a->from_dy, a->top, i) * a->ld_dy + o],
                                     a->x[experts_row(a->from_x, a->top, i) * a->ld_x + j], sum);
            a->dw[o * a->k + j] += sum;
        }
    }
}

void experts_dw_avx2(const void *args, const struct k_slice *s)
{
    const struct k_experts_dw *a = args;
    int64_t lo = a->start[a->expert], hi = a->start[a->expert + 1];
    int64_t end = linear_min(a->n, s->hi * K_NR);
    for (int64_t j = 0; j < a->k; j += TILE_COLS) {
        for (int64_t o = s->lo * K_NR; o < end; o += TILE_ROWS) {
            struct tile t = {o, j, linear_min(TILE_ROWS, end - o), linear_min(TILE_COLS, a->k - j)};
            if (t.rows == TILE_ROWS && t.cols == TILE_COLS)
                tile_whole(a, &t, lo, hi);
            else
                tile_cut(a, &t, lo, hi);
        }
    }
}

void experts_sum_avx2(const void *args, const struct k_slice *s)
{
    const struct k_experts_sum *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        float *y = a->y + i * a->ld_y;
        for (int64_t c = 0; c < a->d; c += 8) {
            __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)linear_min(8, a->d - c)),
                                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            __m256 sum = _mm256_setzero_ps();
            for (int64_t j = i * a->top; j < (i + 1) * a->top; j++) {
                __m256 w = _mm256_set1_ps(a->weight ? a->weight[j] : 1.0f);
                __m256 x = _mm256_maskload_ps(a->x + a->place[j] * a->ld_x + c, mask);
                sum = _mm256_fmadd_ps(w, x, sum);
            }
            if (a->add)
                sum = _mm256_add_ps(_mm256_maskload_ps(y + c, mask), sum);
            _mm256_maskstore_ps(y + c, mask, sum);
        }
    }
}
