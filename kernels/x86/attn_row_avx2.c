/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a sequence, which is to say the heads of a group, against the cells of a wave of
 * chunks, with AVX2: what decoding is made of. One core of Zen 3 reads 12 to 17 GB/s of one stream,
 * whatever is asked for ahead, and 20 to 24 GB/s of two or more that the hardware follows side by
 * side. So K runs LEAD cells ahead of V, and the two are read by turns, PIECE inputs of a K cell
 * and then one panel of a V cell. A cell's probabilities are made right before its values are read,
 * out of the first cache.
 *
 * What is done for a piece beside its products (attn_run_avx2.c) memory waits for, so that it is
 * little: plans, widths and distances are found once for the wave or the cell.
 *
 * An output's sum is the one of attn_product, input after input from zero, so the bits are too.
 *
 * Tried: asking 512 bytes to 4 KB ahead, into either cache, or for the first lines of the next page
 * (slower the more); 4 and 8 KB of K at a time; probabilities between pieces; loops of K and V
 * apart.
 */
#include <string.h>

#include "kernels/x86/attn_run_avx2.h"

enum {
    VECS = QUAD_VECS,
    PIECE = K_NR,         /* inputs of K, of V columns */
    LEAD = K_CHUNK_CELLS, /* a chunk's maxima are known before its first values are wanted */
};

_Static_assert((int)LEAD < (int)ATTN_RING, "scores wait until their values come");

/* What goes on from cell to cell. */
struct wave {
    const struct attn_row *p; /* borrowed */
    struct attn_plan plan[2]; /* of 16 columns, of 32 */
    struct quad *scores;      /* [ATTN_RING, n_row] */
    float *probs;             /* [n_row, ROW_FLOATS]: of a cell */
    int shift, each;          /* of inputs to steps; bytes of an input of a cell */
    int piece_bytes, last_at; /* of a cell's last piece: where it begins */
    int known;                /* cells of chunks whose maxima are known */
    __m256 l[ATTN_MR];        /* of the chunk that probabilities have come to */
    struct quad sum[K_HEAD_MAX / K_NR][ATTN_MR];
    float m[ATTN_WAVE][16];   /* of chunks */
    float keep[16], take[16]; /* of the chunk whose values are in `sum` */
};

/* A piece of a cell: n_in inputs, or keys, by w columns. */
struct piece {
    const float *b, *rows;
    const char *ahead; /* what memory is asked for meanwhile */
    int n_in, w;
};

static int chunk_of(const struct attn_row *p, int cell)
{
    return (cell + K_CHUNK_CELLS - p->n_first) / K_CHUNK_CELLS;
}

static bool chunk_ends(const struct attn_row *p, int cell)
{
    return cell + 1 == p->n_cell || chunk_of(p, cell + 1) != chunk_of(p, cell);
}

static struct quad *scores_at(const struct wave *w, int cell)
{
    return w->scores + (unsigned)cell % ATTN_RING * (unsigned)w->p->n_row;
}

/* ---- probabilities ---- */

/* Of one cell, the next, of which the scores are there. */
__attribute__((noinline)) static void cell_probs(struct wave *w, int cell)
{
    const struct quad *s = scores_at(w, cell);
    const float *m = w->m[chunk_of(w->p, cell)];
    const bool bf16 = w->p->type == K_BF16;
    for (int r = 0; r < w->p->n_row; r++) {
        float *out = w->probs + r * ROW_FLOATS;
        const __m256 max = _mm256_set1_ps(m[r]);
        __m256 x[VECS], l = w->l[r];
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++)
            x[v] = exp2_ps(_mm256_sub_ps(s[r].v[v], max));
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

/* Scales a head's scores of cells [lo, hi); their maximum. */
static float scores_scale(const struct wave *w, int r, int lo, int hi, float factor)
{
    const __m256 none = _mm256_set1_ps(-INFINITY), f = _mm256_set1_ps(factor);
    __m256 most[VECS] = {none, none, none, none};
    for (int c = lo; c < hi; c++) {
        __m256 *s = scores_at(w, c)[r].v;
#pragma GCC unroll 4
        for (int v = 0; v < VECS; v++) {
            s[v] = _mm256_mul_ps(s[v], f);
            most[v] = _mm256_max_ps(s[v], most[v]);
        }
    }
    most[0] = _mm256_max_ps(most[0], most[1]);
    most[2] = _mm256_max_ps(most[2], most[3]);
    return max_lanes(_mm256_max_ps(most[0], most[2]));
}

/* A chunk, up to a cell, has its sums: their scores and maxima. */
static void chunk_known(struct wave *w, int cell)
{
    const struct attn_row *p = w->p;
    const int lo = w->known, hi = cell + 1;
    const bool whole = p->cap <= 0 && p->seen.lo <= lo * K_CELL && p->seen.hi >= hi * K_CELL;
    float *m = w->m[chunk_of(p, cell)];
    for (int r = 0; r < p->n_row; r++) {
        m[r] = scores_scale(w, r, lo, hi, p->factor);
        for (int c = lo; !whole && c < hi; c++)
            scores_mend(p, (float *)(scores_at(w, c) + r),
                        attn_span_in(p->seen, c * K_CELL, K_CELL));
        if (!whole)
            m[r] = scores_scale(w, r, lo, hi, 1);
    }
    w->known = hi;
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

/* A step of one head against w columns and none behind; with `odd` not against the second of a
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

/* Inputs from i on where columns are of another number, and the last where it is the first of a
 * pair. */
__attribute__((noinline)) static void run_edge(const struct wave *w, struct quad *sum, bool begins,
                                               const struct piece *p, int i)
{
    const enum k_type type = w->p->type;
    if (i == 0 && begins)
        memset(sum, 0, (size_t)w->p->n_row * sizeof *sum);
    for (; i < p->n_in; i += step_of(type)) {
        const float *b = p->b + i / step_of(type) * p->w;
        for (int r = 0; r < w->p->n_row; r++)
            step_edge(sum + r, p->rows + r * ROW_FLOATS + i, b, p->w, i + 1 == p->n_in, type);
    }
}

/* Goes on with the sums of all heads over a piece. */
INLINE void piece_run(const struct wave *w, struct quad *sum, bool begins, struct piece p)
{
    static const struct quad zero[ATTN_MR];
    const struct quad *from = begins ? zero : sum;
    const struct attn_plan *plan = &w->plan[p.w == K_NR];
    const int n = p.w == K_NR || p.w == K_NR / 2 ? p.n_in >> w->shift : 0;
    const struct attn_group *g = plan->group, *end = n ? g + plan->n : g;
    for (; g < end; g++)
        g->run(sum[g->row].v + g->vec, from[g->row].v + g->vec, p.rows + g->row * ROW_FLOATS,
               p.b + g->vec * 8, p.ahead + g->vec * 32, n);
    if (n << w->shift < p.n_in)
        run_edge(w, sum, begins, &p, n << w->shift);
}

/* ---- cells ---- */

/* A cell that is read; what is asked for beside a piece of it is the stream's next, for what is far
 * ahead would wait for its turn in the first cache; but for a row of a few cells, far ahead are
 * others. */
struct here {
    const char *cell;
    ptrdiff_t next, last; /* bytes from a piece to what is asked for; from the last one */
};

INLINE struct here here_of(const struct wave *w, const void *const *cells, const ptrdiff_t *away,
                           int cell)
{
    struct here h = {cells[cell], w->piece_bytes, w->piece_bytes};
    if (w->p->widen_k) { /* the place is in the first cache, and what is ahead was asked for */
        const bool is_v = cells == w->p->v;
        char *to = w->p->wide + (is_v ? (size_t)(K_CELL * w->p->d) * 2 : 0);
        const char *from = h.cell;
        (is_v ? w->p->widen_v : w->p->widen_k)(
            to, from, w->p->d, (const char *)((uintptr_t)from + (uintptr_t)away[cell]));
        return (struct here){to, 0, 0};
    }
    if (w->p->n_cell < LEAD)
        h.next = h.last = away[cell];
    else if (cell + 1 < w->p->n_cell)
        h.last = (ptrdiff_t)((uintptr_t)cells[cell + 1] - (uintptr_t)h.cell) - w->last_at;
    return h;
}

/* The piece of inputs, or columns, from i on. */
INLINE struct piece piece_at(const struct wave *w, const struct here *h, int i)
{
    const char *b = h->cell + i * w->each;
    const ptrdiff_t away = i + PIECE < w->p->d ? h->next : h->last;
    return (struct piece){.b = (const float *)b,
                          .ahead = (const char *)((uintptr_t)b + (uintptr_t)away)};
}

/* Inputs [i, i + PIECE) of the scores of a cell. */
INLINE void scores_piece(const struct wave *w, const struct here *h, struct quad *sum, int i)
{
    const struct attn_row *p = w->p;
    struct piece k = piece_at(w, h, i);
    k.rows = (const float *)p->q + i;
    k.n_in = p->d - i < PIECE ? p->d - i : PIECE;
    k.w = K_CELL;
    piece_run(w, sum, i == 0, k);
}

/* Columns [col, col + PIECE) of the values of n_key keys. */
INLINE void values_piece(struct wave *w, const struct here *h, int n_key, bool begins, int col)
{
    struct piece v = piece_at(w, h, col);
    v.rows = w->probs;
    v.n_in = n_key;
    v.w = w->p->d - col < PIECE ? w->p->d - col : PIECE;
    piece_run(w, w->sum[col / PIECE], begins, v);
}

static void chunk_end(const struct wave *w)
{
    const int d = w->p->d;
    for (int col = 0; col < d; col += PIECE)
        values_end(w, col, d - col < PIECE ? d - col : PIECE);
}

/* The scores of cell k beside the values of cell v, of those that there are. */
static void cells_run(struct wave *w, int k, int v)
{
    const struct attn_row *p = w->p;
    const bool has_k = k < p->n_cell, has_v = v >= 0;
    const struct here k_here = has_k ? here_of(w, p->k, p->k_away, k) : (struct here){0};
    const struct here v_here = has_v ? here_of(w, p->v, p->v_away, v) : (struct here){0};
    const bool begins = v <= 0 || chunk_ends(p, v - 1);
    const int keys = (int)p->seen.hi - v * K_CELL, n_key = keys < K_CELL ? keys : K_CELL;
    struct quad *sum = scores_at(w, k);
    for (int i = 0; i < p->d; i += PIECE) {
        if (has_k)
            scores_piece(w, &k_here, sum, i);
        if (has_v)
            values_piece(w, &v_here, n_key, begins, i);
    }
}

static void wave_init(struct wave *w, const struct attn_row *p)
{
    const int each = (int)k_type_bytes(p->type) * K_CELL;
    w->p = p;
    w->plan[0] = attn_plan_avx2(p->type, p->n_row, K_NR / 2);
    w->plan[1] = attn_plan_avx2(p->type, p->n_row, K_NR);
    w->shift = p->type == K_BF16;
    w->each = each;
    w->piece_bytes = each * PIECE;
    w->last_at = (p->d - 1) / PIECE * PIECE * each;
    w->scores = (struct quad *)p->s;
    w->probs = p->p;
    w->known = 0;
    for (int r = 0; r < p->n_row; r++)
        w->l[r] = _mm256_setzero_ps();
}

void attn_row_avx2(const struct attn_row *p)
{
    struct wave w;
    wave_init(&w, p);
    for (int k = 0, v = -LEAD; v < p->n_cell; k++, v++) {
        if (v >= 0)
            cell_probs(&w, v);
        cells_run(&w, k, v);
        if (v >= 0 && chunk_ends(p, v)) {
            chunk_fold(&w, v);
            chunk_end(&w);
        }
        if (k < p->n_cell && chunk_ends(p, k))
            chunk_known(&w, k);
    }
}
