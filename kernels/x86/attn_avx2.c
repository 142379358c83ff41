/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of attention with AVX2 and FMA. A product keeps 6 rows by 16 columns in 12
 * registers and goes over a panel twice; bf16 pairs are widened as they are read, first the even
 * input of each, then the odd one.
 */
#include <math.h>
#include <string.h>

#include "kernels/variants.h"
#include "kernels/x86/attn_avx2.h"

enum { MR = 6 };

/* ---- products ---- */

struct pair { /* 16 columns */
    __m256 v[2];
};

/* Stores of columns [col, w) of the rows what there is of it; with `whole` that is all. */
INLINE void product_store(const struct attn_product *p, int col, const struct pair *acc,
                          const int mr, const bool whole)
{
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++) {
        if (!whole && r >= p->n_row)
            break;
        float *c = p->c + (ptrdiff_t)r * p->ld_c;
        __m256 factor = _mm256_set1_ps(p->take ? p->take[r] : p->factor);
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            int i = col + v * 8, w = whole ? i + 8 : p->w;
            if (!whole && i >= w)
                break;
            __m256 x = _mm256_mul_ps(acc[r].v[v], factor);
            if (p->take) {
                x = _mm256_mul_ps(load_ps(c, i, w), _mm256_set1_ps(p->keep[r]));
                x = _mm256_fmadd_ps(acc[r].v[v], factor, x);
            }
            store_ps(c, i, w, x);
        }
    }
}

/* One row's product with two vectors: its factor, in any lane, times both. */
#define TIMES(in, r)                                                                               \
    "vbroadcastss " #r "*2112+" in "(%[a]), %[x]\n\tvfmadd231ps %[b0], %[x], %[s" #r "0]\n\t"      \
    "vfmadd231ps %[b1], %[x], %[s" #r "1]\n\t"
#define TIMES6(in) TIMES(in, 0) TIMES(in, 1) TIMES(in, 2) TIMES(in, 3) TIMES(in, 4) TIMES(in, 5)
#define SUMS(r)    [s##r##0] "+&x"(acc[r].v[0]), [s##r##1] "+&x"(acc[r].v[1])

_Static_assert(ROW_FLOATS * 4 == 2112, "as TIMES has it");

/* Both inputs of a pair, for six rows and 16 columns. Written out since all 16 registers are in
 * use: the compiler moves a sum to where a product's other form wants it, and has none left. */
INLINE void accumulate_pairs(struct pair *acc, const float *a, const float *b)
{
    const __m256 high = _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000u));
    __m256 x, b0, b1;
    __asm__(
        "vmovdqu (%[b]), %[b0]\n\tvmovdqu 32(%[b]), %[b1]\n\t"
        "vpslld $16, %[b0], %[b0]\n\tvpslld $16, %[b1], %[b1]\n\t" TIMES6(
            "0") "vandps (%[b]), %[high], %[b0]\n\tvandps 32(%[b]), %[high], %[b1]\n\t" TIMES6("4")
        : SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4),
          SUMS(5), [x] "=&x"(x), [b0] "=&x"(b0), [b1] "=&x"(b1)
        : [a] "r"(a), [b] "r"(b), [high] "x"(high)
        : "memory");
}

INLINE void accumulate(struct pair *acc, const float *a, __m256 b0, __m256 b1, const int mr)
{
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++) {
        __m256 x = _mm256_broadcast_ss(a + r * ROW_FLOATS);
        acc[r].v[0] = _mm256_fmadd_ps(x, b0, acc[r].v[0]);
        acc[r].v[1] = _mm256_fmadd_ps(x, b1, acc[r].v[1]);
    }
}

/* A step: one input, in bf16 two; tail: `in` says which columns there are. */
INLINE void product_step(struct pair *acc, const float *a, const float *b, const __m256i *in,
                         const int mr, const bool bf16, const bool tail)
{
    if (bf16 && mr == MR && !tail) {
        accumulate_pairs(acc, a, b);
        return;
    }
    __m256 b0 = tail ? _mm256_maskload_ps(b, in[0]) : _mm256_loadu_ps(b);
    __m256 b1 = tail ? _mm256_maskload_ps(b + 8, in[1]) : _mm256_loadu_ps(b + 8);
    accumulate(acc, a, bf16 ? even_ps(b0) : b0, bf16 ? even_ps(b1) : b1, mr);
    if (bf16)
        accumulate(acc, a + 1, odd_ps(b0), odd_ps(b1), mr);
}

/* Columns [col, col + 16) of a panel; tail: they may end before. */
INLINE void product_cols(const struct attn_product *p, int col, const int mr, const bool bf16,
                         const bool tail)
{
    const float *a = p->rows;
    const __m256i in[2] = {lanes(p->w, col), lanes(p->w, col + 8)};
    const int each = bf16 ? 2 : 1, w = p->w;
    struct pair acc[MR];
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++)
        acc[r].v[0] = acc[r].v[1] = _mm256_setzero_ps();
    for (int j = 0; j < p->n_panel; j++) {
        const float *b = (const float *)p->panel[j] + col;
        const int n_in = p->n_in_last && j + 1 == p->n_panel ? p->n_in_last : p->n_in;
        for (int i = 0; i < n_in; i += each, a += each, b += w)
            product_step(acc, a, b, in, mr, bf16, tail);
    }
    if (!tail && p->n_row == mr)
        product_store(p, col, acc, mr, true);
    else
        product_store(p, col, acc, mr, false);
}

/* Functions of their own: beside other code the sums would not all be in registers. */
__attribute__((noinline)) static void product_six_bf16(const struct attn_product *p, int col)
{
    product_cols(p, col, MR, true, false);
}

__attribute__((noinline)) static void product_six_f32(const struct attn_product *p, int col)
{
    product_cols(p, col, MR, false, false);
}

INLINE void product_rows(const struct attn_product *p, const int mr, const bool bf16)
{
    const int n_col = p->n_col ? p->n_col : p->w;
    for (int col = 0; col < n_col; col += 16) {
        if (p->w - col < 16)
            product_cols(p, col, mr, bf16, true);
        else if (mr < MR)
            product_cols(p, col, mr, bf16, false);
        else if (bf16)
            product_six_bf16(p, col);
        else
            product_six_f32(p, col);
    }
}

/* The number of rows is rounded up to one there is code for: what lies behind the last row is
 * computed with and not stored. */
INLINE void product(const struct attn_product *p, const bool bf16)
{
    if (p->n_row == 1)
        product_rows(p, 1, bf16);
    else if (p->n_row == 2)
        product_rows(p, 2, bf16);
    else if (p->n_row == 3)
        product_rows(p, 3, bf16);
    else if (p->n_row == 4)
        product_rows(p, 4, bf16);
    else
        product_rows(p, MR, bf16);
}

static void product_bf16(const struct attn_product *p)
{
    product(p, true);
}

static void product_f32(const struct attn_product *p)
{
    product(p, false);
}

/* ---- between products ---- */

/* Caps scores that need it, hides keys outside of `seen`, and returns the largest. */
INLINE float row_max(const struct attn_probs *p, float *s, struct k_span seen, const bool caps)
{
    const __m256 hidden = _mm256_set1_ps(-INFINITY);
    const __m256 cap = _mm256_set1_ps(p->cap), scale = _mm256_set1_ps(p->cap_scale);
    __m256 most = hidden;
    for (int i = 0; i < p->n_key; i += 8) {
        const bool whole = i >= seen.lo && i + 8 <= seen.hi;
        __m256 x = _mm256_loadu_ps(s + i);
        if (caps)
            x = _mm256_mul_ps(tanh_ps(_mm256_mul_ps(x, scale)), cap);
        if (!whole)
            x = _mm256_blendv_ps(hidden, x, seen_lanes(seen, i));
        if (caps || !whole)
            _mm256_storeu_ps(s + i, x);
        most = _mm256_max_ps(x, most);
    }
    return max_lanes(most);
}

INLINE float row_probs(const float *s, float *out, int n_key, float m, const bool bf16)
{
    __m256 max = _mm256_set1_ps(m), sum = _mm256_setzero_ps();
    for (int i = 0; i < n_key; i += 8) {
        __m256 p = exp2_ps(_mm256_sub_ps(_mm256_loadu_ps(s + i), max));
        sum = _mm256_add_ps(sum, p);
        _mm256_storeu_ps(out + i, bf16 ? round_bf16_ps(p) : p);
    }
    return sum_lanes(sum);
}

INLINE void probs(const struct attn_probs *p, const bool bf16)
{
    for (int r = 0; r < p->n_row; r++) {
        float *s = p->s + r * ATTN_LD;
        float m = p->cap > 0 ? row_max(p, s, p->seen[r], true) : row_max(p, s, p->seen[r], false);
        p->m[r] = m;
        if (p->seen[r].lo >= p->seen[r].hi)
            m = 0; /* all are hidden, and -inf - 0 gives the probability 0 */
        p->l[r] = row_probs(s, (float *)p->rows + (size_t)r * ROW_FLOATS, p->n_key, m, bf16);
    }
}

static void probs_bf16(const struct attn_probs *p)
{
    probs(p, true);
}

static void probs_f32(const struct attn_probs *p)
{
    probs(p, false);
}

void attn_fold_avx2(int n, float *big_m, float *big_l, const float *m, const float *l, float *keep,
                    float *take)
{
    const __m256 none = _mm256_set1_ps(-INFINITY);
    for (int i = 0; i < n; i += 8) {
        __m256 old = load_ps(big_m, i, n), add = load_ps(m, i, n), max = _mm256_max_ps(old, add);
        __m256 k = exp2_ps(_mm256_sub_ps(old, max)), t = exp2_ps(_mm256_sub_ps(add, max));
        k = _mm256_and_ps(k, _mm256_cmp_ps(old, none, _CMP_NEQ_UQ));
        t = _mm256_and_ps(t, _mm256_cmp_ps(add, none, _CMP_NEQ_UQ));
        __m256 sum = _mm256_mul_ps(load_ps(big_l, i, n), k);
        store_ps(big_l, i, n, _mm256_fmadd_ps(load_ps(l, i, n), t, sum));
        store_ps(big_m, i, n, max);
        store_ps(keep, i, n, k);
        store_ps(take, i, n, t);
    }
}

static void fold_vec(float *o, const float *part, float keep, float take, int d)
{
    __m256 k = _mm256_set1_ps(keep), t = _mm256_set1_ps(take);
    for (int i = 0; i < d; i += 8) {
        __m256 old = _mm256_mul_ps(load_ps(o, i, d), k);
        store_ps(o, i, d, _mm256_fmadd_ps(load_ps(part, i, d), t, old));
    }
}

void attn_finish_avx2(float *y, const float *o, float inv, int d)
{
    __m256 f = _mm256_set1_ps(inv), zero = _mm256_setzero_ps();
    for (int i = 0; i < d; i += 8)
        store_ps(y, i, d, _mm256_add_ps(_mm256_mul_ps(load_ps(o, i, d), f), zero));
}

/* Whole vectors are stored: a left operand has room up to K_HEAD_MAX. */
void attn_pack_row_avx2(enum k_type type, void *row, const float *x, int d)
{
    for (int i = 0; i < d; i += 8) {
        __m256 v = load_ps(x, i, d);
        _mm256_storeu_ps((float *)row + i, type == K_BF16 ? round_bf16_ps(v) : v);
    }
}

float attn_dot_avx2(const float *x, const float *y, int d)
{
    __m256 sum = _mm256_setzero_ps();
    for (int i = 0; i < d; i += 8)
        sum = _mm256_fmadd_ps(load_ps(x, i, d), load_ps(y, i, d), sum);
    return sum_lanes(sum);
}

/* ---- gradient ---- */

INLINE void grad(const struct attn_grad *g, const bool bf16)
{
    for (int r = 0; r < g->n_row; r++) {
        const float *s = g->s + r * ATTN_LD, *dp = g->dp + r * ATTN_LD;
        const size_t at = (size_t)r * ROW_FLOATS;
        const int by_col = g->query_is_col, row = by_col ? 0 : r;
        __m256 lse = _mm256_set1_ps(g->lse[row]), delta = _mm256_set1_ps(g->delta[row]);
        for (int i = 0; i < g->n_col; i += 8) {
            __m256 p, ds;
            if (by_col) {
                lse = _mm256_loadu_ps(g->lse + i);
                delta = _mm256_loadu_ps(g->delta + i);
            }
            attn_grad_vec(g, _mm256_loadu_ps(s + i), _mm256_loadu_ps(dp + i), lse, delta,
                          seen_lanes(g->seen[r], i), &p, &ds);
            _mm256_storeu_ps((float *)g->ds_rows + at + i, bf16 ? round_bf16_ps(ds) : ds);
            if (g->p_rows)
                _mm256_storeu_ps((float *)g->p_rows + at + i, bf16 ? round_bf16_ps(p) : p);
        }
    }
}

static void grad_bf16(const struct attn_grad *g)
{
    grad(g, true);
}

static void grad_f32(const struct attn_grad *g)
{
    grad(g, false);
}

static const struct attn_ops ops = {
    .mr = MR,
    .row_bytes = {[K_F32] = ROW_FLOATS * 4, [K_BF16] = ROW_FLOATS * 4},
    .in_bytes = {[K_F32] = 4, [K_BF16] = 4},
    .pack_row = attn_pack_row_avx2,
    .product = {[K_F32] = product_f32, [K_BF16] = product_bf16},
    .row = attn_row_avx2,
    .probs = {[K_F32] = probs_f32, [K_BF16] = probs_bf16},
    .fold = attn_fold_avx2,
    .fold_vec = fold_vec,
    .finish = attn_finish_avx2,
    .copy_values = attn_copy_values_avx2,
    .grad = {[K_F32] = grad_f32, [K_BF16] = grad_bf16},
    .dot = attn_dot_avx2,
    .rows_of_k = attn_rows_of_k_avx2,
    .rows_of_v = attn_rows_of_v_avx2,
    .k_of_rows = attn_k_of_rows_avx2,
    .v_of_rows = attn_v_of_rows_avx2,
    .widen_k = attn_widen_k_avx2,
    .widen_v = attn_widen_v_avx2,
    .keys = attn_keys_avx2,
};

void attn_avx2(const void *args, const struct k_slice *s)
{
    attn_x86(&ops, args, s);
}

void attn_part_avx2(const void *args, const struct k_slice *s)
{
    attn_part_x86(&ops, args, s);
}

void attn_merge_avx2(const void *args, const struct k_slice *s)
{
    attn_merge_x86(&ops, args, s);
}

void attn_bwd_q_avx2(const void *args, const struct k_slice *s)
{
    attn_bwd_q_x86(&ops, args, s);
}

void attn_bwd_kv_avx2(const void *args, const struct k_slice *s)
{
    attn_bwd_kv_x86(&ops, args, s);
}
