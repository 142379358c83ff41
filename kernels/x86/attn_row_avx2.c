/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a sequence, which is to say the heads of a group, against the cells of a wave of
 * chunks, with AVX2: what decoding is made of. One core of Zen 3 reads 12 to 17 GB/s of one stream,
 * whatever is asked for ahead, and 20 to 24 GB/s of two or more that the hardware follows side by
 * side. So K runs LEAD cells ahead of V, and the two are read by turns, PIECE inputs of a K cell
 * and then one panel of a V cell. A cell's probabilities are made right before its values are read,
 * out of the first cache.
 *
 * 16 registers hold the sums of three heads by 32 columns, two numbers of each step and one factor.
 * More heads go over the piece again, which is in the first cache by then: bf16 pairs are widened
 * for each three of them, beside the products and for nothing. Between pieces sums wait in memory.
 *
 * An output's sum is the one of attn_product, input after input from zero, so the bits are too.
 */
#include <string.h>

#include "kernels/x86/attn_avx2.h"

enum {
    HEADS = 3,
    VECS = K_CELL / 8,
    PIECE = K_NR,         /* inputs of K, of V columns */
    LEAD = K_CHUNK_CELLS, /* a chunk's maxima are known before its first values are wanted */
    LINE = 64
};

_Static_assert((int)LEAD < (int)ATTN_RING, "scores wait until their values come");

struct quad { /* 32 columns, or keys */
    __m256 v[VECS];
};

/* What goes on from cell to cell. */
struct wave {
    const struct attn_row *p;    /* borrowed */
    int known;                   /* cells of chunks whose maxima are known */
    __m256 l[ATTN_MR];           /* of the chunk that probabilities have come to */
    struct quad scores[ATTN_MR]; /* of the cell of K that is read */
    struct quad sum[K_HEAD_MAX / K_NR][ATTN_MR];
    float m[ATTN_WAVE][16];   /* of chunks */
    float keep[16], take[16]; /* of the chunk whose values are in `sum` */
};

/* A piece of a cell: n_in inputs, or keys, by w columns; the heads' inputs lie ld apart. */
struct piece {
    const float *b, *rows;
    ptrdiff_t ld;
    const char *ahead; /* what memory is asked for meanwhile */
    int n_in, w;
    bool begins; /* sums, from zero */
};

static int chunk_of(const struct attn_row *p, int cell)
{
    return (cell + K_CHUNK_CELLS - p->n_first) / K_CHUNK_CELLS;
}

static bool chunk_ends(const struct attn_row *p, int cell)
{
    return cell + 1 == p->n_cell || chunk_of(p, cell + 1) != chunk_of(p, cell);
}

static float *scores_at(const struct attn_row *p, int cell, int r)
{
    return p->s + r * ATTN_RING_LD + cell % ATTN_RING * K_CELL;
}

/* Of the n heads that are left. Two and two are even where three and one would wait. */
static int heads_at_once(int n)
{
    return n == 4 || n == 2 ? 2 : n < HEADS ? n : HEADS;
}

/* One head's product with two vectors of a step: its factor, in any lane, times both. */
#define TIMES(at, r)                                                                               \
    "vbroadcastss " at ", %[x]\n\tvfmadd231ps %[b0], %[x], %[s" r "0]\n\t"                         \
    "vfmadd231ps %[b1], %[x], %[s" r "1]\n\t"

/* The even and the odd inputs of two vectors of pairs. */
#define EVEN                                                                                       \
    "vmovdqu (%[b]), %[b0]\n\tvmovdqu 32(%[b]), %[b1]\n\t"                                         \
    "vpslld $16, %[b0], %[b0]\n\tvpslld $16, %[b1], %[b1]\n\t"
#define ODD "vandps (%[b]), %[high], %[b0]\n\tvandps 32(%[b]), %[high], %[b1]\n\t"

#define SUMS(r) [s##r##0] "+&x"(acc[r].v[v]), [s##r##1] "+&x"(acc[r].v[v + 1])
#define TEMPS   [x] "=&x"(x), [b0] "=&x"(b0), [b1] "=&x"(b1)
#define INPUTS  [b] "r"(b), [rows] "r"(rows), [ld] "r"(ld * 4), [high] "x"(high)

/* Both inputs of a pair against two vectors of them. Written out since all 16 registers are in use:
 * the compiler loads a factor once for all vectors, or moves a sum to where a product's other form
 * wants it, and has none left. */
INLINE void pair_times(struct quad *acc, int v, const float *rows, const ptrdiff_t ld,
                       const float *b, const int mr)
{
    const __m256 high = _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000u));
    __m256 x, b0, b1;
    if (mr == 1)
        __asm__(EVEN TIMES("(%[rows])", "0") ODD TIMES("4(%[rows])", "0")
                : SUMS(0), TEMPS:INPUTS
                : "memory");
    else if (mr == 2)
        __asm__(EVEN TIMES("(%[rows])", "0") TIMES("(%[rows], %[ld])", "1")
                    ODD TIMES("4(%[rows])", "0") TIMES("4(%[rows], %[ld])", "1")
                : SUMS(0), SUMS(1), TEMPS:INPUTS
                : "memory");
    else
        __asm__(EVEN TIMES("(%[rows])", "0") TIMES("(%[rows], %[ld])", "1")
                    TIMES("(%[rows], %[ld], 2)", "2") ODD TIMES("4(%[rows])", "0")
                        TIMES("4(%[rows], %[ld])", "1") TIMES("4(%[rows], %[ld], 2)", "2")
                : SUMS(0), SUMS(1), SUMS(2), TEMPS:INPUTS
                : "memory");
}

/* One input of mr heads against two vectors. */
INLINE void times(struct quad *acc, int v, const float *rows, const ptrdiff_t ld, __m256 b0,
                  __m256 b1, const int mr)
{
#pragma GCC unroll 3
    for (int r = 0; r < mr; r++) {
        __m256 x = _mm256_broadcast_ss(rows + r * ld);
        acc[r].v[v] = _mm256_fmadd_ps(x, b0, acc[r].v[v]);
        acc[r].v[v + 1] = _mm256_fmadd_ps(x, b1, acc[r].v[v + 1]);
    }
}

/* A step, one input or in bf16 two, against 8 nv columns. */
INLINE void step(struct quad *acc, const float *rows, const ptrdiff_t ld, const float *b,
                 const int mr, const int nv, const enum k_type type)
{
#pragma GCC unroll 2
    for (int v = 0; v < nv; v += 2) {
        if (type == K_BF16)
            pair_times(acc, v, rows, ld, b + v * 8, mr);
        else
            times(acc, v, rows, ld, _mm256_loadu_ps(b + v * 8), _mm256_loadu_ps(b + v * 8 + 8), mr);
    }
}

/* The same of one head, against w columns and none behind; with `odd` not against the second of a
 * pair. */
static void step_edge(struct quad *acc, const float *rows, const float *b, int w, bool odd,
                      enum k_type type)
{
    for (int v = 0; v < VECS; v++) {
        const __m256 x = _mm256_maskload_ps(b + v * 8, lanes(w, v * 8));
        const __m256 first = type == K_BF16 ? even_ps(x) : x;
        acc->v[v] = _mm256_fmadd_ps(_mm256_broadcast_ss(rows), first, acc->v[v]);
        if (type == K_BF16 && !odd)
            acc->v[v] = _mm256_fmadd_ps(_mm256_broadcast_ss(rows + 1), odd_ps(x), acc->v[v]);
    }
}

/* Inputs of a step. */
INLINE int step_of(const enum k_type type)
{
    return type == K_BF16 ? 2 : 1;
}

/* ---- probabilities ---- */

/* Of one cell, the next, of which the scores are there. */
__attribute__((noinline)) static void cell_probs(struct wave *w, int cell)
{
    const struct attn_row *p = w->p;
    const float *m = w->m[chunk_of(p, cell)];
    const bool bf16 = p->type == K_BF16;
    for (int r = 0; r < p->n_row; r++) {
        const float *s = scores_at(p, cell, r);
        float *out = (float *)p->p + r * ATTN_WAVE_LD + cell * K_CELL;
        const __m256 max = _mm256_set1_ps(m[r]);
        __m256 x[VECS], l = w->l[r];
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++)
            x[v] = exp2_ps(_mm256_sub_ps(_mm256_loadu_ps(s + v * 8), max));
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++) {
            l = _mm256_add_ps(l, x[v]);
            _mm256_storeu_ps(out + v * 8, bf16 ? round_bf16_ps(x[v]) : x[v]);
        }
        w->l[r] = l;
    }
}

/* The chunk that ends is folded into the row's maxima and sums. */
static void chunk_fold(struct wave *w, int cell)
{
    const struct attn_row *p = w->p;
    float l[16];
    for (int r = 0; r < p->n_row; r++) {
        l[r] = sum_lanes(w->l[r]);
        w->l[r] = _mm256_setzero_ps();
    }
    attn_fold_avx2(p->n_row, p->m, p->l, w->m[chunk_of(p, cell)], l, w->keep, w->take);
}

/* ---- scores ---- */

/* Caps scores of a cell, and hides those of keys that are not seen. */
__attribute__((noinline)) static void scores_mend(const struct attn_row *p, float *s,
                                                  struct k_span seen)
{
    for (int i = 0; i < K_CELL; i += 8) {
        __m256 x = _mm256_loadu_ps(s + i);
        if (p->cap > 0) {
            x = tanh_ps(_mm256_mul_ps(x, _mm256_set1_ps(p->cap_scale)));
            x = _mm256_mul_ps(x, _mm256_set1_ps(p->cap));
        }
        x = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), x, seen_lanes(seen, i));
        _mm256_storeu_ps(s + i, x);
    }
}

/* A chunk, up to a cell, has its scores: their maxima. */
static void chunk_known(struct wave *w, int cell)
{
    const struct attn_row *p = w->p;
    for (int r = 0; r < p->n_row; r++) {
        __m256 most[VECS];
        for (int v = 0; v < VECS; v++)
            most[v] = _mm256_set1_ps(-INFINITY);
        for (int c = w->known; c <= cell; c++) {
            const float *s = scores_at(p, c, r);
#pragma GCC unroll 4
            for (int v = 0; v < VECS; v++)
                most[v] = _mm256_max_ps(_mm256_loadu_ps(s + v * 8), most[v]);
        }
        most[0] = _mm256_max_ps(most[0], most[1]);
        most[2] = _mm256_max_ps(most[2], most[3]);
        w->m[chunk_of(p, cell)][r] = max_lanes(_mm256_max_ps(most[0], most[2]));
    }
    w->known = cell + 1;
}

/* A panel's sums of a chunk into the outputs: o = o keep + sum take. */
static void values_end(const struct wave *w, int col, int n_col)
{
    const struct attn_row *p = w->p;
    for (int r = 0; r < p->n_row; r++) {
        const __m256 keep = _mm256_set1_ps(w->keep[r]), take = _mm256_set1_ps(w->take[r]);
        const struct quad *sum = w->sum[col / K_NR] + r;
        float *o = p->o + r * p->d + col;
        for (int v = 0; v * 8 < n_col; v++) {
            __m256 old = _mm256_mul_ps(load_ps(o, v * 8, n_col), keep);
            store_ps(o, v * 8, n_col, _mm256_fmadd_ps(sum->v[v], take, old));
        }
    }
}

/* ---- pieces ---- */

/* Goes on with the sums of mr heads, in bf16 by whole pairs. */
INLINE void run(struct quad *sum, const float *rows, const struct piece *p, const int mr,
                const int nv, const enum k_type type)
{
    const float *b = p->b;
    const char *ahead = p->ahead;
    const ptrdiff_t ld = p->ld;
    struct quad acc[HEADS];
#pragma GCC unroll 3
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            acc[r].v[v] = p->begins ? _mm256_setzero_ps() : sum[r].v[v];
    for (int i = p->n_in / step_of(type); i > 0; i--, rows += step_of(type), b += nv * 8) {
        _mm_prefetch(ahead, _MM_HINT_T0);
        if (nv > 2)
            _mm_prefetch(ahead + LINE, _MM_HINT_T0);
        ahead += nv * 32;
        step(acc, rows, ld, b, mr, nv, type);
    }
#pragma GCC unroll 3
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            sum[r].v[v] = acc[r].v[v];
}

/* Functions of their own: beside other code the sums would not all be in registers. */
typedef void run_fn(struct quad *sum, const float *rows, const struct piece *p);

#define RUN(mr, nv, type)                                                                          \
    __attribute__((noinline)) static void run_##type##_##mr##_##nv(                                \
        struct quad *sum, const float *rows, const struct piece *p)                                \
    {                                                                                              \
        run(sum, rows, p, mr, nv, type);                                                           \
    }
RUN(1, 2, K_BF16)
RUN(2, 2, K_BF16)
RUN(3, 2, K_BF16)
RUN(1, 4, K_BF16)
RUN(2, 4, K_BF16)
RUN(3, 4, K_BF16)
RUN(1, 2, K_F32)
RUN(2, 2, K_F32)
RUN(3, 2, K_F32)
RUN(1, 4, K_F32)
RUN(2, 4, K_F32)
RUN(3, 4, K_F32)

static run_fn *const run_of[2][2][HEADS] = {
    [K_F32] = {{run_K_F32_1_2, run_K_F32_2_2, run_K_F32_3_2},
               {run_K_F32_1_4, run_K_F32_2_4, run_K_F32_3_4}},
    [K_BF16] = {{run_K_BF16_1_2, run_K_BF16_2_2, run_K_BF16_3_2},
                {run_K_BF16_1_4, run_K_BF16_2_4, run_K_BF16_3_4}},
};

/* Inputs from i on where columns are of another number, and the last where it is the first of a
 * pair. */
static void run_edge(struct quad *sum, const struct piece *p, int i, int n_head, enum k_type type)
{
    if (i == 0 && p->begins)
        memset(sum, 0, (size_t)n_head * sizeof *sum);
    for (; i < p->n_in; i += step_of(type)) {
        const float *b = p->b + i / step_of(type) * p->w;
        for (int r = 0; r < n_head; r++)
            step_edge(sum + r, p->rows + r * p->ld + i, b, p->w, i + 1 == p->n_in, type);
    }
}

/* Goes on with the sums of all heads over a piece. */
static void piece_run(struct quad *sum, const struct piece *p, int n_head, enum k_type type)
{
    const bool is_even = p->w == K_NR || p->w == K_NR / 2;
    const int whole = is_even ? p->n_in / step_of(type) * step_of(type) : 0;
    for (int r = 0, n; whole && r < n_head; r += n) {
        n = heads_at_once(n_head - r);
        run_of[type][p->w == K_NR][n - 1](sum + r, p->rows + r * p->ld, p);
    }
    if (whole < p->n_in)
        run_edge(sum, p, whole, n_head, type);
}

/* ---- cells ---- */

/* What is asked for beside a piece that begins `at` bytes in a cell of a stream and has n: the
 * stream's next, for what is far ahead would wait for its turn in the first cache; but for a row of
 * a few cells, far ahead are others. */
static const char *ahead_of(const struct attn_row *p, const void *const *cells,
                            const ptrdiff_t *away, int cell, size_t at, size_t n)
{
    const char *here = (const char *)cells[cell] + at;
    if (p->n_cell < LEAD)
        return (const char *)((uintptr_t)here + (uintptr_t)away[cell]);
    if (at + n < k_kv_cell_bytes(p->type, p->d) || cell + 1 == p->n_cell)
        return here + n;
    return cells[cell + 1];
}

/* Inputs [i, i + PIECE) of the scores of a cell. */
static void scores_piece(struct wave *w, int cell, int i)
{
    const struct attn_row *p = w->p;
    const size_t each = k_type_bytes(p->type) * K_CELL, at = each * (size_t)i, n = each * PIECE;
    const struct piece k = {.b = (const float *)p->k[cell] + at / sizeof(float),
                            .rows = (const float *)p->q + i,
                            .ld = ROW_FLOATS,
                            .n_in = p->d - i < PIECE ? p->d - i : PIECE,
                            .w = K_CELL,
                            .begins = i == 0,
                            .ahead = ahead_of(p, p->k, p->k_away, cell, at, n)};
    piece_run(w->scores, &k, p->n_row, p->type);
}

/* The scores of a cell are whole. */
__attribute__((noinline)) static void scores_end(struct wave *w, int cell)
{
    const struct attn_row *p = w->p;
    struct k_span seen = attn_span_in(p->seen, cell * K_CELL, K_CELL);
    const bool is_whole = p->cap <= 0 && seen.hi - seen.lo == K_CELL;
    const __m256 factor = _mm256_set1_ps(p->factor);
    for (int r = 0; r < p->n_row; r++) {
        float *s = scores_at(p, cell, r);
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++)
            _mm256_storeu_ps(s + v * 8, _mm256_mul_ps(w->scores[r].v[v], factor));
        if (!is_whole)
            scores_mend(p, s, seen);
    }
    if (chunk_ends(p, cell))
        chunk_known(w, cell);
}

/* Columns [col, col + PIECE) of the values of a cell. */
static void values_piece(struct wave *w, int cell, int col)
{
    const struct attn_row *p = w->p;
    const int keys = (int)p->seen.hi - cell * K_CELL;
    const size_t each = k_type_bytes(p->type) * K_CELL, at = each * (size_t)col, n = each * PIECE;
    const struct piece v = {.b = (const float *)p->v[cell] + at / sizeof(float),
                            .rows = (const float *)p->p + cell * K_CELL,
                            .ld = ATTN_WAVE_LD,
                            .n_in = keys < K_CELL ? keys : K_CELL,
                            .w = p->d - col < PIECE ? p->d - col : PIECE,
                            .begins = cell == 0 || chunk_ends(p, cell - 1),
                            .ahead = ahead_of(p, p->v, p->v_away, cell, at, n)};
    piece_run(w->sum[col / PIECE], &v, p->n_row, p->type);
    if (chunk_ends(p, cell))
        values_end(w, col, v.w);
}

void attn_row_avx2(const struct attn_row *p)
{
    struct wave w;
    w.p = p;
    w.known = 0;
    for (int r = 0; r < p->n_row; r++)
        w.l[r] = _mm256_setzero_ps();
    for (int k = 0, v = -LEAD; v < p->n_cell; k++, v++) {
        if (v >= 0)
            cell_probs(&w, v);
        if (v >= 0 && chunk_ends(p, v))
            chunk_fold(&w, v);
        for (int i = 0; i < p->d; i += PIECE) {
            if (k < p->n_cell)
                scores_piece(&w, k, i);
            if (v >= 0)
                values_piece(&w, v, i);
        }
        if (k < p->n_cell)
            scores_end(&w, k);
    }
}
