/* SPDX-License-Identifier: Apache-2.0
 *
 * lora_bwd and lora_dw in bf16. What is summed over stands in pairs: rows of dy are rounded as they
 * lie, and of b, a and the short side of a weight's gradient the columns are packed as panels. A
 * slice does so for itself, some rows and ranks at a time: an adapter is small beside its rows.
 *
 * dt is one chain over the outputs, which waits in dt between runs of them; dx gets the whole sum
 * over a run of ranks. A row's bits know nothing of the rows beside it.
 */
#include "kernels/x86/lora_rounded.h"

#include "kernels/linear_grid.h"
#include "kernels/variants.h"
#include "kernels/x86/block_avx512.h"
#include "kernels/x86/lora_dw.h"
#include "kernels/x86/transpose_avx512.h"

enum {
    RUN_ROWS = 32 * LINEAR_MR,
    RUN_RANKS = 64,
    RUN_OUTS = 512,
    RUN_INS = 512,
    DT_ROWS = 16,              /* by 16 ranks: sums in registers */
    DY_LD = RUN_OUTS / 2 + 16, /* pairs; rows that lay 1 KB apart would share lines of the cache */
    PANEL_BYTES = RUN_OUTS * RUN_RANKS * 2, /* of b or of a */
    LEFT_BYTES = RUN_ROWS * RUN_RANKS * 2,  /* dt as packed rows; dy in pairs */
};

_Static_assert(DT_ROWS *DY_LD * 4 <= LEFT_BYTES, "rows of dy fit where dt does");
_Static_assert(PANEL_BYTES + LEFT_BYTES <= K_SCRATCH_BYTES, "what a run packs fits scratch");
_Static_assert(LINEAR_DW_ROWS *RUN_RANKS * 2 <= PANEL_BYTES, "and so do the short side's pairs");
_Static_assert(LINEAR_DW_ROWS *LORA_COLS * 2 + PANEL_BYTES <= K_SCRATCH_BYTES, "and the long's");

/* Columns of x[m, n] as panels of pairs, m at most LINEAR_DW_ROWS. */
static void panels_of(const float *x, int64_t ld, int64_t m, int64_t n, void *to)
{
    struct k_cols_pack a = {
        .x = x, .ld_x = ld, .m = m, .n = n, .type = K_BF16, .is_panels = true, .cols = to};
    cols_pack_avx512(&a, &(struct k_slice){.hi = linear_ceil_div(m, COLS_UNIT_ROWS)});
}

/* Some rows of a group by some of its ranks. */
struct run {
    const struct k_lora_bwd *a;   /* borrowed */
    const struct k_lora_group *g; /* borrowed */
    int64_t row_lo, row_hi;
    int64_t rank, n_rank;
    char *panels; /* scratch */
    char *left;
};

/* Two lines come into the second cache. What lies behind the last row is not read. */
TILE_INLINE void ask_lines(const float *at)
{
    _mm_prefetch(at, _MM_HINT_T1);
    _mm_prefetch(at + 16, _MM_HINT_T1);
}

/* ---- dt ----------------------------------------------------------------------------------- */

/* Outputs [lo, lo + n) of some rows of dy, rounded. */
static void pairs_of_dy(const struct run *u, int64_t row, int rows, int64_t lo, int64_t n)
{
    uint32_t *to = (uint32_t *)(void *)u->left;
    for (int r = 0; r < rows; r++, to += DY_LD) {
        const float *dy = u->a->dy + (row + r) * u->a->ld_dy + lo;
        for (int64_t i = 0; i < n; i += 32) {
            __m512 first = _mm512_maskz_loadu_ps(tile_mask(n - i), dy + i);
            __m512 second = _mm512_maskz_loadu_ps(tile_mask(n - i - 16), dy + i + 16);
            _mm512_store_si512(to + i / 2, (__m512i)_mm512_cvtne2ps_pbh(second, first));
        }
    }
}

/* 16 ranks from the run's rank `r` on: `first` begins the sums, `last` scales them. Meanwhile the
 * rows of dy behind these come near, as many, two lines of one in a step. */
TILE_INLINE void dt_ranks(int rows, const struct run *u, int64_t row, int64_t r, int64_t lo,
                          int64_t n)
{
    bool first = lo == 0, last = lo + n == u->a->fwd.n;
    int64_t each = linear_ceil_div(n, 32);
    const float *next = u->a->dy + (row + rows) * u->a->ld_dy + lo;
    const char *b = u->panels + r / K_NR * linear_ceil_div(n, 2) * TILE_STEP_BYTES + r % K_NR * 4;
    const uint32_t *dy = (const uint32_t *)(const void *)u->left;
    int64_t ld = u->a->fwd.rank_max;
    float *dt = u->a->dt + row * ld + u->rank + r;
    __mmask16 m = tile_mask(u->n_rank - r);
    __m512 sum[DT_ROWS];
#pragma GCC unroll 16
    for (int j = 0; j < rows; j++)
        sum[j] = first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(m, dt + j * ld);
    for (int64_t i = 0, at = 0; i < linear_ceil_div(n, 2); i++) {
        ask_lines(next + at * 32);
        if (++at == each) {
            at = 0;
            next += u->a->ld_dy;
        }
        __m512bh w = (__m512bh)_mm512_load_si512(b + i * TILE_STEP_BYTES);
#pragma GCC unroll 16
        for (int j = 0; j < rows; j++)
            sum[j] =
                _mm512_dpbf16_ps(sum[j], (__m512bh)_mm512_set1_epi32((int)dy[j * DY_LD + i]), w);
    }
    __m512 scale = _mm512_set1_ps(last ? u->g->scale : 1);
#pragma GCC unroll 16
    for (int j = 0; j < rows; j++)
        _mm512_mask_storeu_ps(dt + j * ld, m, _mm512_mul_ps(scale, sum[j]));
}

TILE_INLINE void dt_rows(int rows, const struct run *u, int64_t row, int64_t lo, int64_t n)
{
    pairs_of_dy(u, row, rows, lo, n);
    for (int64_t r = 0; r < u->n_rank; r += 16)
        dt_ranks(rows, u, row, r, lo, n);
}

static void inner(const struct run *u)
{
    int64_t all = u->a->fwd.n, step = linear_ceil_div(all, linear_ceil_div(all, RUN_OUTS));
    step = linear_ceil_div(step, 32) * 32;
    for (int64_t lo = 0; lo < all; lo += step) {
        int64_t n = linear_min(all - lo, step), row = u->row_lo;
        panels_of(u->g->b + lo * u->g->rank + u->rank, u->g->rank, n, u->n_rank, u->panels);
        for (; row + DT_ROWS <= u->row_hi; row += DT_ROWS)
            dt_rows(DT_ROWS, u, row, lo, n);
        for (; row + 4 <= u->row_hi; row += 4)
            dt_rows(4, u, row, lo, n);
        for (; row < u->row_hi; row++)
            dt_rows(1, u, row, lo, n);
    }
}

/* ---- dx ----------------------------------------------------------------------------------- */

/* Inputs from `lo` on, whose panels are there, of a block of rows. */
static void outer_block(const struct run *u, const struct rows_block *r, int64_t lo, int64_t n)
{
    int64_t steps = linear_ceil_div(u->n_rank, 2);
    struct block b = {.h = r->h,
                      .np = 1,
                      .rows = u->left + r->row * steps * 4,
                      .panel = u->panels,
                      .steps = steps,
                      .out = {.y = u->a->dx + (u->row_lo + r->row) * u->a->ld_dx + lo,
                              .ld_y = u->a->ld_dx,
                              .cols = n,
                              .add = true}};
    for (; b.out.cols > 0; b.panel += steps * TILE_STEP_BYTES) {
        b.ahead = tile_prefetch_at(b.panel, 0);
        block_bf16_avx512(&b);
        b.out.y += K_NR;
        b.out.cols -= K_NR;
    }
}

static void outer(const struct run *u)
{
    const struct k_lora *f = &u->a->fwd;
    int64_t rows = u->row_hi - u->row_lo, blocks = rows_blocks(rows);
    struct rows_cut cut = rows_cut_of(rows);
    struct k_rows_pack dt = {.x = u->a->dt + u->row_lo * f->rank_max + u->rank,
                             .ld_x = f->rank_max,
                             .m = rows,
                             .k = u->n_rank,
                             .type = K_BF16,
                             .rows = u->left};
    rows_pack_avx512(&dt, &(struct k_slice){.hi = blocks});
    for (int64_t lo = 0; lo < f->k; lo += RUN_INS) {
        int64_t n = linear_min(f->k - lo, RUN_INS);
        panels_of(u->g->a + u->rank * f->k + lo, f->k, u->n_rank, n, u->panels);
        for (int64_t i = 0; i < blocks; i++) {
            struct rows_block r = rows_cut_at(&cut, i);
            outer_block(u, &r, lo, n);
        }
    }
}

static void bwd_rows(struct run *u, const struct lora_rows *rows)
{
    u->g = rows->group;
    for (u->row_lo = rows->row_lo; u->row_lo < rows->row_hi; u->row_lo = u->row_hi) {
        u->row_hi = linear_min(rows->row_hi, u->row_lo + RUN_ROWS);
        for (u->rank = 0; u->rank < u->g->rank; u->rank += RUN_RANKS) {
            u->n_rank = linear_min(u->g->rank - u->rank, RUN_RANKS);
            inner(u);
            if (u->a->dx)
                outer(u);
        }
    }
}

void lora_bwd_rounded_avx512(const void *args, const struct k_slice *s)
{
    const struct k_lora_bwd *a = args;
    struct lora_walk w = {.unit = s->lo, .hi = s->hi};
    struct run u = {.a = a, .panels = s->scratch, .left = (char *)s->scratch + PANEL_BYTES};
    if (!a->rounds) {
        lora_bwd_avx512(args, s);
        return;
    }
    for (struct lora_rows rows; lora_rows_next(&a->fwd, &w, &rows);)
        bwd_rows(&u, &rows);
}

/* ---- da, db ------------------------------------------------------------------------------- */

/* Of the next unit's columns two lines come near in each step, a quarter of the rows in a strip. */
LORA_INLINE void sums_of_pairs(int ranks, const struct lora_strip *s, int64_t rank, vf *sum)
{
    int64_t steps = linear_ceil_div(s->rows, 2), r0 = rank % RUN_RANKS;
    const uint32_t *narrow = s->narrow_pairs + r0 / K_NR * steps * K_NR + r0 % K_NR;
    const uint32_t *wide = s->wide_pairs;
    const float *next = s->next + (s->col - s->cols->lo) / VF * (steps / 2) * s->ld_next;
    tile_zero(ranks, sum);
    for (int64_t i = 0; i < steps; i++, wide += K_NR, narrow += K_NR) {
        ask_lines(next + i / 2 * s->ld_next + i % 2 * 32);
        __m512bh x = (__m512bh)_mm512_load_si512(wide);
#pragma GCC unroll 16
        for (int r = 0; r < ranks; r++)
            sum[r] = _mm512_dpbf16_ps(sum[r], (__m512bh)_mm512_set1_epi32((int)narrow[r]), x);
    }
}

/* Both sides of some rows become pairs: the long one, whose rows lie far apart, once. */
static void dw_run(struct lora_strip *s, char *scratch)
{
    const struct lora_cols *c = s->cols;
    char *wide = scratch + PANEL_BYTES;
    int64_t steps = linear_ceil_div(s->rows, 2);
    panels_of(s->wide, s->ld_wide, s->rows, c->hi - c->lo, wide);
    s->narrow_pairs = (const uint32_t *)(const void *)scratch;
    for (int64_t rank = 0; rank < c->group->rank; rank += RUN_RANKS) {
        int64_t end = linear_min(rank + RUN_RANKS, c->group->rank);
        panels_of(s->narrow + rank, s->ld_narrow, s->rows, end - rank, scratch);
        for (s->col = c->lo; s->col < c->hi; s->col += VF) {
            int64_t at = s->col - c->lo;
            s->n = vf_count(c->hi, s->col);
            s->wide_pairs =
                (const uint32_t *)(const void *)wide + at / K_NR * steps * K_NR + at % K_NR;
            lora_strip_run(s, rank, end, sums_of_pairs);
        }
    }
}

static void dw_unit(const struct k_lora_bwd *a, const struct lora_cols *c,
                    const struct lora_cols *next, char *scratch)
{
    struct lora_strip s = {.a = a, .cols = next};
    lora_strip_rows(&s, next->group->row_lo);
    s.next = s.wide;
    s.ld_next = s.ld_wide;
    s.cols = c;
    for (int64_t row = c->group->row_lo; row < c->group->row_hi; row += LINEAR_DW_ROWS) {
        lora_strip_rows(&s, row);
        dw_run(&s, scratch);
    }
}

void lora_dw_rounded_avx512(const void *args, const struct k_slice *s)
{
    const struct k_lora_bwd *a = args;
    if (!a->rounds) {
        lora_dw_avx512(args, s);
        return;
    }
    int64_t last = lora_dw_units(&a->fwd) - 1;
    for (int64_t u = s->lo; u < s->hi; u++) {
        struct lora_cols c = lora_dw_unit(&a->fwd, u);
        struct lora_cols next = lora_dw_unit(&a->fwd, linear_min(u + 1, last));
        dw_unit(a, &c, &next, s->scratch);
    }
}
