/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed linear algebra: what all variants share and no header needs to inline. Sizes of packed
 * weights and rows, and how a product is cut into units (kernels/linear.h says why).
 *
 * Thread: any; pure functions.
 */
#include "kernels/linear.h"

enum {
    SPAN_BYTES = 8 << 20, /* packed rows of a span: a good part of a last-level cache */
    SPAN_ROWS = 1024,     /* bounds the sums that a thread keeps between blocks of inputs */
    UNITS_WANTED = 256,   /* enough for 64 threads to end together */
    CHUNK_BLOCKS_MIN = 2  /* fewer rows would not repay the panel's way into the core */
};

static int64_t align64(int64_t bytes)
{
    return linear_ceil_div(bytes, 64) * 64;
}

size_t k_weight_bytes(enum k_type type, int64_t n, int64_t k)
{
    int64_t panels = linear_panels(n);
    size_t bytes = (size_t)panels * linear_panel_bytes(type, k);
    if (type == K_INT8)
        bytes += (size_t)(panels * linear_groups(k)) * K_NR * sizeof(float);
    return bytes;
}

void k_weight_bind(struct k_weight *w, enum k_type type, int64_t n, int64_t k, void *data)
{
    *w = (struct k_weight){.type = type, .n = n, .k = k, .data = data};
    if (type == K_INT8)
        w->scale = (float *)(void *)((char *)data +
                                     (size_t)linear_panels(n) * linear_panel_bytes(type, k));
}

static size_t row_bytes(enum k_type weight_type, int64_t k)
{
    size_t elem = weight_type == K_F32 ? sizeof(float) : sizeof(k_bf16);
    return (size_t)linear_k_stored(weight_type, k) * elem;
}

size_t k_rows_bytes(enum k_type weight_type, int64_t m, int64_t k)
{
    return (size_t)align64(m * (int64_t)row_bytes(weight_type, k));
}

struct linear_grid linear_grid(int64_t m, int64_t n_panel, enum k_type type, int64_t k)
{
    int64_t blocks = rows_blocks(m), bytes = (int64_t)row_bytes(type, k);
    int64_t rows = linear_min(SPAN_ROWS, SPAN_BYTES / (bytes ? bytes : 1));
    int64_t span = rows < LINEAR_MR ? 1 : rows / LINEAR_MR;
    struct linear_grid g = {.n_block = blocks, .n_panel = n_panel, .n_chunk = 1};
    g.n_span = linear_ceil_div(blocks, span);
    if (g.n_span > 0 && n_panel > 0) {
        int64_t per_span = blocks / g.n_span;
        int64_t most = per_span / CHUNK_BLOCKS_MIN;
        g.n_chunk = linear_min(most ? most : 1, linear_ceil_div(UNITS_WANTED, n_panel));
    }
    return g;
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
