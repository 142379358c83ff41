/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a sequence, which is to say the heads of a group, against the cells of a wave of
 * chunks: what decoding is made of. Cells are read from their first byte to their last, one after
 * the other, at an even pace: two streams read by turns, of two cells or of two panels of one, get
 * a fifth less of the memory, and so does one that pauses. So the sums of values wait in the first
 * cache from cell to cell, and probabilities are made between the steps of products: those of a
 * chunk while the scores of the next one are taken, as soon as its maxima are known and before its
 * scores have left the first cache. Only where one or two heads alone would wait for their products
 * are scores taken of several cells at once.
 *
 * An output's sum is the one of attn_product, input after input from zero, so the bits are too.
 *
 * Tried: the factors of products read out of memory in each product (5 to 15% slower); maxima and
 * sums put off to the middle of the next cell (5 to 20%); asking into the first cache, or 8 to 16
 * KB ahead, with seven heads to a key (as fast or slower); K and V by turns in one stream.
 */
#include <limits.h>
#include <string.h>

#include "kernels/x86/attn_avx512.h"

enum { CELLS_MAX = 4, LINE = 64, STEP = 2 * LINE };

/* Inputs of a step, which takes 128 bytes of a cell: a bf16 product has two. */
INLINE int step_of(const enum k_type type)
{
    return type == K_BF16 ? 2 : 1;
}

/* Asks for what n steps read. */
INLINE void fetch(const char *p, const int n, enum attn_ask ask)
{
    if (ask == ATTN_ASK_NONE)
        return;
#pragma GCC unroll 4
    for (int i = 0; i < n; i++, p += STEP) {
        _mm_prefetch(p, _MM_HINT_T1);
        if (ask == ATTN_ASK_ALL)
            _mm_prefetch(p + LINE, _MM_HINT_T1);
    }
}

INLINE __m512 times(__m512 sum, __m512i x, __m512i y, const enum k_type type)
{
    if (type == K_BF16)
        return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(y), sum);
}

/* A line of a cell, in a register, where it is not emulated: the compiler would load it again
 * for each of its products. */
INLINE __m512i line_of(const char *p)
{
    __m512i x = _mm512_loadu_si512(p);
#ifndef TANDEM_X86_EMU
    __asm__("" : "+v"(x));
#endif
    return x;
}

/* What a step takes of row r, in all lanes. */
INLINE __m512i input_of(const char *rows, int r, const size_t row_bytes)
{
    int32_t x;
    memcpy(&x, rows + (size_t)r * row_bytes, sizeof x);
    return _mm512_set1_epi32(x);
}

/* From a left operand of probabilities to the next. */
INLINE size_t wave_bytes(const enum k_type type)
{
    return ATTN_WAVE_LD * 4 / (size_t)step_of(type);
}

/* What goes on from cell to cell. Cells [0, made) have probabilities, [made, known) could have,
 * since the maxima of their chunks are known. */
struct wave {
    const struct attn_row *p; /* borrowed */
    int known, made;
    struct pair l[ATTN_MR]; /* of the chunk that probabilities have come to */
    struct pair sum[K_HEAD_MAX / K_NR][ATTN_MR];
    float m[ATTN_WAVE][16], l_of[ATTN_WAVE][16]; /* of chunks */
    float keep[16], take[16];                    /* of the chunk whose values are in `sum` */
};

static int chunk_of(const struct attn_row *p, int cell)
{
    return (cell + K_CHUNK_CELLS - p->n_first) / K_CHUNK_CELLS;
}

static bool chunk_ends(const struct attn_row *p, int cell)
{
    return cell + 1 == p->n_cell || chunk_of(p, cell + 1) != chunk_of(p, cell);
}

/* A cell as it is read: of codes it is made wide first, into the one of two places that is K's or
 * V's, and what is asked for is asked for there. */
INLINE const char *cell_of(const struct attn_row *p, const void *const *cells,
                           const ptrdiff_t *away, int cell, const bool is_v)
{
    const char *from = cells[cell],
               *ahead = (const char *)((uintptr_t)from + (uintptr_t)away[cell]);
    if (!p->widen_k)
        return from;
    char *to = p->wide + (is_v ? (size_t)(K_CELL * p->d) * 2 : 0);
    (is_v ? p->widen_v : p->widen_k)(to, from, p->d, ahead);
    return to;
}

static float *scores_at(const struct attn_row *p, int cell, int r)
{
    return p->s + r * ATTN_RING_LD + cell % ATTN_RING * K_CELL;
}

/* ---- probabilities ---- */

/* Probabilities that are made between the steps of a product: work that does not read would let
 * memory rest. */
struct pace {
    const float *s, *m; /* of the next row */
    char *out;
    struct pair *l;
    int left;
    int next, every; /* inputs of the product */
};

/* Of one cell, where there is one to be made, over n_in inputs. */
INLINE struct pace pace_open(struct wave *w, int n_in, const enum k_type type)
{
    const struct attn_row *p = w->p;
    if (w->made == w->known)
        return (struct pace){.next = INT_MAX};
    return (struct pace){
        .s = scores_at(p, w->made, 0),
        .m = w->m[chunk_of(p, w->made)],
        .out = (char *)p->p + (size_t)w->made * (K_CELL * 4 / step_of(type)),
        .l = w->l,
        .left = p->n_row,
        .every = n_in / p->n_row,
    };
}

INLINE void pace_step(struct pace *a, const enum k_type type)
{
    cell_probs(a->s, _mm512_set1_ps(*a->m++), a->out, a->l++, type);
    a->s += ATTN_RING_LD;
    a->out += wave_bytes(type);
    a->next = --a->left ? a->next + a->every : INT_MAX;
}

/* The sums of a chunk are whole. */
__attribute__((noinline)) static void chunk_end(struct wave *w, int chunk)
{
    for (int r = 0; r < w->p->n_row; r++) {
        w->l_of[chunk][r] = pair_sum(w->l + r);
        w->l[r].v[0] = w->l[r].v[1] = _mm512_setzero_ps();
    }
}

INLINE void pace_close(struct wave *w, struct pace *a, const enum k_type type)
{
    while (a->left)
        pace_step(a, type);
    if (w->made == w->known)
        return;
    if (chunk_ends(w->p, w->made))
        chunk_end(w, chunk_of(w->p, w->made));
    w->made++;
}

/* ---- scores ---- */

/* Caps scores of a cell, and hides those of keys that are not seen. */
__attribute__((noinline)) static void scores_mend(const struct attn_row *p, float *s,
                                                  struct k_span seen)
{
    for (int i = 0; i < K_CELL; i += 16) {
        __m512 x = _mm512_loadu_ps(s + i);
        if (p->cap > 0) {
            x = tanh_ps(_mm512_mul_ps(x, _mm512_set1_ps(p->cap_scale)));
            x = _mm512_mul_ps(x, _mm512_set1_ps(p->cap));
        }
        x = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), seen_lanes(seen, i), x);
        _mm512_storeu_ps(s + i, x);
    }
}

/* A chunk, up to a cell, has its scores: their maxima. */
INLINE void chunk_known(struct wave *w, int cell)
{
    const struct attn_row *p = w->p;
    for (int r = 0; r < p->n_row; r++) {
        __m512 most[2] = {_mm512_set1_ps(-INFINITY), _mm512_set1_ps(-INFINITY)};
        for (int c = w->known; c <= cell; c++) {
            const float *s = scores_at(p, c, r);
            most[0] = _mm512_max_ps(_mm512_loadu_ps(s), most[0]);
            most[1] = _mm512_max_ps(_mm512_loadu_ps(s + 16), most[1]);
        }
        w->m[chunk_of(p, cell)][r] = _mm512_reduce_max_ps(_mm512_max_ps(most[0], most[1]));
    }
    w->known = cell + 1;
}

/* A cell has its scores. */
INLINE void scores_end(struct wave *w, int cell)
{
    const struct attn_row *p = w->p;
    struct k_span seen = attn_span_in(p->seen, cell * K_CELL, K_CELL);
    const bool is_whole = p->cap <= 0 && seen.hi - seen.lo == K_CELL;
    for (int r = 0; !is_whole && r < p->n_row; r++)
        scores_mend(p, scores_at(p, cell, r), seen);
    if (chunk_ends(p, cell))
        chunk_known(w, cell);
}

/* Scores of mr heads and nc cells from `cell` on. */
INLINE void scores(struct wave *w, int cell, const int mr, const int nc, const enum k_type type)
{
    const struct attn_row *p = w->p;
    struct pair acc[ATTN_MR][CELLS_MAX];
    struct pace pace = pace_open(w, p->d, type);
    const char *rows = p->q, *b[CELLS_MAX];
    const enum attn_ask ask = p->ask;
    const size_t row_bytes = type == K_BF16 ? ROW_BF16 : ROW_F32;
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int c = 0; c < nc; c++)
            acc[r][c].v[0] = acc[r][c].v[1] = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int c = 0; c < nc; c++)
        b[c] = nc == 1 ? cell_of(p, p->k, p->k_away, cell, false) : p->k[cell + c];
    for (int part = 0; part < nc; part++) { /* of the steps: each asks for one cell */
        const char *ahead =
            (const char *)((uintptr_t)p->k[cell + part] + (uintptr_t)p->k_away[cell + part]);
        const int from = p->d * part / nc / 2 * 2, to = p->d * (part + 1) / nc / 2 * 2;
        for (int i = from; i < (part == nc - 1 ? p->d : to); i += step_of(type), rows += 4) {
            if (i >= pace.next)
                pace_step(&pace, type);
            fetch(ahead, nc, ask);
            ahead += nc * STEP;
#pragma GCC unroll 4
            for (int c = 0; c < nc; c++, b[c - 1] += STEP) {
                __m512i lo = line_of(b[c]), hi = line_of(b[c] + LINE);
#pragma GCC unroll 12
                for (int r = 0; r < mr; r++) {
                    __m512i x = input_of(rows, r, row_bytes);
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
            float *to = scores_at(p, cell + c, r);
            _mm512_storeu_ps(to, _mm512_mul_ps(acc[r][c].v[0], factor));
            _mm512_storeu_ps(to + 16, _mm512_mul_ps(acc[r][c].v[1], factor));
        }
    }
    pace_close(w, &pace, type);
    for (int c = 1; c < nc; c++) {
        pace = pace_open(w, 0, type);
        pace_close(w, &pace, type);
    }
    for (int c = 0; c < nc; c++)
        scores_end(w, cell + c);
}

/* A product takes six cycles and one begins in each: six sums at least. But one cell, 128 bytes in
 * six cycles, where it is left to the hardware to bring it, which follows one stream better than
 * four. */
INLINE void scores_all(struct wave *w, const int mr, const enum k_type type)
{
    const struct attn_row *p = w->p;
    const int nc = mr == 1 ? 4 : mr == 2 ? 2 : 1, n_many = p->ask == ATTN_ASK_NONE ? 0 : p->n_cell;
    int c = 0;
    for (; c + nc <= n_many; c += nc)
        scores(w, c, mr, nc, type);
    for (; c < p->n_cell; c++)
        scores(w, c, mr, 1, type);
}

/* ---- values ---- */

/* One panel of a cell: w columns of the values of n_key keys, from b on. */
struct panel {
    const char *b, *rows;
    ptrdiff_t away;
    int col, w, n_key;
    bool begins, ends; /* the chunk */
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
        __m512i x = input_of(rows, r, wave_bytes(type));
        acc[r].v[0] = times(acc[r].v[0], x, lo, type);
        acc[r].v[1] = times(acc[r].v[1], x, hi, type);
    }
}

/* o = o keep + sum take for 16 columns of a head. */
INLINE void values_fold(float *o, int d, int col, __m512 sum, float keep, float take)
{
    __m512 old = _mm512_maskz_loadu_ps(lanes(d - col, 0), o + col);
    old = _mm512_mul_ps(old, _mm512_set1_ps(keep));
    store_ps(o, col, d, _mm512_fmadd_ps(sum, _mm512_set1_ps(take), old));
}

/* A panel's sums of a chunk into the outputs. */
INLINE void values_end(const struct wave *w, const struct panel *b, const struct pair *sum,
                       const int mr)
{
    const struct attn_row *p = w->p;
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++) {
        float *o = p->o + r * p->d;
        if (r < p->n_row)
            values_fold(o, p->d, b->col, sum[r].v[0], w->keep[r], w->take[r]);
        if (r < p->n_row && b->w > 16)
            values_fold(o, p->d, b->col + 16, sum[r].v[1], w->keep[r], w->take[r]);
    }
}

/* Goes on with the sums of mr heads over a panel. */
INLINE void values_panel(struct wave *w, const struct panel *p, struct pace *pace, const int mr,
                         const enum k_type type)
{
    const __mmask16 in[2] = {lanes(p->w, 0), lanes(p->w, 1)};
    const int step = step_of(type), whole = p->n_key / step * step;
    const char *b = p->b, *rows = p->rows;
    const char *ahead = (const char *)((uintptr_t)b + (uintptr_t)p->away);
    const enum attn_ask ask = w->p->ask;
    struct pair acc[ATTN_MR], *sum = w->sum[p->col / K_NR];
    int i = 0;
#pragma GCC unroll 12
    for (int r = 0; r < mr; r++)
        acc[r] = sum[r];
    if (p->begins) {
#pragma GCC unroll 12
        for (int r = 0; r < mr; r++)
            acc[r].v[0] = acc[r].v[1] = _mm512_setzero_ps();
    }
    for (; i < whole; i += step, rows += 4, b += p->w * 4, ahead += p->w * 4) {
        if (p->col + i >= pace->next)
            pace_step(pace, type);
        fetch(ahead, 1, ask);
        values_step(acc, rows, b, in, false, mr, type);
    }
    if (i < p->n_key)
        values_step(acc, rows, b, in, true, mr, type);
    for (; i < K_CELL; i += step, ahead += p->w * 4)
        fetch(ahead, 1, ask);
    if (p->ends) {
        values_end(w, p, acc, mr);
    } else {
#pragma GCC unroll 12
        for (int r = 0; r < mr; r++)
            sum[r] = acc[r];
    }
}

/* Takes a cell's values. */
INLINE void values(struct wave *w, int cell, const int mr, const enum k_type type)
{
    const struct attn_row *p = w->p;
    const int keys = (int)p->seen.hi - cell * K_CELL;
    if (w->made <= cell) {
        struct pace now = pace_open(w, 0, type);
        pace_close(w, &now, type);
    }
    struct pace pace = pace_open(w, p->d, type);
    struct panel panel = {.b = cell_of(p, p->v, p->v_away, cell, true),
                          .rows = (const char *)p->p + (size_t)cell * (K_CELL * 4 / step_of(type)),
                          .away = p->v_away[cell],
                          .n_key = keys < K_CELL ? keys : K_CELL,
                          .begins = cell == 0 || chunk_ends(p, cell - 1),
                          .ends = chunk_ends(p, cell)};
    if (panel.ends) {
        int chunk = chunk_of(p, cell);
        attn_fold_avx512(p->n_row, p->m, p->l, w->m[chunk], w->l_of[chunk], w->keep, w->take);
    }
    for (; panel.col < p->d; panel.col += K_NR, panel.b += K_NR * K_CELL * 4 / step_of(type)) {
        panel.w = p->d - panel.col < K_NR ? p->d - panel.col : K_NR;
        values_panel(w, &panel, &pace, mr, type);
    }
    pace_close(w, &pace, type);
}

INLINE void row_of(const struct attn_row *p, const int mr, const enum k_type type)
{
    struct wave w;
    w.p = p;
    w.known = w.made = 0;
    for (int r = 0; r < mr; r++)
        w.l[r].v[0] = w.l[r].v[1] = _mm512_setzero_ps();
    scores_all(&w, mr, type);
    for (int c = 0; c < p->n_cell; c++)
        values(&w, c, mr, type);
}

/* A function for each: in one they would be compiled in the square of their number. */
#define ROW(mr, type)                                                                              \
    __attribute__((noinline)) static void row_##mr##_##type(const struct attn_row *p)              \
    {                                                                                              \
        row_of(p, mr, K_##type);                                                                   \
    }
/* clang-format off */
#define ROWS(type)                                                                                 \
    ROW(1, type) ROW(2, type) ROW(3, type) ROW(4, type)                                            \
    ROW(6, type) ROW(7, type) ROW(8, type) ROW(12, type)
/* clang-format on */
ROWS(F32)
ROWS(BF16)

/* The number of heads is rounded up to one there is code for: what lies behind the last one is
 * computed with and not stored. */
#define TABLE(type)                                                                                \
    {                                                                                              \
        [1] = row_1_##type, row_2_##type, row_3_##type, row_4_##type, row_6_##type, row_6_##type,  \
        row_7_##type, row_8_##type, row_12_##type, row_12_##type, row_12_##type, row_12_##type     \
    }

void attn_row_avx512(const struct attn_row *p)
{
    static void (*const f32[ATTN_MR + 1])(const struct attn_row *) = TABLE(F32);
    static void (*const bf16[ATTN_MR + 1])(const struct attn_row *) = TABLE(BF16);
    (p->type == K_BF16 ? bf16 : f32)[p->n_row](p);
}
