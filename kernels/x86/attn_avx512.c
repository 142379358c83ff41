/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of attention with AVX-512 and its bf16 dot products. A product keeps ATTN_MR rows
 * by 32 columns in 24 registers; each step loads one (f32) or two (bf16) inputs of 32 columns and
 * broadcasts those of each row.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/variants.h"
#include "kernels/x86/attn_avx512.h"

/* ---- products ---- */

INLINE void store_row(const struct attn_product *p, int r, const __m512 sum[2], const int w,
                      const bool folds)
{
    const __mmask16 m0 = lanes(w, 0), m1 = lanes(w, 1);
    __m512 factor = _mm512_set1_ps(folds ? p->take[r] : p->factor);
    float *c = p->c + (ptrdiff_t)r * p->ld_c;
    __m512 c0 = _mm512_mul_ps(sum[0], factor), c1 = _mm512_mul_ps(sum[1], factor);
    if (folds) {
        __m512 keep = _mm512_set1_ps(p->keep[r]);
        c0 = _mm512_mul_ps(_mm512_maskz_loadu_ps(m0, c), keep);
        c1 = _mm512_mul_ps(_mm512_maskz_loadu_ps(m1, c + 16), keep);
        c0 = _mm512_fmadd_ps(sum[0], factor, c0);
        c1 = _mm512_fmadd_ps(sum[1], factor, c1);
    }
    store_ps(c, 0, w, c0);
    store_ps(c, 16, w, c1);
}

INLINE void store_rows(const struct attn_product *p, __m512 (*acc)[2], const int w, const int mr)
{
    if (p->take) {
#pragma GCC unroll 12
        for (int r = 0; r < mr; r++)
            store_row(p, r, acc[r], w, true);
    } else {
#pragma GCC unroll 12
        for (int r = 0; r < mr; r++)
            store_row(p, r, acc[r], w, false);
    }
}

/* Nearly all products are of whole blocks, for which nothing is decided row by row. */
INLINE void product_store(const struct attn_product *p, __m512 (*acc)[2], const int mr)
{
    if (p->n_row == mr && p->w == K_NR) {
        store_rows(p, acc, K_NR, mr);
        return;
    }
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++) {
        if (r >= p->n_row)
            break;
        store_row(p, r, acc[r], p->w, p->take != NULL);
    }
}

INLINE void product_start(__m512 (*acc)[2], const int mr)
{
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++)
        acc[r][0] = acc[r][1] = _mm512_setzero_ps();
}

INLINE void product_bf16_rows(const struct attn_product *p, const int mr)
{
    const __mmask16 m0 = lanes(p->w, 0), m1 = lanes(p->w, 1);
    const char *a = p->rows;
    __m512 acc[ATTN_MR][2];
    product_start(acc, mr);
    for (int j = 0; j < p->n_panel; j++) {
        const char *b = p->panel[j];
        const int n_in = j + 1 < p->n_panel || !p->n_in_last ? p->n_in : p->n_in_last;
        for (int i = 0; i < n_in; i += 2, a += 4, b += p->w * 4) {
            __m512bh b0 = (__m512bh)_mm512_maskz_loadu_epi32(m0, b);
            __m512bh b1 = (__m512bh)_mm512_maskz_loadu_epi32(m1, b + 64);
#pragma GCC unroll 12
            for (int r = 0; r < mr; r++) {
                int32_t pair;
                memcpy(&pair, a + r * ROW_BF16, sizeof pair);
                __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
                acc[r][0] = _mm512_dpbf16_ps(acc[r][0], x, b0);
                acc[r][1] = _mm512_dpbf16_ps(acc[r][1], x, b1);
            }
        }
    }
    product_store(p, acc, mr);
}

/* Scores of half a cell, which is all that the rows see of it. */
static void product_bf16_half(const struct attn_product *p)
{
    const char *a = p->rows, *b = p->panel[0];
    const __m512 factor = _mm512_set1_ps(p->factor);
    __m512 acc[ATTN_MR];
#pragma GCC unroll 12
    for (int r = 0; r < ATTN_MR; r++)
        acc[r] = _mm512_setzero_ps();
    for (int i = 0; i < p->n_in; i += 2, a += 4, b += K_NR * 4) {
        __m512bh w = (__m512bh)_mm512_loadu_si512(b);
#pragma GCC unroll 12
        for (int r = 0; r < ATTN_MR; r++) {
            int32_t pair;
            memcpy(&pair, a + r * ROW_BF16, sizeof pair);
            acc[r] = _mm512_dpbf16_ps(acc[r], (__m512bh)_mm512_set1_epi32(pair), w);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < ATTN_MR; r++) {
        if (r < p->n_row)
            _mm512_storeu_ps(p->c + (ptrdiff_t)r * p->ld_c, _mm512_mul_ps(acc[r], factor));
    }
}

INLINE void product_f32_rows(const struct attn_product *p, const int mr)
{
    const __mmask16 m0 = lanes(p->w, 0), m1 = lanes(p->w, 1);
    const char *a = p->rows;
    __m512 acc[ATTN_MR][2];
    product_start(acc, mr);
    for (int j = 0; j < p->n_panel; j++) {
        const float *b = p->panel[j];
        for (int i = 0; i < p->n_in; i++, a += 4, b += p->w) {
            __m512 b0 = _mm512_maskz_loadu_ps(m0, b);
            __m512 b1 = _mm512_maskz_loadu_ps(m1, b + 16);
#pragma GCC unroll 12
            for (int r = 0; r < mr; r++) {
                __m512 x = _mm512_set1_ps(*(const float *)(a + r * ROW_F32));
                acc[r][0] = _mm512_fmadd_ps(x, b0, acc[r][0]);
                acc[r][1] = _mm512_fmadd_ps(x, b1, acc[r][1]);
            }
        }
    }
    product_store(p, acc, mr);
}

/* The number of rows is rounded up to one there is code for: what lies behind the last row is
 * computed with and not stored. */
static void product_bf16(const struct attn_product *p)
{
    switch (p->n_row) {
    case 1:
        product_bf16_rows(p, 1);
        break;
    case 2:
        product_bf16_rows(p, 2);
        break;
    case 3:
        product_bf16_rows(p, 3);
        break;
    case 4:
        product_bf16_rows(p, 4);
        break;
    case 5:
    case 6:
        product_bf16_rows(p, 6);
        break;
    case 7:
    case 8:
        product_bf16_rows(p, 8);
        break;
    default:
        if (p->n_col && p->n_col <= K_NR / 2)
            product_bf16_half(p);
        else
            product_bf16_rows(p, 12);
    }
}

static void product_f32(const struct attn_product *p)
{
    switch (p->n_row) {
    case 1:
        product_f32_rows(p, 1);
        break;
    case 2:
        product_f32_rows(p, 2);
        break;
    case 3:
    case 4:
        product_f32_rows(p, 4);
        break;
    case 5:
    case 6:
    case 7:
    case 8:
        product_f32_rows(p, 8);
        break;
    default:
        product_f32_rows(p, 12);
    }
}

/* ---- between products ---- */

/* The row's sum. Two chains per lane, then lanes in a fixed order. */
INLINE float row_probs(const struct attn_probs *p, int r, float m, const enum k_type type,
                       const size_t row_bytes)
{
    const float *s = p->s + r * ATTN_LD;
    char *out = (char *)p->rows + (size_t)r * row_bytes;
    struct pair sum = {{_mm512_setzero_ps(), _mm512_setzero_ps()}};
    for (int i = 0; i < p->n_key; i += 32)
        cell_probs(s + i, _mm512_set1_ps(m), out + (size_t)i * (type == K_BF16 ? 2 : 4), &sum,
                   type);
    return pair_sum(&sum);
}

/* Rows one after the other in each step: the end of one, which waits, then overlaps the next. */
INLINE void probs(const struct attn_probs *p, const enum k_type type, const size_t row_bytes)
{
    for (int r = 0; r < p->n_row; r++)
        p->m[r] = row_max(p->s + r * ATTN_LD, p->n_key, p->seen[r], p->cap, p->cap_scale);
    for (int r = 0; r < p->n_row; r++) {
        /* where all are hidden, -inf - 0 gives the probability 0 */
        float m = p->seen[r].lo < p->seen[r].hi ? p->m[r] : 0;
        p->l[r] = row_probs(p, r, m, type, row_bytes);
    }
}

static void probs_bf16(const struct attn_probs *p)
{
    probs(p, K_BF16, ROW_BF16);
}

static void probs_f32(const struct attn_probs *p)
{
    probs(p, K_F32, ROW_F32);
}

void attn_fold_avx512(int n, float *big_m, float *big_l, const float *m, const float *l,
                      float *keep, float *take)
{
    const __mmask16 in = lanes(n, 0);
    const __m512 none = _mm512_set1_ps(-INFINITY);
    __m512 old = _mm512_maskz_loadu_ps(in, big_m), add = _mm512_maskz_loadu_ps(in, m);
    __m512 max = _mm512_max_ps(old, add);
    __mmask16 has_old = _mm512_cmp_ps_mask(old, none, _CMP_NEQ_UQ);
    __mmask16 has_add = _mm512_cmp_ps_mask(add, none, _CMP_NEQ_UQ);
    __m512 k = _mm512_maskz_mov_ps(has_old, exp2_ps(_mm512_sub_ps(old, max)));
    __m512 t = _mm512_maskz_mov_ps(has_add, exp2_ps(_mm512_sub_ps(add, max)));
    __m512 sum = _mm512_mul_ps(_mm512_maskz_loadu_ps(in, big_l), k);
    sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(in, l), t, sum);
    _mm512_mask_storeu_ps(big_m, in, max);
    _mm512_mask_storeu_ps(big_l, in, sum);
    _mm512_mask_storeu_ps(keep, in, k);
    _mm512_mask_storeu_ps(take, in, t);
}

static void fold_vec(float *o, const float *part, float keep, float take, int d)
{
    __m512 k = _mm512_set1_ps(keep), t = _mm512_set1_ps(take);
    for (int i = 0; i < d; i += 16) {
        __mmask16 in = lanes(d - i, 0);
        __m512 old = _mm512_mul_ps(_mm512_maskz_loadu_ps(in, o + i), k);
        store_ps(o, i, d, _mm512_fmadd_ps(_mm512_maskz_loadu_ps(in, part + i), t, old));
    }
}

static void finish(float *y, const float *o, float inv, int d)
{
    __m512 f = _mm512_set1_ps(inv), zero = _mm512_setzero_ps();
    for (int i = 0; i < d; i += 16) {
        __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes(d - i, 0), o + i), f);
        store_ps(y, i, d, _mm512_add_ps(x, zero));
    }
}

/* Whole vectors are stored: a left operand has room up to K_HEAD_MAX. */
static void pack_row(enum k_type type, void *row, const float *x, int d)
{
    for (int i = 0; i < d; i += 16) {
        __m512 v = _mm512_maskz_loadu_ps(lanes(d - i, 0), x + i);
        if (type == K_BF16)
            _mm256_storeu_si256((__m256i *)((k_bf16 *)row + i), (__m256i)_mm512_cvtneps_pbh(v));
        else
            _mm512_storeu_ps((float *)row + i, v);
    }
}

static float dot(const float *x, const float *y, int d)
{
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < d; i += 16) {
        __mmask16 in = lanes(d - i, 0);
        sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(in, x + i), _mm512_maskz_loadu_ps(in, y + i),
                              sum);
    }
    return _mm512_reduce_add_ps(sum);
}

/* ---- gradient ---- */

/* p and ds of 16 pairs; `in` are those that see each other. */
INLINE void grad_vec(const struct attn_grad *g, __m512 s, __m512 dp, __m512 lse, __m512 delta,
                     __mmask16 in, __m512 *p, __m512 *ds)
{
    __m512 slope = _mm512_set1_ps(1);
    if (g->cap > 0) {
        __m512 t = tanh_ps(_mm512_mul_ps(s, _mm512_set1_ps(g->cap_scale)));
        s = _mm512_mul_ps(t, _mm512_set1_ps(g->cap));
        slope = _mm512_fnmadd_ps(t, t, slope);
    }
    *p = _mm512_maskz_mov_ps(in, exp2_ps(_mm512_sub_ps(s, lse)));
    *ds = _mm512_maskz_mul_ps(in, _mm512_mul_ps(*p, _mm512_sub_ps(dp, delta)), slope);
}

INLINE void grad(const struct attn_grad *g, const enum k_type type, const size_t row_bytes)
{
    for (int r = 0; r < g->n_row; r++) {
        const float *s = g->s + r * ATTN_LD, *dp = g->dp + r * ATTN_LD;
        const int by_col = g->query_is_col, at = by_col ? 0 : r;
        __m512 lse = _mm512_set1_ps(g->lse[at]), delta = _mm512_set1_ps(g->delta[at]);
        for (int i = 0; i < g->n_col; i += 32) {
            __m512 p[2], ds[2];
#pragma GCC unroll 2
            for (int v = 0, j = i; v < 2; v++, j += 16) {
                if (by_col) {
                    lse = _mm512_loadu_ps(g->lse + j);
                    delta = _mm512_loadu_ps(g->delta + j);
                }
                grad_vec(g, _mm512_loadu_ps(s + j), _mm512_loadu_ps(dp + j), lse, delta,
                         seen_lanes(g->seen[r], j), p + v, ds + v);
            }
            store_pair((char *)g->ds_rows + (size_t)r * row_bytes, i, ds[0], ds[1], type);
            if (g->p_rows)
                store_pair((char *)g->p_rows + (size_t)r * row_bytes, i, p[0], p[1], type);
        }
    }
}

static void grad_bf16(const struct attn_grad *g)
{
    grad(g, K_BF16, ROW_BF16);
}

static void grad_f32(const struct attn_grad *g)
{
    grad(g, K_F32, ROW_F32);
}

static const struct attn_ops ops = {
    .mr = ATTN_MR,
    .row_bytes = {[K_F32] = ROW_F32, [K_BF16] = ROW_BF16},
    .in_bytes = {[K_F32] = 4, [K_BF16] = 2},
    .pack_row = pack_row,
    .product = {[K_F32] = product_f32, [K_BF16] = product_bf16},
    .row = attn_row_avx512,
    .probs = {[K_F32] = probs_f32, [K_BF16] = probs_bf16},
    .fold = attn_fold_avx512,
    .fold_vec = fold_vec,
    .finish = finish,
    .copy_values = attn_copy_values_avx512,
    .grad = {[K_F32] = grad_f32, [K_BF16] = grad_bf16},
    .dot = dot,
    .rows_of_k = attn_rows_of_k_avx512,
    .rows_of_v = attn_rows_of_v_avx512,
    .k_of_rows = attn_k_of_rows_avx512,
    .v_of_rows = attn_v_of_rows_avx512,
    .widen_k = attn_widen_k_avx512,
    .widen_v = attn_widen_v_avx512,
};

void attn_avx512(const void *args, const struct k_slice *s)
{
    attn_x86(&ops, args, s);
}

void attn_part_avx512(const void *args, const struct k_slice *s)
{
    attn_part_x86(&ops, args, s);
}

void attn_merge_avx512(const void *args, const struct k_slice *s)
{
    attn_merge_x86(&ops, args, s);
}

void attn_bwd_q_avx512(const void *args, const struct k_slice *s)
{
    attn_bwd_q_x86(&ops, args, s);
}

void attn_bwd_kv_avx512(const void *args, const struct k_slice *s)
{
    attn_bwd_kv_x86(&ops, args, s);
}
