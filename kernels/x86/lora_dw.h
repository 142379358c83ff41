/* SPDX-License-Identifier: Apache-2.0
 *
 * lora_dw, for the width of kernels/x86/vec.h: both gradients are sums over a group's rows. A strip
 * of VF columns of x (for da) or dy (for db) goes past as it lies, and each of its rows joins up to
 * VF sums, one for each rank, by that row's number of dt or t. Nothing is packed: a number of the
 * long side is used for all ranks at once, and a number of the short side comes as a broadcast.
 *
 * db is row-major by outputs, so its tile is turned over on the way out.
 *
 * Thread: any; included by lora_dw_*.c only.
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

/* Ranks [rank, rank + ranks); ranks is a constant, at most VF. */
LORA_INLINE void lora_ranks(int ranks, const struct lora_strip *s, int64_t rank)
{
    const float *wide = s->wide, *narrow = s->narrow + rank;
    vf sum[VF];
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
    if (s->cols->is_db)
        lora_add_db(ranks, s, rank, sum);
    else
        lora_add_da(ranks, s, rank, sum);
}

static void lora_strip_run(const struct lora_strip *s)
{
    int64_t rank = 0, end = s->cols->group->rank;
    for (; rank + VF <= end; rank += VF)
        lora_ranks(VF, s, rank);
    for (; rank + 8 <= end; rank += 8)
        lora_ranks(8, s, rank);
    for (; rank + 4 <= end; rank += 4)
        lora_ranks(4, s, rank);
    for (; rank < end; rank++)
        lora_ranks(1, s, rank);
}

static void lora_dw_unit_run(const struct k_lora_bwd *a, const struct lora_cols *c)
{
    const struct k_lora *f = &a->fwd;
    struct lora_strip s = {.a = a, .cols = c, .ld_wide = f->ld_x, .ld_narrow = f->rank_max};
    if (c->is_db)
        s.ld_wide = a->ld_dy;
    for (int64_t row = c->group->row_lo; row < c->group->row_hi; row += LINEAR_DW_ROWS) {
        s.rows = linear_min(c->group->row_hi - row, LINEAR_DW_ROWS);
        s.narrow = (c->is_db ? f->t : a->dt) + row * f->rank_max;
        for (s.col = c->lo; s.col < c->hi; s.col += VF) {
            s.wide = (c->is_db ? a->dy : f->x) + row * s.ld_wide + s.col;
            s.n = vf_count(c->hi, s.col);
            lora_strip_run(&s);
        }
    }
}

static inline void lora_dw_units_run(const struct k_lora_bwd *a, const struct k_slice *s)
{
    for (int64_t u = s->lo; u < s->hi; u++) {
        struct lora_cols c = lora_dw_unit(&a->fwd, u);
        lora_dw_unit_run(a, &c);
    }
}

#endif
