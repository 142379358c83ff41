/* SPDX-License-Identifier: Apache-2.0
 *
 * lora, lora_bwd. The two products of a pass have a long side and a short one, the rank. x a^T and
 * dy b sum over the long side: few results per row, straight from the row-major operands. t b^T and
 * dt a sum over the rank: the adapter becomes packed panels, some at a time, in scratch (or is so
 * already, of f32 or of bf16, which is widened on its way), and each block of rows passes them, so
 * that y and dx are walked along their rows.
 *
 * A slice's rows of one group share the panels.
 *
 * Tried: what an adapter adds joined to the product's own tiles, panel by panel or tile by tile (no
 * gain: f32 sums of 16 terms cost what they cost, not the way through the cache); six rows by four
 * ranks instead of three by eight in the inner product (1%); all rows of a piece by eight ranks at
 * a time (none).
 */
#include <string.h>

#include "kernels/x86/block.h"

enum {
    LEFT_BYTES = 1 << 19, /* rows of t or dt, packed */
    RIGHT_BYTES = 1 << 18 /* panels of the adapter */
};

/* y[rows, cols] += scale * t[rows, rank] times the adapter's panels. */
struct outer {
    const struct linear_isa *isa;
    const float *t; /* row 0 of the batch */
    int64_t ld_t, rank;
    float scale;
    const float *panels;       /* of w; NULL: made here */
    const k_bf16 *panels_bf16; /* of w; NULL: none */
    const float *w;            /* [cols, rank], or [rank, cols] when along */
    bool along;
    float *y;
    int64_t ld_y, cols;
};

/* Rows as packed blocks of LINEAR_MR, the last one lower: [rank][h]. */
static void pack_t(const struct outer *o, int64_t row_lo, int64_t row_hi, float *to)
{
    for (int64_t row = row_lo; row < row_hi; row += LINEAR_MR) {
        int64_t h = linear_min(row_hi - row, LINEAR_MR);
        for (int64_t r = 0; r < o->rank; r++) {
            for (int64_t j = 0; j < h; j++)
                *to++ = o->scale * o->t[(row + j) * o->ld_t + r];
        }
    }
}

/* Outputs [col, col + 16) as half a panel. */
static void pack_half(const struct outer *o, int64_t col, float *to)
{
    int64_t n = linear_min(o->cols - col, 16);
    if (!o->along) {
        o->isa->lora_across(o->w + col * o->rank, n, o->rank, to);
        return;
    }
    for (int64_t r = 0; r < o->rank; r++) {
        float *half = to + r * K_NR;
        memcpy(half, o->w + r * o->cols + col, (size_t)n * sizeof *half);
        memset(half + n, 0, (size_t)(16 - n) * sizeof *half);
    }
}

static void pass_panels(const struct outer *o, int64_t col_lo, int64_t col_hi, int64_t row,
                        int64_t h, const float *left, const char *right)
{
    int64_t stride = o->rank * TILE_STEP_BYTES, step = o->isa->panels[h] * K_NR;
    if (o->isa->lora_outer)
        step = col_hi - col_lo;
    for (int64_t col = col_lo, end; col < col_hi; col = end) {
        end = linear_min(col_hi, col + step);
        struct block b = {.h = h,
                          .np = linear_ceil_div(end - col, K_NR),
                          .rows = (const char *)left,
                          .panel = right + (col - col_lo) / K_NR * stride,
                          .stride = stride,
                          .steps = o->rank,
                          .out = {.y = o->y + row * o->ld_y + col,
                                  .ld_y = o->ld_y,
                                  .cols = o->cols - col,
                                  .add = true}};
        b.ahead = tile_prefetch_at(b.panel, 0);
        if (o->isa->lora_outer)
            o->isa->lora_outer(&b);
        else
            o->isa->block[K_F32](&b);
    }
}

static void pack_panels(const struct outer *o, int64_t col_lo, int64_t col_hi, char *right)
{
    if (o->panels_bf16) {
        o->isa->lora_widen(o->panels_bf16 + col_lo * o->rank,
                           linear_ceil_div(col_hi - col_lo, K_NR) * K_NR * o->rank,
                           (float *)(void *)right);
        return;
    }
    for (int64_t col = col_lo; col < col_hi; col += 16) {
        int64_t at = (col - col_lo) / K_NR * o->rank * TILE_STEP_BYTES;
        pack_half(o, col, (float *)(void *)(right + at) + col % K_NR);
    }
}

/* Rows [row_lo, row_hi), which fit packed in the left half. */
static void outer_rows(const struct outer *o, int64_t row_lo, int64_t row_hi, char *scratch)
{
    float *left = (float *)(void *)scratch;
    char *scratch_right = scratch + LEFT_BYTES;
    int64_t cols = o->panels ? o->cols : RIGHT_BYTES / (o->rank * TILE_STEP_BYTES) * K_NR;
    pack_t(o, row_lo, row_hi, left);
    if (o->panels_bf16 && o->isa->lora_row && row_hi - row_lo == 1) {
        o->isa->lora_row(o->panels_bf16, left, o->rank, o->y + row_lo * o->ld_y, o->cols);
        return;
    }
    for (int64_t lo = 0; lo < o->cols; lo += cols) {
        int64_t hi = linear_min(o->cols, lo + cols);
        const char *right = o->panels ? (const char *)o->panels : scratch_right;
        if (!o->panels)
            pack_panels(o, lo, hi, scratch_right);
        for (int64_t row = row_lo; row < row_hi; row += LINEAR_MR)
            pass_panels(o, lo, hi, row, linear_min(row_hi - row, LINEAR_MR),
                        left + (row - row_lo) * o->rank, right);
    }
}

static void outer(const struct outer *o, const struct lora_rows *rows, char *scratch)
{
    int64_t step = LEFT_BYTES / (o->rank * 4) / LINEAR_MR * LINEAR_MR;
    for (int64_t row = rows->row_lo; row < rows->row_hi; row += step)
        outer_rows(o, row, linear_min(rows->row_hi, row + step), scratch);
}

void lora_run(const struct linear_isa *isa, const struct k_lora *a, const struct k_slice *s)
{
    struct lora_walk w = {.unit = s->lo, .hi = s->hi};
    for (struct lora_rows rows; lora_rows_next(a, &w, &rows);) {
        const struct k_lora_group *g = rows.group;
        isa->lora_inner(a, &rows);
        struct outer o = {.isa = isa,
                          .t = a->t,
                          .ld_t = a->rank_max,
                          .rank = g->rank,
                          .scale = g->scale,
                          .panels = g->b_panels,
                          .panels_bf16 = g->b_panels_bf16,
                          .w = g->b,
                          .y = a->y,
                          .ld_y = a->ld_y,
                          .cols = a->n};
        outer(&o, &rows, s->scratch);
    }
}

void lora_bwd_run(const struct linear_isa *isa, const struct k_lora_bwd *a, const struct k_slice *s)
{
    struct lora_walk w = {.unit = s->lo, .hi = s->hi};
    for (struct lora_rows rows; lora_rows_next(&a->fwd, &w, &rows);) {
        const struct k_lora_group *g = rows.group;
        isa->lora_inner_bwd(a, &rows);
        struct outer o = {.isa = isa,
                          .t = a->dt,
                          .ld_t = a->fwd.rank_max,
                          .rank = g->rank,
                          .scale = 1,
                          .w = g->a,
                          .along = true,
                          .y = a->dx,
                          .ld_y = a->ld_dx,
                          .cols = a->fwd.k};
        if (a->dx)
            outer(&o, &rows, s->scratch);
    }
}
