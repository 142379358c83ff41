/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting products into units: near-equal, enough for 64 threads where the work allows.
 */
#include "kernels/linear_grid.h"

enum {
    SPAN_BYTES = 8 << 20, /* packed rows of a span: a good part of a last-level cache */
    UNITS_WANTED = 256,   /* enough for 64 threads to end together */
    CHUNK_BLOCKS_MIN = 2  /* fewer rows would not repay the panel's way into the core */
};

static struct linear_grid grid(int64_t m, int64_t n_panel, int64_t row_bytes)
{
    int64_t blocks = rows_blocks(m);
    struct linear_grid g = {.n_block = blocks, .n_panel = n_panel, .n_chunk = 1};
    if (blocks == 0 || n_panel <= 0)
        return g;
    int64_t rows = linear_min(LINEAR_SPAN_ROWS, SPAN_BYTES / (row_bytes > 0 ? row_bytes : 1));
    g.n_span = linear_ceil_div(blocks, rows < LINEAR_MR ? 1 : rows / LINEAR_MR);
    int64_t most = blocks / g.n_span / CHUNK_BLOCKS_MIN;
    g.n_chunk = linear_min(most > 0 ? most : 1, linear_ceil_div(UNITS_WANTED, n_panel));
    return g;
}

struct linear_grid linear_grid(const struct k_linear *a)
{
    return grid(a->m, a->panel_hi - a->panel_lo, (int64_t)linear_row_bytes(a->w.type, a->w.k));
}

struct linear_grid linear_dx_grid(const struct k_linear_dx *a)
{
    int64_t n = linear_outputs(&a->w, a->panel_lo, a->panel_hi);
    return grid(a->m, linear_panels(a->w.k), (int64_t)linear_row_bytes(a->w.type, n));
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

struct linear_piece linear_grid_next(const struct linear_grid *g, int64_t *u, int64_t hi)
{
    int64_t chunk = *u % g->n_chunk, column = *u / g->n_chunk;
    int64_t span = column / g->n_panel;
    int64_t chunk_end = linear_min(g->n_chunk, chunk + (hi - *u));
    int64_t span_lo = part_start(g->n_block, g->n_span, span);
    int64_t blocks = part_start(g->n_block, g->n_span, span + 1) - span_lo;
    struct linear_piece p = {.panel = column % g->n_panel,
                             .block_lo = span_lo + part_start(blocks, g->n_chunk, chunk),
                             .block_hi = span_lo + part_start(blocks, g->n_chunk, chunk_end)};
    *u += chunk_end - chunk;
    return p;
}

struct linear_tiles linear_dw_tiles(const struct k_linear_dw *a)
{
    struct linear_tiles t = {.n = a->n, .k = a->k};
    t.n_parts = linear_ceil_div(a->n, LINEAR_TILE_N);
    for (int64_t width = LINEAR_TILE_K; width >= K_NR; width /= 2) {
        t.k_parts = linear_ceil_div(a->k, width);
        if (t.n_parts * t.k_parts >= UNITS_WANTED)
            break;
    }
    return t;
}

struct linear_rect linear_tile_at(const struct linear_tiles *t, int64_t unit)
{
    int64_t i = unit / t->k_parts, j = unit % t->k_parts;
    int64_t blocks = linear_ceil_div(t->n, LINEAR_MR), panels = linear_panels(t->k);
    struct linear_rect r = {.n_lo = part_start(blocks, t->n_parts, i) * LINEAR_MR,
                            .n_hi = part_start(blocks, t->n_parts, i + 1) * LINEAR_MR,
                            .k_lo = part_start(panels, t->k_parts, j) * K_NR,
                            .k_hi = part_start(panels, t->k_parts, j + 1) * K_NR};
    r.n_hi = linear_min(r.n_hi, t->n);
    r.k_hi = linear_min(r.k_hi, t->k);
    return r;
}
