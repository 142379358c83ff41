/* SPDX-License-Identifier: Apache-2.0
 *
 * dk, dv and parts of dq of a tile of keys, with AVX2. Everything is f32 here, rounded where cells
 * are bf16: K and V become f32 once for a tile, in each layout that is asked for, q and dy once for
 * a step. A step of queries makes all its p and ds first, a row of them for each query; the sums of
 * a key read them down the columns, since a factor can be read from anywhere: nothing is turned
 * over. A product keeps 6 rows by 16 columns in 12 registers.
 *
 * Orders of sums are those of attn_bwd.c, and so are the bits: a step's sum over its inputs in
 * order, from zero, is added to what there is. What a block's rows do not see is left out at either
 * end; within, it is zero.
 *
 * Tried: blocks of twelve rows to a panel, and asking for rows of q and dy ahead: nothing.
 */
#include <string.h>

#include "kernels/x86/attn_avx2.h"
#include "kernels/x86/attn_bwd.h"

enum {
    KEYS = K_ATTN_KEYS,
    STEP = ATTN_STEP,
    PAIR_LD = KEYS + 16, /* from the probabilities of a query to the next: 9 cache lines */
    PIECE = 16,          /* columns of a product */
    SHARED_TAKEN = 4 * ((K_CELL + 2 * STEP) * ROW_FLOATS + 2 * STEP * PAIR_LD + 2 * STEP) +
                   2 * K_CELL * K_HEAD_MAX,
    TAKEN = SHARED_TAKEN + 4 * 4 * KEYS * K_HEAD_MAX,
    PART_TAKEN = SHARED_TAKEN + 4 * (4 * KEYS * ATTN_PART_HEAD + KEYS * ROW_FLOATS)
};

_Static_assert(TAKEN + 64 * 12 <= K_SCRATCH_BYTES, "a tile of keys fits the scratch");
_Static_assert(PART_TAKEN + 64 * 12 <= K_SCRATCH_BYTES, "and so it does with parts");

struct tile {
    const struct attn_keys *of; /* borrowed */
    const struct k_attn_bwd *a; /* borrowed */
    enum k_type type;           /* of rows */
    int d, ld;                  /* ld: d rounded up to whole pieces */
    int64_t key0;
    int n_key;                   /* from key0 to the last */
    float *k, *v;                /* [cells][d][K_CELL] */
    float *k_rows;               /* [cells * K_CELL][ROW_FLOATS], with parts */
    float *dk, *dv;              /* [KEYS][ld] */
    float *temp;                 /* [K_CELL][ROW_FLOATS] */
    void *wide;                  /* a cell of bf16, where they are of codes */
    float *q, *dy;               /* [STEP][ROW_FLOATS] of a step */
    float *p, *ds;               /* [STEP][PAIR_LD] */
    float *lse, *delta;          /* [STEP] */
    struct k_span seen_by[KEYS]; /* rows of the sequence that see each key */
    struct k_span seen[STEP];    /* keys that a step's rows see */
};

/* ---- products ---- */

/* c = factor a b, or that added to c. Rows of a are ld_a apart; turned over, inputs are. */
struct mul {
    const float *a, *b;
    float *c;
    ptrdiff_t ld_a, ld_b, ld_c;
    int n_row, n_col, n_in; /* n_col: b has whole pieces all the same */
    float factor;
    bool adds;
};

INLINE void sums_store(const struct mul *m, float *c, int w, const __m256 *acc, const int mr)
{
    const __m256 factor = _mm256_set1_ps(m->factor);
#pragma GCC unroll 6
    for (int r = 0; r < mr; r++, c += m->ld_c) {
        if (r >= m->n_row)
            break;
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            __m256 x = _mm256_mul_ps(acc[r * 2 + v], factor);
            if (m->adds)
                x = _mm256_fmadd_ps(acc[r * 2 + v], factor, load_ps(c, v * 8, w));
            store_ps(c, v * 8, w, x);
        }
    }
}

/* mr rows by one piece. */
INLINE void sums(const struct mul *m, int col, const int mr, const bool turned)
{
    const ptrdiff_t row = turned ? 1 : m->ld_a, in = turned ? m->ld_a : 1, ld_b = m->ld_b;
    const float *a = m->a, *a3 = a + 3 * row, *b = m->b + col;
    __m256 acc[12];
#pragma GCC unroll 12
    for (int i = 0; i < 2 * mr; i++)
        acc[i] = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int n = m->n_in; n > 0; n--, a += in, a3 += in, b += ld_b) {
        __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
        for (int r = 0; r < mr; r++) {
            __m256 x = _mm256_broadcast_ss(r < 3 ? a + r * row : a3 + (r - 3) * row);
            acc[r * 2] = _mm256_fmadd_ps(x, b0, acc[r * 2]);
            acc[r * 2 + 1] = _mm256_fmadd_ps(x, b1, acc[r * 2 + 1]);
        }
    }
    sums_store(m, m->c + col, m->n_col - col, acc, mr);
}

/* Functions of their own: beside other code the sums would not all be in registers. */
__attribute__((noinline)) static void sums_six(const struct mul *m, int col)
{
    sums(m, col, 6, false);
}

__attribute__((noinline)) static void sums_four(const struct mul *m, int col)
{
    sums(m, col, 4, false);
}

__attribute__((noinline)) static void sums_six_turned(const struct mul *m, int col)
{
    sums(m, col, 6, true);
}

__attribute__((noinline)) static void sums_four_turned(const struct mul *m, int col)
{
    sums(m, col, 4, true);
}

/* Rows of the next block, where `left` are: those behind the last are computed with and not stored.
 */
static int rows_next(int left)
{
    return left <= 4 || left == 8 ? 4 : 6;
}

/* One block of rows. */
static void mul_block(const struct mul *m, bool turned)
{
    for (int col = 0; col < m->n_col; col += PIECE) {
        if (m->n_row > 4)
            (turned ? sums_six_turned : sums_six)(m, col);
        else
            (turned ? sums_four_turned : sums_four)(m, col);
    }
}

/* ---- the tile ---- */

static void tile_take(struct tile *t, struct attn_scratch *s)
{
    size_t cells = (size_t)KEYS * (size_t)t->d * sizeof(float);
    size_t sums = (size_t)KEYS * (size_t)t->ld * sizeof(float), row = ROW_FLOATS * sizeof(float);
    t->k = attn_take(s, cells);
    t->v = attn_take(s, cells);
    t->dk = attn_take(s, sums);
    t->dv = attn_take(s, sums);
    t->temp = attn_take(s, K_CELL * row);
    t->wide = attn_take(s, k_kv_cell_bytes(K_BF16, t->d));
    t->q = attn_take(s, STEP * row);
    t->dy = attn_take(s, STEP * row);
    t->p = attn_take(s, STEP * PAIR_LD * sizeof(float));
    t->ds = attn_take(s, STEP * PAIR_LD * sizeof(float));
    t->lse = attn_take(s, STEP * sizeof(float));
    t->delta = attn_take(s, STEP * sizeof(float));
    if (attn_has_parts(t->a))
        t->k_rows = attn_take(s, KEYS * row);
    memset(t->dk, 0, sums);
    memset(t->dv, 0, sums);
}

/* Keys and values as f32. Slots behind the last key hold what they hold: nobody looks there. */
static void tile_cells(struct tile *t)
{
    static const struct attn_ops by = {.widen_k = attn_widen_k_avx2, .widen_v = attn_widen_v_avx2};
    const struct k_attn *f = &t->a->fwd;
    const struct k_attn_unit *u = &t->of->u;
    for (int i = 0; i < t->n_key; i += K_CELL) {
        size_t at = attn_cell_at(&f->batch, &f->cache, u->seq, u->head, t->key0 + i);
        float *rows = t->k_rows ? t->k_rows + i * ROW_FLOATS : t->temp;
        const void *k = attn_wide(&by, &f->cache, (const char *)f->cache.k + at, false, t->wide);
        attn_rows_of_k_avx2(t->type, rows, k, t->d);
        attn_k_of_rows_avx2(K_F32, t->k + i * t->d, rows, t->d);
        const void *v = attn_wide(&by, &f->cache, (const char *)f->cache.v + at, true, t->wide);
        attn_rows_of_v_avx2(t->type, t->temp, v, t->d);
        attn_k_of_rows_avx2(K_F32, t->v + i * t->d, t->temp, t->d);
    }
}

static void tile_open(struct tile *t, const struct attn_keys *of, void *scratch)
{
    const struct k_attn *f = &of->a->fwd;
    *t = (struct tile){.of = of, .a = of->a, .d = f->cache.d_head};
    t->type = attn_rows_type(f->cache.type);
    t->ld = (t->d + PIECE - 1) / PIECE * PIECE;
    t->key0 = of->u.key_lo / K_CELL * K_CELL;
    t->n_key = (int)(of->u.key_hi - t->key0);
    tile_take(t, &(struct attn_scratch){scratch});
    tile_cells(t);
    for (int i = 0; i < t->n_key; i++)
        t->seen_by[i] = attn_seen_by(f, of->u.seq, t->key0 + i);
}

/* ---- a step ---- */

struct step {
    int64_t head, row; /* of the sequence: the first */
    int n;
};

static void step_open(struct tile *t, const struct step *s)
{
    const struct k_attn *f = &t->a->fwd;
    int64_t tok = f->batch.q_start[t->of->u.seq] + s->row;
    for (int i = 0; i < s->n; i++, tok++) {
        const float *dy = attn_row_of(t->a->dy, t->a->ld_dy, tok, s->head, t->d);
        t->lse[i] = f->lse[tok * f->n_head + s->head] * attn_log2e;
        t->delta[i] = attn_dot_avx2(dy, attn_row_of(f->y, f->ld_y, tok, s->head, t->d), t->d);
        attn_pack_row_avx2(t->type, t->dy + i * ROW_FLOATS, dy, t->d);
        attn_pack_row_avx2(t->type, t->q + i * ROW_FLOATS,
                           attn_row_of(f->q, f->ld_q, tok, s->head, t->d), t->d);
        t->seen[i] = attn_seen(f, t->of->u.seq, s->row + i);
    }
}

/* Rows of the step that see some of the keys [i, i + n). */
static struct k_span step_rows(const struct tile *t, const struct step *s, int i, int n)
{
    int last = i + n < t->n_key ? i + n : t->n_key;
    struct k_span some = {t->seen_by[i].lo, t->seen_by[last - 1].hi};
    return attn_span_in(some, s->row, s->n);
}

/* Scores of the step's rows, or dy v, for the pieces of keys that they see. */
static void step_scores(const struct tile *t, const struct step *s, const float *rows,
                        const float *cells, float *to, float factor)
{
    for (int i = 0; i < t->n_key; i += PIECE) {
        struct k_span in = step_rows(t, s, i, PIECE);
        struct mul m = {.b = cells + i / K_CELL * K_CELL * t->d + i % K_CELL,
                        .ld_a = ROW_FLOATS,
                        .ld_b = K_CELL,
                        .ld_c = PAIR_LD,
                        .n_col = PIECE,
                        .n_in = t->d,
                        .factor = factor};
        for (int r = (int)in.lo, n; r < in.hi; r += n) {
            n = rows_next((int)in.hi - r);
            m.n_row = in.hi - r < n ? (int)in.hi - r : n;
            m.a = rows + r * ROW_FLOATS;
            m.c = to + r * PAIR_LD + i;
            mul_block(&m, false);
        }
    }
}

/* p and ds of one query, in place, eight pairs of which `in` see each other. */
INLINE void pairs_grad(const struct attn_grad *g, float *p, float *ds, __m256 lse, __m256 delta,
                       __m256 in, const bool bf16)
{
    __m256 x, y;
    attn_grad_vec(g, _mm256_loadu_ps(p), _mm256_loadu_ps(ds), lse, delta, in, &x, &y);
    _mm256_storeu_ps(p, bf16 ? round_bf16_ps(x) : x);
    _mm256_storeu_ps(ds, bf16 ? round_bf16_ps(y) : y);
}

INLINE void row_grad(const struct tile *t, const struct attn_grad *g, int r, const bool bf16)
{
    const __m256 lse = _mm256_set1_ps(t->lse[r]), delta = _mm256_set1_ps(t->delta[r]);
    const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1)), none = _mm256_setzero_ps();
    const struct k_span seen = attn_span_in(t->seen[r], t->key0, t->n_key);
    float *p = t->p + r * PAIR_LD, *ds = t->ds + r * PAIR_LD;
    for (int i = 0; i < t->n_key; i += 8) {
        if (i >= seen.lo && i + 8 <= seen.hi) {
            pairs_grad(g, p + i, ds + i, lse, delta, all, bf16);
        } else if (i < seen.hi && i + 8 > seen.lo) {
            pairs_grad(g, p + i, ds + i, lse, delta, seen_lanes(seen, i), bf16);
        } else {
            _mm256_storeu_ps(p + i, none);
            _mm256_storeu_ps(ds + i, none);
        }
    }
}

static void step_grad(const struct tile *t, const struct step *s)
{
    const struct k_attn *f = &t->a->fwd;
    struct attn_grad g = {.cap = f->softcap * attn_log2e,
                          .cap_scale = f->softcap > 0 ? 1 / f->softcap : 0};
    for (int r = 0; r < s->n; r++) {
        if (t->type == K_BF16)
            row_grad(t, &g, r, true);
        else
            row_grad(t, &g, r, false);
    }
}

/* Rows [lo, hi) of a step, of n parts, some time before it. */
static void step_fetch(const struct tile *t, const struct step *s, int lo, int hi, int n)
{
    int64_t tok = t->a->fwd.batch.q_start[t->of->u.seq] + s->row;
    for (int i = lo * s->n / n; i < hi * s->n / n; i++)
        attn_query_fetch(t->a, tok + i, s->head);
}

/* to[key] += factor (pairs turned over) rows, for the tile's keys. Meanwhile `next` comes. */
static void step_sums(const struct tile *t, const struct step *s, const float *pairs,
                      const float *rows, float *to, float factor, const struct step *next)
{
    for (int col = 0; col < t->ld; col += 2 * PIECE) {
        for (int i = 0, n; i < t->n_key; i += n) {
            n = rows_next(t->n_key - i);
            if (next && col == 0)
                step_fetch(t, next, i, i + n < t->n_key ? i + n : t->n_key, t->n_key);
            struct k_span in = step_rows(t, s, i, n);
            struct mul m = {.a = pairs + in.lo * PAIR_LD + i,
                            .b = rows + in.lo * ROW_FLOATS + col,
                            .c = to + i * t->ld + col,
                            .ld_a = PAIR_LD,
                            .ld_b = ROW_FLOATS,
                            .ld_c = t->ld,
                            .n_row = t->n_key - i < n ? t->n_key - i : n,
                            .n_col = t->ld - col < 2 * PIECE ? t->ld - col : 2 * PIECE,
                            .n_in = (int)(in.hi - in.lo),
                            .factor = factor,
                            .adds = true};
            if (in.lo < in.hi)
                mul_block(&m, true);
        }
    }
}

/* What the tile gives to dq. */
static void step_part(const struct tile *t, const struct step *s)
{
    const struct k_attn *f = &t->a->fwd;
    float *part = attn_part_at(t->a, t->of->u.seq, t->key0, s->row, s->head);
    int64_t ld = (int64_t)f->n_head * t->d;
    for (int col = 0; col < t->d; col += 2 * PIECE) {
        for (int r = 0, n; r < s->n; r += n) {
            n = rows_next(s->n - r);
            int n_row = s->n - r < n ? s->n - r : n;
            struct k_span in = {t->seen[r].lo, t->seen[r + n_row - 1].hi};
            in = attn_span_in(in, t->key0, t->n_key);
            struct mul m = {.a = t->ds + r * PAIR_LD + in.lo,
                            .b = t->k_rows + in.lo * ROW_FLOATS + col,
                            .c = part + r * ld + col,
                            .ld_a = PAIR_LD,
                            .ld_b = ROW_FLOATS,
                            .ld_c = ld,
                            .n_row = n_row,
                            .n_col = t->d - col < 2 * PIECE ? t->d - col : 2 * PIECE,
                            .n_in = (int)(in.hi - in.lo),
                            .factor = f->scale,
                            .adds = t->of->adds};
            if (in.lo < in.hi)
                mul_block(&m, false);
        }
    }
}

static void step_run(struct tile *t, const struct step *s, const struct step *next)
{
    const struct k_attn *f = &t->a->fwd;
    step_open(t, s);
    step_scores(t, s, t->q, t->k, t->p, attn_score_factor(f));
    step_scores(t, s, t->dy, t->v, t->ds, 1);
    step_grad(t, s);
    step_sums(t, s, t->p, t->dy, t->dv, 1, next);
    step_sums(t, s, t->ds, t->q, t->dk, f->scale, NULL);
    if (attn_has_parts(t->a))
        step_part(t, s);
}

static void tile_close(const struct tile *t)
{
    const struct k_attn_bwd *a = t->a;
    const struct k_ragged *b = &a->fwd.batch;
    const struct k_attn_unit *u = &t->of->u;
    int64_t tok = b->q_start[u->seq] - attn_first_pos(b, u->seq);
    for (int64_t key = u->key_lo; key < u->key_hi; key++) {
        int64_t i = (key - t->key0) * t->ld;
        attn_finish_avx2(a->dk + (tok + key) * a->ld_dk + u->head * t->d, t->dk + i, 1, t->d);
        attn_finish_avx2(a->dv + (tok + key) * a->ld_dv + u->head * t->d, t->dv + i, 1, t->d);
    }
}

/* The step behind s of heads up to `end`; without rows at the end. */
static struct step step_next(const struct step *s, struct k_span rows, int64_t end)
{
    struct step next = {s->head, s->row + STEP, 0};
    if (next.row >= rows.hi)
        next = (struct step){s->head + 1, rows.lo / STEP * STEP, 0};
    if (next.head < end && next.row < rows.hi)
        next.n = (int)(rows.hi - next.row < STEP ? rows.hi - next.row : STEP);
    return next;
}

void attn_keys_avx2(const struct attn_keys *of, void *scratch)
{
    struct tile t;
    int64_t group = of->a->fwd.n_head / of->a->fwd.cache.n_kv_head;
    tile_open(&t, of, scratch);
    struct k_span rows = {t.seen_by[0].lo, t.seen_by[t.n_key - 1].hi};
    int64_t head = of->u.head * group;
    struct step before = {head - 1, rows.hi, 0}, now = step_next(&before, rows, head + group), next;
    for (; now.n > 0; now = next) {
        next = step_next(&now, rows, head + group);
        step_run(&t, &now, &next);
    }
    tile_close(&t);
}
