/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting products into units: near-equal, enough for 64 threads where the work allows.
 */
#include "kernels/linear_grid.h"
#include "kernels/cols_run.h"

enum {
    SPAN_BYTES = 8 << 20, /* packed rows of a span: a good part of a last-level cache */
    SPAN_BLOCKS_MIN =
        10,              /* fewer would not repay that each span's thread reads all of the weight */
    SPAN_BLOCKS = 21,    /* about as many, in pairs of spans: 256 rows */
    UNITS_WANTED = 256,  /* enough for 64 threads to end together */
    CHUNK_BLOCKS_MIN = 2 /* fewer rows would not repay the panel's way into the core */
};

static int64_t span_count(int64_t blocks, int64_t row_bytes)
{
    int64_t rows = linear_min(LINEAR_SPAN_ROWS, SPAN_BYTES / (row_bytes > 0 ? row_bytes : 1));
    int64_t least = linear_ceil_div(blocks, rows < LINEAR_MR ? 1 : rows / LINEAR_MR);
    int64_t pairs = blocks / (2 * SPAN_BLOCKS);
    int64_t n = blocks < 2 * SPAN_BLOCKS_MIN ? 1 : 2 * (pairs > 1 ? pairs : 1);
    return n > least ? n : least;
}

static struct linear_grid grid(int64_t m, int64_t n_panel, int64_t row_bytes)
{
    int64_t blocks = rows_blocks(m);
    struct linear_grid g = {.n_block = blocks, .n_panel = n_panel, .n_chunk = 1};
    if (blocks == 0 || n_panel <= 0)
        return g;
    g.n_span = span_count(blocks, row_bytes);
    int64_t most = blocks / g.n_span / CHUNK_BLOCKS_MIN;
    g.n_chunk = linear_min(most > 0 ? most : 1, linear_ceil_div(UNITS_WANTED, n_panel * g.n_span));
    return g;
}

struct linear_grid linear_grid(const struct k_linear *a)
{
    int64_t n_panel = (a->panel_hi - a->panel_lo) / (a->gated ? 2 : 1);
    return grid(a->m, n_panel, (int64_t)linear_row_bytes(a->w.type, a->w.k));
}

struct linear_grid linear_dx_grid(const struct k_linear_dx *a)
{
    int64_t n = linear_outputs(&a->w, a->panel_lo, a->panel_hi);
    return grid(a->m, linear_panels(a->w.k), (int64_t)linear_row_bytes(a->w.type, n));
}

/* All runs are cut alike, whatever their rows: */
_Static_assert(LINEAR_DW_ROWS * sizeof(float) * LINEAR_SPAN_ROWS <= SPAN_BYTES,
               "bytes do not make the spans");

struct linear_grid linear_dw_grid(const struct k_linear_dw *a)
{
    return grid(a->n, linear_panels(a->k), 0);
}

int64_t linear_grid_units(const struct linear_grid *g)
{
    return g->n_span * g->n_panel * g->n_chunk;
}

/* Part i of n of [0, total), as even as can be. */
static int64_t part_start(int64_t total, int64_t n, int64_t i)
{
    return total / n * i + linear_min(i, total % n);
}

/* The first block of a panel in a span. Spans are alike to a block of one panel: where the blocks
 * do not come out even, the first panels of a span begin one further. */
static int64_t span_start(const struct linear_grid *g, int64_t span, int64_t panel)
{
    int64_t at = part_start(g->n_block * g->n_panel, g->n_span, span);
    return (at + g->n_panel - 1 - panel) / g->n_panel;
}

struct linear_piece linear_grid_next(const struct linear_grid *g, int64_t *u, int64_t hi)
{
    int64_t chunk = *u % g->n_chunk, column = *u / g->n_chunk;
    int64_t span = column / g->n_panel;
    int64_t chunk_end = linear_min(g->n_chunk, chunk + (hi - *u));
    int64_t panel = column % g->n_panel;
    int64_t span_lo = span_start(g, span, panel);
    int64_t blocks = span_start(g, span + 1, panel) - span_lo;
    struct linear_piece p = {.panel = panel,
                             .block_lo = span_lo + part_start(blocks, g->n_chunk, chunk),
                             .block_hi = span_lo + part_start(blocks, g->n_chunk, chunk_end)};
    *u += chunk_end - chunk;
    return p;
}

struct k_linear linear_dw_run_of(const struct k_linear_dw *a, enum k_type type, int64_t row)
{
    struct k_linear run = {.rows = (const char *)a->dy + cols_run_at(type, a->n, false, row),
                           .y = a->dw,
                           .ld_y = a->ld_dw,
                           .m = a->n,
                           .panel_hi = linear_panels(a->k),
                           .add = row > 0 || !a->fills};
    char *panels = (char *)(uintptr_t)a->x + cols_run_at(type, a->k, true, row);
    k_weight_bind(&run.w, type, a->k, cols_run_rows(a->m, row), panels);
    return run;
}
