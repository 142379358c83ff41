/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_dw: the forward's product once more. A tile's columns of dy become packed rows and its
 * columns of x become panels, both in scratch, a run of LINEAR_DW_ROWS rows at a time: what is
 * summed over are the rows, and pairs of them are what a bf16 step takes. Neighbouring tiles share
 * their dy.
 */
#include "kernels/linear_grid.h"
#include "kernels/x86/block.h"

enum {
    LEFT_BYTES = LINEAR_DW_ROWS * LINEAR_TILE_N * 4,
    RIGHT_BYTES = LINEAR_DW_ROWS * LINEAR_TILE_K * 4
};

_Static_assert(LEFT_BYTES + RIGHT_BYTES <= K_SCRATCH_BYTES, "a tile's operands fit in scratch");

static void multiply(const struct linear_isa *isa, enum k_type type, const struct k_linear_dw *a,
                     const struct linear_rect *r, int64_t steps, bool adds, const char *left,
                     const char *right)
{
    int64_t cols = r->n_hi - r->n_lo;
    for (int64_t k = r->k_lo; k < r->k_hi; k += K_NR) {
        const char *panel = right + (k - r->k_lo) / K_NR * steps * TILE_STEP_BYTES;
        for (int64_t i = 0; i < rows_blocks(cols); i++) {
            struct rows_block rb = rows_block_at(cols, i);
            struct block b = {.h = rb.h,
                              .np = 1,
                              .rows = left + rb.row * steps * 4,
                              .panel = panel,
                              .steps = steps,
                              .out = {.y = a->dw + (r->n_lo + rb.row) * a->ld_dw + k,
                                      .ld_y = a->ld_dw,
                                      .cols = r->k_hi - k,
                                      .add = adds},
                              .ahead = tile_ahead_at(panel, 0)};
            block_run(isa, type, &b);
        }
    }
}

/* Units [lo, hi), which share their dy. */
static void tiles(const struct linear_isa *isa, enum k_type type, const struct k_linear_dw *a,
                  const struct linear_tiles *t, int64_t lo, int64_t hi, char *scratch)
{
    for (int64_t row = 0; row < a->m; row += LINEAR_DW_ROWS) {
        int64_t rows = linear_min(a->m - row, LINEAR_DW_ROWS);
        for (int64_t u = lo; u < hi; u++) {
            struct linear_rect r = linear_tile_at(t, u);
            struct columns dy = {a->dy + row * a->ld_dy + r.n_lo, a->ld_dy, rows, r.n_hi - r.n_lo};
            struct columns x = {a->x + row * a->ld_x + r.k_lo, a->ld_x, rows, r.k_hi - r.k_lo};
            if (u == lo)
                isa->columns_left(type, &dy, scratch);
            isa->columns_right(type, &x, scratch + LEFT_BYTES);
            multiply(isa, type, a, &r, columns_steps(type, rows), row > 0 || !a->fills, scratch,
                     scratch + LEFT_BYTES);
        }
    }
}

void linear_dw_run(const struct linear_isa *isa, enum k_type type, const struct k_linear_dw *a,
                   const struct k_slice *s)
{
    struct linear_tiles t = linear_dw_tiles(a);
    for (int64_t u = s->lo; u < s->hi;) {
        int64_t end = linear_min(s->hi, (u / t.k_parts + 1) * t.k_parts);
        tiles(isa, type, a, &t, u, end, s->scratch);
        u = end;
    }
}
