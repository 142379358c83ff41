/* SPDX-License-Identifier: Apache-2.0
 *
 * lora_dw: both gradients are sums over a group's rows, with the rank on the left (up to twelve
 * ranks a block, so that a small rank wastes nothing) and the unit's columns of x or dy on the
 * right. db is row-major by outputs: its tile is finished in scratch and added number by number.
 */
#include "kernels/x86/block.h"

enum {
    LEFT_RANKS = 192, /* packed at a time */
    LEFT_BYTES = LINEAR_DW_ROWS * LEFT_RANKS * 4,
    RIGHT_BYTES = LINEAR_DW_ROWS * LORA_COLS * 4,
    TILE_BYTES = LINEAR_MR * K_NR * 4
};

_Static_assert(LEFT_BYTES + RIGHT_BYTES + TILE_BYTES <= K_SCRATCH_BYTES, "all fit in scratch");

/* A unit, some of its rows, some of its ranks. */
struct part {
    const struct linear_isa *isa;
    const struct k_lora_bwd *a;
    const struct lora_cols *cols;
    int64_t row, rows;
    int64_t rank, ranks;
};

static void add_db(const struct part *p, int64_t rank, int64_t ranks, int64_t col,
                   const float *tile)
{
    const struct k_lora_group *g = p->cols->group;
    for (int64_t i = col; i < linear_min(p->cols->hi, col + K_NR); i++) {
        for (int64_t r = 0; r < ranks; r++)
            g->db[i * g->rank + rank + r] += g->scale * tile[r * K_NR + i - col];
    }
}

static void multiply(const struct part *p, const char *left, const char *right, float *tile)
{
    const struct k_lora_group *g = p->cols->group;
    int64_t k = p->a->fwd.k;
    for (int64_t col = p->cols->lo; col < p->cols->hi; col += K_NR) {
        for (int64_t i = 0; i < rows_blocks(p->ranks); i++) {
            struct rows_block rb = rows_block_at(p->ranks, i);
            int64_t rank = p->rank + rb.row;
            struct block b = {.h = rb.h,
                              .np = 1,
                              .rows = left + rb.row * p->rows * 4,
                              .panel =
                                  right + (col - p->cols->lo) / K_NR * p->rows * TILE_STEP_BYTES,
                              .steps = p->rows};
            b.ahead.at = b.panel;
            if (p->cols->is_db)
                b.to = tile;
            else
                b.out = (struct tile_out){
                    .y = g->da + rank * k + col, .ld_y = k, .cols = p->cols->hi - col, .add = true};
            p->isa->f32(&b);
            if (p->cols->is_db)
                add_db(p, rank, rb.h, col, tile);
        }
    }
}

static void rows_part(const struct linear_isa *isa, const struct k_lora_bwd *a,
                      const struct lora_cols *c, int64_t row, int64_t rows, char *scratch)
{
    const struct k_lora *f = &a->fwd;
    char *right = scratch + LEFT_BYTES;
    struct columns long_side = {.at = f->x + row * f->ld_x + c->lo, .ld = f->ld_x};
    if (c->is_db)
        long_side = (struct columns){.at = a->dy + row * a->ld_dy + c->lo, .ld = a->ld_dy};
    long_side.rows = rows;
    long_side.cols = c->hi - c->lo;
    isa->columns_right(K_F32, &long_side, right);
    for (int64_t r = 0; r < c->group->rank; r += LEFT_RANKS) {
        struct part p = {isa, a, c, row, rows, r, linear_min(c->group->rank - r, LEFT_RANKS)};
        struct columns ranks = {.at = (c->is_db ? f->t : a->dt) + row * f->rank_max + r,
                                .ld = f->rank_max,
                                .rows = rows,
                                .cols = p.ranks};
        isa->columns_left(K_F32, &ranks, scratch);
        multiply(&p, scratch, right, (float *)(void *)(right + RIGHT_BYTES));
    }
}

void lora_dw_run(const struct linear_isa *isa, const struct k_lora_bwd *a, const struct k_slice *s)
{
    for (int64_t u = s->lo; u < s->hi; u++) {
        struct lora_cols c = lora_dw_unit(&a->fwd, u);
        for (int64_t row = c.group->row_lo; row < c.group->row_hi; row += LINEAR_DW_ROWS)
            rows_part(isa, a, &c, row, linear_min(c.group->row_hi - row, LINEAR_DW_ROWS),
                      s->scratch);
    }
}
