/* SPDX-License-Identifier: Apache-2.0
 *
 * lora_dw with AVX-512: both gradients are sums over a group's rows. A strip
 * of VF columns of x (for da) or dy (for db) goes past as it lies, and each of its rows joins up to
 * VF sums, one for each rank, by that row's number of dt or t. Nothing is packed: a number of the
 * long side is used for all ranks at once, and a number of the short side comes as a broadcast.
 *
 * db is row-major by outputs, so its tile is turned over on the way out.
 *
 * Thread: any; included by lora_dw_avx512.c, and by lora_rounded_avx512.c, which packs all the
 * same.
 */
#ifndef KERNELS_X86_LORA_DW_H
#define KERNELS_X86_LORA_DW_H

#include "kernels/lora_grid.h"
#include "kernels/x86/vec.h"

#define LORA_INLINE static inline __attribute__((always_inline))

enum { LORA_ROWS_AHEAD = 16 };

/* Columns [col, col + n) of a unit, a run of its group's rows. */
struct lora_strip {
    const struct k_lora_bwd *a;
    const struct lora_cols *cols;
    const float *wide, *narrow; /* of the first row: the strip, and rank 0 */
    int64_t ld_wide, ld_narrow;
    /* of kernels/x86/lora_rounded_avx512.c alone */
    const uint32_t *wide_pairs, *narrow_pairs;
    const float *next; /* the next unit's columns */
    int64_t ld_next;
    int64_t col, rows;
    int n;
};

LORA_INLINE void lora_add_da(int ranks, const struct lora_strip *s, int64_t rank, const vf *sum)
{
    float *da = s->cols->group->da + rank * s->a->fwd.k + s->col;
#pragma GCC unroll 16
    for (int r = 0; r < ranks; r++, da += s->a->fwd.k)
        vf_store(da, vf_add(vf_load(da, s->n), sum[r]), s->n);
}

LORA_INLINE void lora_add_db(int ranks, const struct lora_strip *s, int64_t rank, const vf *sum)
{
    const struct k_lora_group *g = s->cols->group;
    float tile[VF * VF];
#pragma GCC unroll 16
    for (int r = 0; r < ranks; r++)
        vf_store(tile + r * VF, sum[r], VF);
    for (int i = 0; i < s->n; i++) {
        float *db = g->db + (s->col + i) * g->rank + rank;
        for (int r = 0; r < ranks; r++)
            db[r] += g->scale * tile[r * VF + i];
    }
}

/* sum[ranks] over the strip's rows, from rank `rank` on; ranks is a constant, at most VF. */
typedef void lora_sums_fn(int ranks, const struct lora_strip *s, int64_t rank, vf *sum);

LORA_INLINE void lora_sums(int ranks, const struct lora_strip *s, int64_t rank, vf *sum)
{
    const float *wide = s->wide, *narrow = s->narrow + rank;
#pragma GCC unroll 16
    for (int r = 0; r < ranks; r++)
        sum[r] = vf_zero();
    for (int64_t i = 0; i < s->rows; i++, wide += s->ld_wide, narrow += s->ld_narrow) {
        vf x = vf_load(wide, s->n);
        __builtin_prefetch(wide + LORA_ROWS_AHEAD * s->ld_wide);
#pragma GCC unroll 16
        for (int r = 0; r < ranks; r++)
            sum[r] = vf_fma(vf_set(narrow[r]), x, sum[r]);
    }
}

LORA_INLINE void lora_ranks(int ranks, const struct lora_strip *s, int64_t rank, lora_sums_fn *sums)
{
    vf sum[VF];
    sums(ranks, s, rank, sum);
    if (s->cols->is_db)
        lora_add_db(ranks, s, rank, sum);
    else
        lora_add_da(ranks, s, rank, sum);
}

/* Ranks [rank, end) of a strip. */
LORA_INLINE void lora_strip_run(const struct lora_strip *s, int64_t rank, int64_t end,
                                lora_sums_fn *sums)
{
    for (; rank + VF <= end; rank += VF)
        lora_ranks(VF, s, rank, sums);
    for (; rank + 8 <= end; rank += 8)
        lora_ranks(8, s, rank, sums);
    for (; rank + 4 <= end; rank += 4)
        lora_ranks(4, s, rank, sums);
    for (; rank < end; rank++)
        lora_ranks(1, s, rank, sums);
}

/* Rows from `row` on of a unit's group, as many as are summed before they are added. */
static inline void lora_strip_rows(struct lora_strip *s, int64_t row)
{
    const struct k_lora_bwd *a = s->a;
    const struct k_lora *f = &a->fwd;
    bool is_db = s->cols->is_db;
    s->rows = linear_min(s->cols->group->row_hi - row, LINEAR_DW_ROWS);
    s->ld_wide = is_db ? a->ld_dy : f->ld_x;
    s->ld_narrow = f->rank_max;
    s->wide = (is_db ? a->dy : f->x) + row * s->ld_wide + s->cols->lo;
    s->narrow = (is_db ? f->t : a->dt) + row * f->rank_max;
}

LORA_INLINE void lora_dw_unit_run(const struct k_lora_bwd *a, const struct lora_cols *c)
{
    struct lora_strip s = {.a = a, .cols = c};
    for (int64_t row = c->group->row_lo; row < c->group->row_hi; row += LINEAR_DW_ROWS) {
        lora_strip_rows(&s, row);
        for (s.col = c->lo; s.col < c->hi; s.col += VF, s.wide += VF) {
            s.n = vf_count(c->hi, s.col);
            lora_strip_run(&s, 0, c->group->rank, lora_sums);
        }
    }
}

LORA_INLINE void lora_dw_units_run(const struct k_lora_bwd *a, const struct k_slice *s)
{
    for (int64_t u = s->lo; u < s->hi; u++) {
        struct lora_cols c = lora_dw_unit(&a->fwd, u);
        lora_dw_unit_run(a, &c);
    }
}

#endif
